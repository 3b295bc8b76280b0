"""torchaudio's recursive filters, by operators of the same schemas where torchaudio is not installed."""

from __future__ import annotations

import importlib.util

import pytest
import torch

import opbridge

_FEEDBACK = 0.995


def _lfilter(samples: torch.Tensor, flipped: torch.Tensor, padded: torch.Tensor) -> torch.Tensor:
    order = flipped.shape[1] - 1
    for at in range(samples.shape[2]):
        window = padded[:, :, at : at + order + 1]
        padded[:, :, at + order] = samples[:, :, at] - (window * flipped).sum(-1)
    return padded


def _overdrive(waveform, temp, last_in, last_out, output):
    for at in range(temp.shape[1]):
        last_out.copy_(temp[:, at] - last_in + _FEEDBACK * last_out)
        last_in.copy_(temp[:, at])
        output[:, at] = waveform[:, at] * 0.5 + last_out * 0.75
    return last_in, last_out, output


@pytest.fixture(scope="module", autouse=True)
def operators():
    if importlib.util.find_spec("torchaudio") is not None:
        import torchaudio  # noqa: F401 - the import registers the operators

        yield
        return
    library = torch.library.Library("torchaudio", "FRAGMENT")
    library.define("_lfilter_core_loop(Tensor input, Tensor a_flipped, Tensor(a!) padded_output) -> Tensor(a!)")
    library.define(
        "_overdrive_core_loop(Tensor waveform, Tensor temp, Tensor(a!) last_in, Tensor(b!) last_out, Tensor(c!) output)"
        " -> (Tensor(a!), Tensor(b!), Tensor(c!))"
    )
    library.impl("_lfilter_core_loop", _lfilter, "CPU")
    library.impl("_overdrive_core_loop", _overdrive, "CPU")
    yield
    library._destroy()


class Filter(torch.nn.Module):
    """A filter over the samples of each channel, as `torchaudio.functional.lfilter` calls it."""

    def __init__(self, coefficients: list[list[float]]) -> None:
        super().__init__()
        self.register_buffer("coefficients", torch.tensor(coefficients))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        order = self.coefficients.shape[1] - 1
        padded = torch.zeros(*x.shape[:2], x.shape[2] + order, dtype=x.dtype)
        torch.ops.torchaudio._lfilter_core_loop(x, self.coefficients.flip(1).to(x.dtype).contiguous(), padded)
        return padded[:, :, order:]


def _samples(length: int, channels: int = 1) -> torch.Tensor:
    return torch.randn(2, channels, length, generator=torch.Generator().manual_seed(length))


@pytest.mark.parametrize(
    "coefficients",
    [
        [[1.0]],
        [[1.0, -0.9]],
        [[1.0, -1.9444, 0.9459]],  # a high-pass of 100 Hz at 16 kHz, whose poles are close to each other
        [[1.0, 0.2, -0.3, 0.1, 0.05]],
        [[1.0, -0.5, 0.2], [1.0, 0.9, 0.1]],
    ],
)
def test_filters_of_several_orders(coefficients):
    found = opbridge.export(Filter(coefficients), _samples(200, len(coefficients))).verification
    assert found is not None and found.ok and not any(each.worst.forgiven for each in found.outputs)


@pytest.mark.slow
def test_a_length_that_a_run_tells():
    program = opbridge.export(Filter([[1.0, -1.8, 0.85]]), _samples(50), dynamic_shapes=({2: "time"},))
    for length in (1, 2, 3, 31, 32, 33, 500):
        assert opbridge.verify(program, Filter([[1.0, -1.8, 0.85]]), (_samples(length),)).ok


@pytest.mark.parametrize("length", [1, 2, 8, 9])
def test_lengths_around_powers_of_two(length):
    assert opbridge.export(Filter([[1.0, 0.5, -0.25]]), _samples(length)).verification.ok


def test_samples_before_the_first_one_count():
    class Continued(torch.nn.Module):
        def forward(self, x: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
            padded = torch.cat([before, torch.zeros_like(x)], -1)
            return torch.ops.torchaudio._lfilter_core_loop(x, torch.tensor([[0.2, -0.6, 1.0]]), padded)

    found = opbridge.export(Continued(), (_samples(20), _samples(2))).verification
    assert found is not None and found.ok


def test_an_unstable_filter_overflows_as_in_pytorch():
    found = opbridge.export(Filter([[1.0, -3.0]]), _samples(120)).verification
    assert found is not None and found.ok


@pytest.mark.parametrize("dynamic", [None, ({1: "time"},)])
def test_overdrive(dynamic):
    class Overdrive(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            last_in, last_out, output = torch.zeros(x.shape[0]), torch.ones(x.shape[0]), torch.zeros_like(x)
            torch.ops.torchaudio._overdrive_core_loop(x, x.tanh(), last_in, last_out, output)
            return last_in, last_out, output

    found = opbridge.export(Overdrive(), _samples(40)[:, 0], dynamic_shapes=dynamic).verification
    assert found is not None and found.ok
