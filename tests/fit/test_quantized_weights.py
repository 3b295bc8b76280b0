"""Quantised weights are stored as ONNX Runtime takes them, and give the same numbers."""

from __future__ import annotations

import torch
import torch.ao.quantization.fx._decomposed  # defines the operators
from helpers.matching import assert_matches

import opbridge

ops = torch.ops.quantized_decomposed
WEIGHT = torch.randint(-128, 127, (6, 4), dtype=torch.int8)
# Scales of six bits: products with the weights are exact, in whichever order they are taken.
SCALES, ZEROS = torch.randint(26, 64, (6,)) / 64, torch.randint(-3, 3, (6,))
BIAS = torch.randn(6)


def _types(program: opbridge.Program) -> list[str]:
    return [node.op_type for node in program.model.graph]


def _dtypes(program: opbridge.Program) -> set[str]:
    return {value.dtype.name for value in program.model.graph.initializers.values()}


def _per_channel() -> torch.Tensor:
    return ops.dequantize_per_channel(WEIGHT, SCALES, ZEROS, 0, -128, 127, torch.int8)


def test_a_transposed_weight():
    program = assert_matches(lambda x: x @ _per_channel().t(), torch.randn(3, 4))
    assert _types(program) == ["DequantizeLinear", "MatMul"]
    assert "FLOAT" in _dtypes(program) and "INT8" in _dtypes(program)


def test_a_transposed_weight_that_is_a_result():
    assert_matches(lambda x: (x + 1, _per_channel().t()), torch.randn(3, 4))


def test_gemm():
    program = assert_matches(lambda x: torch.nn.functional.linear(x, _per_channel(), BIAS), torch.randn(3, 4))
    assert _types(program) == ["DequantizeLinear", "MatMul", "Add"]


def test_a_weight_that_is_cast_and_scaled():
    x = torch.randint(-16, 16, (3, 4)) / 8
    program = assert_matches(lambda x: (x @ WEIGHT.t().float()) * SCALES, x)
    assert _types(program) == ["DequantizeLinear", "MatMul"]
    old = assert_matches(lambda x: (x @ WEIGHT.t().float()) * SCALES, x, opset_version=12)
    assert "DequantizeLinear" not in _types(old)


def test_a_product_that_is_read_twice_is_not_scaled():
    def model(x):
        product = x @ WEIGHT.t().float()
        return product, product * SCALES

    assert_matches(model, torch.randint(-16, 16, (3, 4)) / 8)


def test_groups():
    narrow = torch.randint(-8, 8, (6, 8), dtype=torch.int8)
    for size in (4, 8):
        scales, zeros = torch.rand(6, 8 // size) + 0.1, torch.randint(-3, 3, (6, 8 // size))

        def model(x, size=size, scales=scales, zeros=zeros):
            weight = ops.dequantize_per_channel_group(narrow, scales, zeros, -8, 7, torch.int8, size, torch.float32)
            return x @ weight.t()

        program = assert_matches(model, torch.randn(3, 8))
        assert _types(program) == ["DequantizeLinear", "MatMul"]
        assert "INT4" in _dtypes(program) and "INT8" not in _dtypes(program)


def test_a_constant_that_is_quantised():
    weight = torch.randn(6, 4)
    program = assert_matches(
        lambda x: x @ torch.fake_quantize_per_channel_affine(weight, SCALES, ZEROS.int(), 0, -127, 127).t(),
        torch.randn(3, 4),
    )
    assert _types(program) == ["DequantizeLinear", "MatMul"]


def test_what_is_dequantised_twice():
    def model(x):
        q = ops.quantize_per_tensor(x, 0.1, 3, 0, 255, torch.uint8)
        return [ops.dequantize_per_tensor(q, 0.1, 3, 0, 255, torch.uint8) + i for i in (1, 2)]

    assert _types(assert_matches(model, torch.randn(3, 4))).count("DequantizeLinear") == 1
