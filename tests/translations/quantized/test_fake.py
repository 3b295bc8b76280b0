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


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("axis", [0, 1])
def test_scales_that_the_model_computes_for_a_dynamic_number_of_channels(axis, size):
    def fake(x):
        scale = x.abs().amax(1 - axis) / 127
        return torch.fake_quantize_per_channel_affine(
            x, scale, torch.zeros_like(scale, dtype=torch.int32), axis, -128, 127
        )

    others = [(torch.randn(5, 2),), (torch.randn(1, 7),)]
    assert_matches(fake, torch.randn(2, size), others=others, dynamic_shapes=({0: "n", 1: "m"},))


@pytest.mark.parametrize("zero", [0, 3])
def test_weights_in_the_middle_between_two_steps(zero):
    torch.manual_seed(0)
    weight = torch.randn(8, 6)
    scales = weight.abs().amax(1) / 127.5
    zeros = torch.full((8,), zero, dtype=torch.int32)

    def fake(x):
        channels = torch.fake_quantize_per_channel_affine(weight, scales, zeros, 0, -128, 127)
        return x + channels, x + torch.fake_quantize_per_tensor_affine(weight, float(scales[0]), zero, -128, 127)

    assert_matches(fake, torch.zeros(8, 6), rtol=0, atol=1e-6)


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
