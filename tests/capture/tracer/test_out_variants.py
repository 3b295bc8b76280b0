"""Operators that write to `out`, recorded as those without."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches

from opbridge.capture.tracer.out_variants import functional_form

aten = torch.ops.aten
X, Y = torch.randn(3, 4), torch.randn(3, 4)


def test_the_overload_without_out():
    assert functional_form(aten.add.out) is aten.add.Tensor
    assert functional_form(aten.max.dim_max) is aten.max.dim
    assert functional_form(aten.arange.out) is aten.arange.default
    assert functional_form(aten.add.Tensor) is None
    assert functional_form(aten.add_.Tensor) is None


@pytest.mark.slow
def test_a_tensor_of_the_same_shape_is_written_to():
    def model(x, y):
        z = torch.zeros(x.shape[0], 8)
        part = z[:, 2:6]
        torch.add(x, y, alpha=2, out=part)
        return z, part * 2

    assert_matches(model, X, Y)
    assert_matches(
        model, X, Y, others=[(torch.randn(5, 4), torch.randn(5, 4))], dynamic_shapes=({0: "rows"}, {0: "rows"})
    )


def test_a_tensor_of_another_shape_is_resized():
    def model(x):
        values, places = torch.empty(0), torch.empty(0, dtype=torch.int64)
        torch.max(x, 1, out=(values, places))
        values += 1
        return values.shape[0] * values, places

    assert_matches(model, X)


def test_a_whole_tensor_costs_no_node():
    def model(x, y):
        z = torch.empty_like(x)
        torch.mul(x, y, out=z)
        return z

    program = assert_matches(model, X, Y)
    assert "Mul" in [node.op_type for node in program.model.graph]


def test_the_dtype_of_out_is_kept():
    def model(x, y):
        z = torch.empty(x.shape, dtype=torch.float64)
        torch.add(x, y, out=z)
        w = torch.empty(4)
        torch.arange(4, out=w)
        return z, w

    assert_matches(model, X, Y)
