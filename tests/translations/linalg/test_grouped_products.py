"""Products of groups of rows with a matrix each."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches
from helpers.transformers_classes import grouped_product
from torch.export import Dim

import opbridge


def grouped_mm(
    x: torch.Tensor, w: torch.Tensor, *offs: torch.Tensor, dtype: torch.dtype = torch.bfloat16
) -> torch.Tensor:
    """The product in a dtype, of tensors of float32."""
    return torch.ops.aten._grouped_mm(x.to(dtype), w.to(dtype), *offs).float()


DIGITS = {"rtol": 4 * torch.finfo(torch.bfloat16).eps, "atol": 4 * torch.finfo(torch.bfloat16).eps}


def ends(*places: int) -> torch.Tensor:
    return torch.tensor(places, dtype=torch.int32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_rows_by_group(dtype):
    rows, weights = torch.randn(16, 8), torch.randn(3, 8, 16)
    others = [(rows, weights, ends(0, 0, 16)), (rows, weights, ends(16, 16, 16)), (rows, weights, ends(1, 2, 16))]

    def model(x: torch.Tensor, w: torch.Tensor, o: torch.Tensor) -> torch.Tensor:
        return grouped_mm(x, w, o, dtype=dtype)

    digits = 1e-5 if dtype == torch.float32 else 4 * torch.finfo(dtype).eps
    assert_matches(model, rows, weights, ends(4, 9, 16), others=others, rtol=digits, atol=digits)


def test_any_number_of_rows():
    weights = torch.randn(3, 8, 16)
    assert_matches(
        lambda x, o: grouped_mm(x, weights, o),
        torch.randn(16, 8),
        ends(4, 9, 16),
        dynamic_shapes=({0: Dim("rows")}, None),
        others=[(torch.randn(5, 8), ends(4, 4, 5)), (torch.randn(1, 8), ends(0, 0, 1))],
        **DIGITS,
    )


def test_columns_by_group():
    left, right = torch.randn(3, 4, 8), torch.randn(8, 16)
    others = [(left, right, ends(0, 8, 16))]
    assert_matches(lambda x, w, o: grouped_mm(x, w, o), left, right, ends(4, 8, 16), others=others, **DIGITS)


def test_common_dimension_by_group():
    left, right = torch.randn(4, 16), torch.randn(16, 8)
    others = [(left, right, ends(0, 8, 16)), (left, right, ends(16, 16, 16))]
    assert_matches(lambda x, w, o: grouped_mm(x, w, o), left, right, ends(4, 8, 16), others=others, **DIGITS)


def test_batches():
    assert_matches(lambda x, w: grouped_mm(x, w), torch.randn(3, 4, 8), torch.randn(3, 8, 16), **DIGITS)


def test_any_number_of_groups():
    rows = torch.randn(16, 8)
    assert_matches(
        lambda x, w, o: grouped_mm(x, w, o),
        rows,
        torch.randn(3, 8, 16),
        ends(4, 9, 16),
        dynamic_shapes=(None, {0: Dim("groups")}, {0: Dim("groups")}),
        others=[(rows, torch.randn(5, 8, 16), ends(0, 4, 4, 8, 16)), (rows, torch.randn(1, 8, 16), ends(16))],
        **DIGITS,
    )


def test_many_groups_are_few_nodes():
    program = opbridge.export(
        grouped_mm, (torch.randn(16, 8), torch.randn(384, 8, 16), torch.arange(1, 385, dtype=torch.int32) // 24)
    )
    assert len(program.model.graph) < 10 and len(program.model.functions) == 1


def test_a_matrix_without_rows_is_not_read():
    fallback = grouped_product()
    rows, weights = torch.randn(4, 8), torch.randn(3, 8, 5)
    weights[1] = torch.inf
    assert_matches(lambda x, w, o: fallback(x, w, o), rows, weights, ends(2, 2, 4))


def test_fallback_of_transformers():
    fallback = grouped_product()
    rows, weights = torch.randn(16, 8), torch.randn(3, 8, 5)
    others = [(rows, weights, ends(0, 7, 7)), (rows, weights, ends(0, 0, 0))]
    assert_matches(lambda x, w, o: fallback(x, w, o), rows, weights, ends(4, 9, 16), others=others)
