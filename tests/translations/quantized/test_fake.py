"""Fake quantisation, and what its observers forbid."""

from __future__ import annotations

import pytest
import torch
import torch.ao.quantization as quantization
from helpers.matching import assert_matches

import opbridge


@pytest.mark.parametrize(("low", "high"), [(-128, 127), (0, 255), (0, 127), (-127, 127), (-8, 7), (0, 1023)])
def test_per_tensor(low, high):
    assert_matches(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, low, high), torch.randn(3, 4) * 9)


def test_per_tensor_with_parameters_that_are_tensors():
    def fake(x, scale, zero):
        return torch.fake_quantize_per_tensor_affine(x, scale, zero, -128, 127)

    assert_matches(fake, torch.randn(3, 4), torch.tensor(0.1), torch.tensor(3, dtype=torch.int32))


@pytest.mark.parametrize("axis", [0, 1])
def test_per_channel(axis):
    x = torch.randn(3, 4)
    scales, zeros = torch.rand(x.shape[axis]) + 0.1, torch.randint(-3, 3, (x.shape[axis],), dtype=torch.int32)
    assert_matches(lambda x: torch.fake_quantize_per_channel_affine(x, scales, zeros, axis, -127, 127), x)


def _observed() -> torch.nn.Module:
    torch.manual_seed(0)
    model = torch.nn.Sequential(quantization.QuantStub(), torch.nn.Linear(4, 3)).train()
    model.qconfig = quantization.get_default_qat_qconfig("fbgemm")
    prepared = quantization.prepare_qat(model)
    prepared(torch.randn(8, 4))
    return prepared.eval()


def test_observers_that_are_off():
    model = _observed().apply(quantization.disable_observer)
    program = assert_matches(model, torch.randn(2, 4), rtol=0, atol=1e-6)
    weight = program.model.graph.initializers
    assert any(value.dtype.name == "INT8" and value.shape.rank() == 2 for value in weight.values())


def test_observers_that_are_on_are_refused():
    with pytest.raises(opbridge.MissingOperators, match="disable_observer"):
        opbridge.export(_observed(), torch.randn(2, 4))
