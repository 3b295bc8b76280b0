"""Fourier transforms, of whole signals and of their windows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.matching import assert_matches
from helpers.tables import assert_all_match
from torch.export import Dim

import opbridge

fft = torch.fft


def pairs(*shape: int) -> torch.Tensor:
    return torch.complex(torch.randn(*shape), torch.randn(*shape))


@pytest.mark.parametrize("length", [1, 2, 7, 16, 400, 512, 600, 1024, 1009, 2048, 3000])
def test_lengths(length: int) -> None:
    table = {
        "fft": lambda x, z, h: fft.fft(z),
        "ifft": lambda x, z, h: fft.ifft(z),
        "rfft": lambda x, z, h: fft.rfft(x),
        "fft of real": lambda x, z, h: fft.fft(x),
        "ihfft": lambda x, z, h: fft.ihfft(x),
    }
    if length > 1:
        table["irfft"] = lambda x, z, h: fft.irfft(h, length)
        table["hfft"] = lambda x, z, h: fft.hfft(h, length)
    inputs = torch.randn(3, length), pairs(3, length), pairs(3, length // 2 + 1)
    # Beside the largest coefficient, which is about the root of the length, float32 has seven digits.
    assert_all_match(table, *inputs, rtol=1e-5, atol=2e-6 * max(length, 16) ** 0.5 * 4)


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["ortho", "forward", "backward"])
def test_several_dimensions(norm: str) -> None:
    table: dict[str, Any] = {}
    for name in ("fft2", "ifft2", "fftn", "ifftn", "irfft2", "irfftn", "hfft2", "hfftn"):
        table[name] = lambda x, z, name=name: getattr(fft, name)(z, norm=norm)
    for name in ("rfft2", "rfftn", "ihfft2", "ihfftn"):
        table[name] = lambda x, z, name=name: getattr(fft, name)(x, norm=norm)
    table["padded"] = lambda x, z: fft.fft(z, n=20, dim=1, norm=norm)
    table["cut"] = lambda x, z: fft.rfft(x, n=5, dim=1, norm=norm)
    table["some dimensions"] = lambda x, z: fft.fftn(z, dim=(0, 2), norm=norm)
    table["other order"] = lambda x, z: (fft.rfftn(x, dim=(2, 0), norm=norm), fft.irfftn(z, dim=(2, 0), norm=norm))
    table["sizes"] = lambda x, z: fft.rfft2(x, s=(5, 9), norm=norm)
    assert_all_match(table, torch.randn(3, 6, 8), pairs(3, 6, 8), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_doubles_and_opset_18() -> None:
    table = {
        "fft": lambda x: fft.fft(x),
        "rfft": lambda x: fft.rfft(x.real),
        "irfft": lambda x: fft.irfft(x),
        "long": lambda x: fft.fft(x, n=600),
        "power of two": lambda x: fft.fft(x, n=512),
    }
    assert_all_match(table, pairs(3, 100).to(torch.complex128), opset_version=18)


def test_shifts() -> None:
    table = {
        "fftshift": lambda z: fft.fftshift(fft.fft(z), dim=-1),
        "ifftshift": lambda z: fft.ifftshift(z),
        "frequencies": lambda z: z * fft.fftfreq(7),
    }
    assert_all_match(table, pairs(3, 7), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_any_batch_and_length() -> None:
    batch, length = Dim("batch"), Dim("length", min=2, max=4000)
    assert_matches(
        lambda x: fft.irfft2(fft.rfft2(x) * 2),
        torch.randn(2, 6, 8),
        dynamic_shapes=({0: batch},),
        others=[(torch.randn(5, 6, 8),)],
    )
    for function in (fft.rfft, lambda x: fft.fft(torch.complex(x, -x), norm="ortho"), lambda x: fft.ihfft(x)):
        assert_matches(
            function,
            torch.randn(2, 30),
            dynamic_shapes=({1: length},),
            others=[(torch.randn(2, 100),), (torch.randn(2, 77),)],
            rtol=1e-4,
            atol=1e-4,
        )


def test_lengths_that_need_too_large_a_matrix() -> None:
    with pytest.raises(opbridge.MissingOperators, match="prime factor"):
        opbridge.export(fft.fft, (pairs(1, 4099),), verify=False)


# Windows

WINDOWS: dict[str, dict[str, Any]] = {
    "plain": {"n_fft": 16},
    "hop": {"n_fft": 16, "hop_length": 5},
    "window": {"n_fft": 16, "hop_length": 4, "window": torch.hann_window(16)},
    "short window": {"n_fft": 16, "win_length": 11, "window": torch.hann_window(11)},
    "short": {"n_fft": 16, "win_length": 12},
    "normalized": {"n_fft": 16, "normalized": True},
    "both sides": {"n_fft": 16, "onesided": False},
    "odd": {"n_fft": 15},
}


@pytest.mark.parametrize("shape", [(2, 100), (100,)], ids=str)
def test_stft(shape: tuple[int, ...]) -> None:
    table = {
        name: lambda x, options=options: torch.stft(x, return_complex=True, **options)
        for name, options in WINDOWS.items()
    }
    table["not centred"] = lambda x: torch.stft(x, 16, center=False, return_complex=True)
    table["zeros before"] = lambda x: torch.stft(x, 16, pad_mode="constant", return_complex=True)
    table["complex"] = lambda x: torch.stft(torch.complex(x, -x), 16, center=False, return_complex=True)
    assert_all_match(table, torch.randn(*shape), others=[(torch.randn(*shape),)], rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [(2,), ()], ids=str)
def test_istft(batch: tuple[int, ...]) -> None:
    for name, options in WINDOWS.items():
        if name == "odd":
            continue  # which torch.export cannot capture
        kept = options["n_fft"] if options.get("onesided") is False else options["n_fft"] // 2 + 1
        table = {
            "plain": lambda z, options=options: torch.istft(z, **options),
            "shorter": lambda z, options=options: torch.istft(z, length=50, **options),
            "longer": lambda z, options=options: torch.istft(z, length=53, **options),
        }
        assert_all_match(table, pairs(*batch, kept, 20), rtol=1e-3, atol=1e-3)
    complex_result = lambda z: torch.istft(z, 16, onesided=False, return_complex=True)  # noqa: E731
    assert_matches(complex_result, pairs(*batch, 16, 20), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_windows_in_double() -> None:
    window = torch.hann_window(16, dtype=torch.float64)
    spectrum = lambda x: torch.stft(x, 16, window=window, return_complex=True)  # noqa: E731
    assert_matches(spectrum, torch.randn(2, 100).double())
    assert_matches(lambda x: torch.istft(spectrum(x), 16, window=window), torch.randn(2, 100).double())
    complex_result = lambda z: torch.istft(z, 16, onesided=False, return_complex=True)  # noqa: E731
    assert_matches(complex_result, pairs(2, 16, 20).to(torch.complex128))


@pytest.mark.slow
def test_windows_of_any_signal() -> None:
    window = torch.hann_window(16)
    assert_matches(
        lambda x: torch.stft(x, 16, window=window, return_complex=True).abs(),
        torch.randn(2, 100),
        dynamic_shapes=({0: Dim("batch"), 1: Dim("length", min=20, max=4000)},),
        others=[(torch.randn(3, 333),)],
        rtol=1e-4,
        atol=1e-4,
    )
    assert_matches(
        lambda x: torch.istft(torch.stft(x, 16, window=window, return_complex=True), 16, window=window),
        torch.randn(2, 100),
        dynamic_shapes=({0: Dim("batch")},),
        others=[(torch.randn(3, 100),)],
        rtol=1e-4,
        atol=1e-4,
    )
