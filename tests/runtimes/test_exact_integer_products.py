"""Products of int8 are exact in a session of opbridge, also on x86 processors without VNNI."""

from __future__ import annotations

import onnxruntime
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # defines the operators
from helpers.matching import assert_matches

import opbridge
from opbridge.runtimes.onnxruntime import integer_products

ops = torch.ops.quantized_decomposed
INT8 = (0.02, 3, -128, 127, torch.int8)


def _rounded(x):
    return ops.dequantize_per_tensor(ops.quantize_per_tensor(x, *INT8), *INT8)


@pytest.mark.parametrize("count", [1, 2], ids=["a weight of its own", "a zero point that weights share"])
def test_weights_of_the_whole_range(count):
    weights = torch.full((count, 4, 4, 3, 3), 127, dtype=torch.int8)

    def model(x):
        for weight in weights:
            filters = ops.dequantize_per_tensor(weight, 0.0005, 0, -128, 127, torch.int8)
            x = torch.nn.functional.conv2d(_rounded(x), filters, padding=1)
        return _rounded(x)

    program = assert_matches(model, torch.full((1, 4, 5, 5), 2.4), rtol=0, atol=0.021)  # a step
    assert program.session().note == ("" if integer_products.are_exact() else integer_products.NOTE)


def test_a_model_without_quantised_activations_is_computed_as_it_is():
    program = opbridge.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),), verify=False)
    assert program.session().note == ""


def test_a_processor_whose_products_saturate(monkeypatch):
    monkeypatch.setattr(integer_products, "are_exact", lambda: False)
    program = opbridge.export(_rounded, (torch.randn(3, 4),), verify=False)
    assert program.session().note == integer_products.NOTE
    assert opbridge.session(program.to_bytes(), options=onnxruntime.SessionOptions()).note == ""
