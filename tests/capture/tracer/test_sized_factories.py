"""Functions that make tensors of a size, with one that is dynamic or that data decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers.matching import assert_matches

import opbridge

OF_SIZES: dict[str, Callable[[int], torch.Tensor]] = {
    "linspace": lambda n: torch.linspace(-1, 2, n),
    "linspace of integers": lambda n: torch.linspace(0, 9, n, dtype=torch.int64),
    "logspace": lambda n: torch.logspace(-1, 2, n),
    "logspace, base": lambda n: torch.logspace(0, 3, n, base=2.0, dtype=torch.float64),
    "hann_window": torch.hann_window,
    "hann_window, symmetric": lambda n: torch.hann_window(n, periodic=False),
    "hamming_window": lambda n: torch.hamming_window(n, True, 0.6, 0.4),
    "hamming_window, symmetric": lambda n: torch.hamming_window(n, False),
    "blackman_window": lambda n: torch.blackman_window(n, dtype=torch.float64),
    "blackman_window, symmetric": lambda n: torch.blackman_window(n, periodic=False),
    "fftfreq": torch.fft.fftfreq,
    "fftfreq, spacing": lambda n: torch.fft.fftfreq(n, d=0.5),
    "rfftfreq": lambda n: torch.fft.rfftfreq(n, 0.25),
}


@pytest.mark.parametrize("name", OF_SIZES)
def test_of_a_dynamic_size(name: str) -> None:
    others = [[torch.zeros(count)] for count in (1, 2, 3, 7, 10)]
    assert_matches(
        lambda x: OF_SIZES[name](x.shape[0]),
        torch.zeros(8),
        others=others,
        dynamic_shapes={"x": {0: "n"}},
        rtol=1e-5,
        atol=1e-6,
    )


@pytest.mark.parametrize("name", ["hann_window", "fftfreq", "logspace"])
def test_of_a_size_that_data_decide(name: str) -> None:
    others = [[torch.tensor(count)] for count in (1, 2, 5)]
    assert_matches(lambda n: OF_SIZES[name](n.item()), torch.tensor(6), others=others, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("function", [torch.tril_indices, torch.triu_indices])
@pytest.mark.parametrize("offset", [-1, 0, 2])
def test_indices_of_a_triangle(function: Callable[..., torch.Tensor], offset: int) -> None:
    others = [[torch.zeros(shape)] for shape in ((1, 1), (4, 4), (2, 7), (7, 2))]
    assert_matches(
        lambda x: function(*x.shape, offset),
        torch.zeros(3, 5),
        others=others,
        dynamic_shapes={"x": {0: "rows", 1: "columns"}},
    )


@pytest.mark.slow
def test_other_settings_are_left_to_torch() -> None:
    def window(x: torch.Tensor) -> Any:
        return torch.hann_window(x.shape[0], layout=torch.strided), torch.hann_window(4)

    with pytest.raises(opbridge.CaptureError, match="n == 8"):
        opbridge.export(window, (torch.zeros(8),), dynamic_shapes={"x": {0: "n"}})
