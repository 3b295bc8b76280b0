"""ONNX Runtime makes products of integers of dequantised ones."""

from __future__ import annotations

import collections

import onnx
import onnxruntime
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # defines the operators
from helpers.matching import assert_matches

import opbridge

ops = torch.ops.quantized_decomposed
INT8 = (0.02, 3, -128, 127, torch.int8)
WEIGHT = torch.randint(-128, 127, (6, 4), dtype=torch.int8)


def _rounded(x, given=INT8):
    return ops.dequantize_per_tensor(ops.quantize_per_tensor(x, *given), *given)


def _fused(program: opbridge.Program, folder) -> collections.Counter[str]:
    program.save(folder / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    return collections.Counter(node.op_type for node in onnx.load(folder / "optimized.onnx").graph.node)


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_linear_layer(shape, dynamic, tmp_path):
    """Without the correction, ONNX Runtime 1.31 refuses int8 of three dimensions, and has no product for two."""
    bias = torch.randn(6)

    def model(x):
        weight = ops.dequantize_per_tensor(WEIGHT, 0.01, 0, -128, 127, torch.int8)
        return torch.nn.functional.linear(_rounded(x), weight, bias)

    shapes = ({0: "n"},) if dynamic else None
    program = assert_matches(model, torch.randn(shape), rtol=1e-4, atol=1e-5, dynamic_shapes=shapes)
    assert _fused(program, tmp_path)["MatMulIntegerToFloat"] == 1


def test_an_int8_tensor_that_is_read_twice(tmp_path):
    weight = torch.randint(-128, 127, (4, 4, 3, 3), dtype=torch.int8)

    def model(x):
        # Of a scale of 1 / 101, no sum of products lies halfway between two steps: both runtimes round it alike.
        filters = ops.dequantize_per_tensor(weight, 1 / 101, 0, -128, 127, torch.int8)
        first = _rounded(torch.nn.functional.conv2d(_rounded(x), filters, padding=1))
        second = _rounded(torch.nn.functional.conv2d(first, filters, padding=1))
        return _rounded(first + second)

    program = assert_matches(model, torch.randn(1, 4, 5, 5), rtol=0, atol=1e-6)
    fused = _fused(program, tmp_path)
    assert fused["QLinearConv"] == 2 and fused["QLinearAdd"] == 1


def test_int8_that_is_a_result_stays_int8():
    def model(x):
        q = ops.quantize_per_tensor(x, *INT8)
        return q, ops.dequantize_per_tensor(q, *INT8) + 1, ops.dequantize_per_tensor(q, *INT8) - 1

    assert_matches(model, torch.randn(3, 4))
