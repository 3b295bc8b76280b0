"""Tensors in another layout."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
import torch

from opbridge.onnx.layouts import Layout, laid_out, weight_in_layout, weight_name
from opbridge.onnx.torch_tensor import TorchTensor

NUMBERS = torch.arange(24.0).reshape(2, 3, 4)
LAYOUTS = [
    (Layout("transpose", (2, 0, 1)), NUMBERS.permute(2, 0, 1)),
    (Layout("reshape", (4, 6)), NUMBERS.reshape(4, 6)),
    (Layout("select", (1, 2)), NUMBERS[:, 2]),
]


@pytest.mark.parametrize("make", [TorchTensor, lambda numbers: ir.Tensor(numbers.numpy())], ids=["torch", "numpy"])
@pytest.mark.parametrize(("layout", "expected"), LAYOUTS, ids=lambda value: getattr(value, "kind", ""))
def test_layouts(make, layout, expected):
    result = laid_out(make(NUMBERS), layout, "w")
    assert list(result.shape) == list(expected.shape) == layout.shape(list(NUMBERS.shape))
    np.testing.assert_array_equal(result.numpy(), expected.numpy())
    assert result.tobytes() == expected.contiguous().numpy().tobytes() and result.nbytes == expected.nbytes


def test_layouts_of_layouts_know_their_weight():
    result = TorchTensor(NUMBERS)
    for layout in (Layout("transpose", (1, 0, 2)), Layout("reshape", (3, 8)), Layout("select", (0, 1))):
        result = laid_out(result, layout, "w" if weight_name(result) is None else "other")
    assert weight_name(result) == "w"
    found = weight_in_layout(NUMBERS, result)
    assert found is not None
    np.testing.assert_array_equal(result.numpy(), found.numpy())


def test_later_changes_of_the_weight_are_read():
    numbers = torch.zeros(2, 3)
    result = laid_out(laid_out(TorchTensor(numbers), Layout("transpose", (1, 0)), "w"), Layout("reshape", (6,)), "w")
    numbers.fill_(5)
    assert (result.numpy() == 5).all()


def test_complex_numbers_are_pairs():
    numbers = torch.randn(2, 3, dtype=torch.complex64)
    result = laid_out(TorchTensor(numbers), Layout("transpose", (1, 0, 2)), "w")
    np.testing.assert_array_equal(result.numpy(), torch.view_as_real(numbers.t()).numpy())


def test_no_layout_and_one_that_does_not_fit():
    plain = TorchTensor(NUMBERS)
    assert weight_name(plain) is None and weight_in_layout(NUMBERS, plain) is NUMBERS
    for layout, _ in LAYOUTS:
        assert weight_in_layout(torch.zeros(5), laid_out(plain, layout, "w")) is None
    plain.metadata_props["opbridge.layout"] = "something else"
    assert weight_in_layout(NUMBERS, plain) is None
