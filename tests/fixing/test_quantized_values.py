"""Values of quantized models that are repaired: they still are compared with the model's."""

from __future__ import annotations

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # defines the operators

import opbridge
from opbridge.capture import capture
from opbridge.verification.first_difference import first_difference
from opbridge.verification.intermediate import counterparts

_QUANTIZE = torch.ops.quantized_decomposed.quantize_per_tensor.default
_DEQUANTIZE = torch.ops.quantized_decomposed.dequantize_per_tensor.default
_RANGES = {torch.uint8: (0, 255), torch.int8: (-128, 127)}


class _Quantized(torch.nn.Module):
    """Quantizes, flattens, and dequantizes for two readers."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.settings = (0.05, 100 if dtype == torch.uint8 else 3, *_RANGES[dtype], dtype)
        self.pool, self.linear = torch.nn.MaxPool2d(2), torch.nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        stored = _QUANTIZE(x, *self.settings).flatten(1)
        one = self.linear(_DEQUANTIZE(stored, *self.settings))
        other = self.pool(_DEQUANTIZE(_QUANTIZE(x * 2, *self.settings), *self.settings))
        return one + other.sum()


@pytest.mark.parametrize("dtype", list(_RANGES))
def test_what_is_rounded_in_floats_is_compared(dtype: torch.dtype) -> None:
    model, args = _Quantized(dtype), (torch.linspace(-9, 9, 32).view(2, 1, 4, 4),)
    program = opbridge.export(model, args, target="tensorrt-rtx")
    assert not [node for node in program.model.graph if node.op_type == "QuantizeLinear"]
    taken = capture(model, args)
    found = counterparts(program.model.graph, taken.functional.graph)
    assert {"quantize_per_tensor", "quantize_per_tensor_1", "dequantize_per_tensor", "dequantize_per_tensor_1"} <= set(
        found
    )
    compared = first_difference(program.model, taken, args, {})
    assert compared.compared >= 7
    assert compared.difference is None or not compared.difference.is_beyond
    # A wrong scale is found where it is applied.
    node = found["dequantize_per_tensor_1"].producer()
    assert node is not None
    node.op_type = "Add"
    difference = first_difference(program.model, taken, args, {}).difference
    assert difference is not None and difference.is_beyond and difference.node == "dequantize_per_tensor_1"
