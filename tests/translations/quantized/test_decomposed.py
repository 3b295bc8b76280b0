"""quantized_decomposed: QuantizeLinear and DequantizeLinear with PyTorch's arguments, in all opsets."""

from __future__ import annotations

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # defines the operators
from helpers.matching import assert_matches

import opbridge

ops = torch.ops.quantized_decomposed
# Numbers that lie in the middle between two steps, far out, at both ends, and none.
INPUTS = [torch.tensor([[-1e9, -3.25, -0.5, 0.0], [0.25, 0.5, 0.75, 1e9]]), torch.zeros(0, 4), torch.randn(3, 4)]
RANGES = [
    (torch.int8, -128, 127),
    (torch.uint8, 0, 255),
    (torch.int8, -127, 127),
    (torch.uint8, 0, 127),
    (torch.int8, -8, 7),
]


def _types(program: opbridge.Program) -> list[str]:
    return [node.op_type for node in program.model.graph]


@pytest.mark.parametrize(("dtype", "low", "high"), RANGES)
@pytest.mark.parametrize("opset", [13, 18, 21])
def test_per_tensor(dtype, low, high, opset):
    zero = 3 if low < 3 < high else 0

    def quantize(x):
        return ops.quantize_per_tensor(x, 0.5, zero, low, high, dtype)

    def both(x):
        return ops.dequantize_per_tensor(quantize(x), 0.5, zero, low, high, dtype)

    shapes = {"dynamic_shapes": ({0: "n"},), "opset_version": opset}
    assert_matches(quantize, INPUTS[0], others=[[x] for x in INPUTS[1:]], **shapes)
    program = assert_matches(both, INPUTS[0], others=[[x] for x in INPUTS[1:]], **shapes)
    narrow = (low, high) not in ((-128, 127), (0, 255))
    assert _types(program) == ["QuantizeLinear", *["Clip"] * narrow, "DequantizeLinear"]


def test_infinities_are_limited():
    x = torch.tensor([float("inf"), float("-inf")])
    assert_matches(lambda x: ops.quantize_per_tensor(x, 0.1, 3, -128, 127, torch.int8), x)


@pytest.mark.parametrize("dtype", [torch.int16, torch.uint16, torch.int32])
@pytest.mark.parametrize("opset", [18, 21])
def test_wider_integers(dtype, opset):
    info = torch.iinfo(dtype)

    def both(x):
        given = (0.001, 7, info.min, info.max, dtype)
        return ops.dequantize_per_tensor(ops.quantize_per_tensor(x, *given), *given)

    assert_matches(both, torch.randn(3, 4), opset_version=opset)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves(dtype):
    def both(x):
        q = ops.quantize_per_tensor(x.to(dtype), 0.25, 3, -128, 127, torch.int8)
        return ops.dequantize_per_tensor(q, 0.25, 3, -128, 127, torch.int8, out_dtype=dtype).float()

    assert_matches(both, torch.randn(3, 4))


def test_parameters_that_are_tensors():
    scale, zero = torch.tensor(0.25), torch.tensor(3)
    limits = torch.tensor(-128), torch.tensor(127)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", scale)

        def forward(self, x):
            q = ops.quantize_per_tensor.tensor(x, self.scale, zero, -128, 127, torch.int8)
            p = ops.quantize_per_tensor.tensor2(x, self.scale, zero, *limits, torch.int8)
            return (
                ops.dequantize_per_tensor.tensor(q, self.scale, zero, -128, 127, torch.int8),
                ops.dequantize_per_tensor.tensor2(p, self.scale, zero, *limits, torch.int8),
            )

    program = assert_matches(Model(), torch.randn(3, 4))
    assert set(_types(program)) <= {"QuantizeLinear", "DequantizeLinear", "Identity"}


def test_parameters_that_only_a_run_tells():
    def both(x, scale, zero):
        q = ops.quantize_per_tensor.tensor(x, scale, zero, -128, 127, torch.int8)
        return q, ops.dequantize_per_tensor.tensor(q, scale, zero, -128, 127, torch.int8)

    x = torch.arange(-64.0, 64.0) / 4
    given = [(torch.tensor(0.5), torch.tensor(3)), (torch.tensor([0.125]), torch.tensor([-5]))]
    for scale, zero in given:
        assert_matches(both, x, scale, zero)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("opset", [13, 18, 21])
def test_per_channel(axis, opset):
    def both(x, scales, zeros):
        q = ops.quantize_per_channel(x, scales, zeros, axis % 3, -127, 127, torch.int8)
        return q, ops.dequantize_per_channel(q, scales, zeros, axis % 3, -127, 127, torch.int8)

    x = torch.randn(3, 4, 5)
    count = x.shape[axis]
    scales, zeros = torch.rand(count, dtype=torch.float64) + 0.1, torch.randint(-5, 5, (count,))
    assert_matches(lambda x: both(x, scales, zeros), x, opset_version=opset)
    assert_matches(both, x, scales, zeros, opset_version=opset)


def test_per_channel_without_zero_points():
    values, scales = torch.randint(-128, 127, (3, 4), dtype=torch.int8), torch.rand(3)
    assert_matches(lambda x: ops.dequantize_per_channel(x, scales, None, 0, -128, 127, torch.int8), values)


@pytest.mark.parametrize("opset", [18, 21])
@pytest.mark.parametrize("size", [4, 8, 16])
def test_per_channel_group(opset, size):
    scales, zeros = torch.rand(3, max(8 // size, 1)) + 0.1, torch.randint(-2, 2, (3, max(8 // size, 1)))

    def both(x):
        q = ops.quantize_per_channel_group(x, scales, zeros, -8, 7, torch.int8, size)
        return q, ops.dequantize_per_channel_group(q, scales, zeros, -8, 7, torch.int8, size, torch.float32)

    assert_matches(both, torch.randn(3, 8), opset_version=opset)


@pytest.mark.parametrize("opset", [18, 21])
def test_per_token(opset):
    def symmetric(x):
        scales, zeros = ops.choose_qparams_per_token(x, torch.int8)
        q = ops.quantize_per_token(x, scales, zeros, -128, 127, torch.int8)
        return q, ops.dequantize_per_token(q, scales, zeros, -128, 127, torch.int8, torch.float32)

    def asymmetric(x):
        scales, zeros = ops.choose_qparams_per_token_asymmetric(x, torch.int8)
        q = ops.quantize_per_token(x, scales, zeros, -128, 127, torch.int8)
        return zeros, q, ops.dequantize_per_token(q, scales, zeros, -128, 127, torch.int8, torch.float32)

    for model in (symmetric, asymmetric):
        assert_matches(
            model,
            torch.randn(2, 3, 8),
            others=[(torch.randn(5, 3, 8),)],
            dynamic_shapes=({0: "n"},),
            opset_version=opset,
        )


@pytest.mark.parametrize(
    ("low", "high", "dtype", "eps"),
    [
        (0, 255, torch.uint8, 1e-8),
        (0, 255, torch.uint8, 2**-12),
        (-128, 127, torch.int8, 1e-8),
        (0, 127, torch.uint8, 1e-8),
    ],
)
def test_ranges_of_one_input(low, high, dtype, eps):
    def dynamic(x):
        scale, zero = ops.choose_qparams.tensor(x, low, high, eps, dtype)
        q = ops.quantize_per_tensor.tensor(x, scale, zero, low, high, dtype)
        return scale, zero, q, ops.dequantize_per_tensor.tensor(q, scale, zero, low, high, dtype)

    others = [(torch.randn(7, 4),), (torch.rand(2, 4),), (-torch.rand(2, 4),)]
    assert_matches(dynamic, torch.randn(3, 4), others=others, dynamic_shapes=({0: "n"},))


def test_a_range_of_bytes_is_one_operator():
    def dynamic(x):
        scale, zero = ops.choose_qparams.tensor(x, 0, 255, 1e-8, torch.uint8)
        q = ops.quantize_per_tensor.tensor(x, scale, zero, 0, 255, torch.uint8)
        return ops.dequantize_per_tensor.tensor(q, scale, zero, 0, 255, torch.uint8)

    program = assert_matches(dynamic, torch.randn(3, 4))
    assert _types(program)[0] == "DynamicQuantizeLinear" and "QuantizeLinear" not in _types(program)


def test_symmetric_ranges():
    def dynamic(x):
        return ops.choose_qparams_symmetric.tensor(x, -127, 127, 1e-8, torch.int8)

    assert_matches(dynamic, torch.randn(3, 4), others=[(torch.zeros(3, 4),)])
