"""ONNX Runtime rounds no factor of a double matrix product."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches
from torch.export import Dim

EXACT = {"rtol": 1e-14, "atol": 1e-14}
X, Y = torch.randn(3, 4, dtype=torch.float64), torch.randn(4, 5, dtype=torch.float64)


@pytest.mark.parametrize(
    "product",
    [
        lambda x, y: (x @ y) * 0.6,
        lambda x, y: (x @ y) / 0.7,
        lambda x, y: (x * 0.1) @ y,
        lambda x, y: x @ (y / 3.0),
        lambda x, y: (x @ y).t() * 0.6,
        lambda x, y: (y.t() * 0.1) @ x.t(),
        lambda x, y: torch.addmm(torch.ones(5, dtype=x.dtype), x, y, beta=0.2, alpha=0.6),
        lambda x, y: torch.nn.functional.scaled_dot_product_attention(x[None], x[None], y.t()[None, :3, :4]),
    ],
)
def test_factors(product) -> None:
    assert_matches(product, X, Y, **EXACT)


def test_a_factor_that_float32_holds_stays_one_number() -> None:
    program = assert_matches(lambda x, y: (x @ y) * 0.5, X, Y, **EXACT)
    assert [node.op_type for node in program.model.graph] == ["MatMul", "Mul"]


def test_a_last_dimension_that_is_known_only_at_run_time() -> None:
    others = [[torch.randn(3, 4, dtype=torch.float64), torch.randn(4, 7, dtype=torch.float64)]]
    assert_matches(lambda x, y: (x @ y) * 0.6, X, Y, others=others, dynamic_shapes=({}, {1: Dim("n")}), **EXACT)


def test_other_dtypes_are_left_alone() -> None:
    program = assert_matches(lambda x, y: (x @ y) * 0.6, X.float(), Y.float())
    assert [node.op_type for node in program.model.graph] == ["MatMul", "Mul"]
