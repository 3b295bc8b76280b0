"""Sorting, unique elements, search, and the reductions that sort."""

from __future__ import annotations

import math

import pytest
import torch
from helpers.matching import assert_matches
from helpers.tables import accepted, assert_all_match
from torch.export import Dim

NAN, INF = math.nan, math.inf
DTYPES = [torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool]

SORTS = {
    "sort": lambda x: torch.sort(x, dim=0, stable=True),
    "sort down": lambda x: torch.sort(x, dim=-1, descending=True, stable=True),
    "sort values": lambda x: torch.sort(x)[0],
    "argsort": lambda x: torch.argsort(x, dim=0, stable=True),
    "argsort down": lambda x: torch.argsort(x, dim=1, descending=True, stable=True),
    "msort": torch.msort,
    "topk": lambda x: torch.topk(x, 2, 0)[0],
    "topk smallest": lambda x: torch.topk(x, 3, largest=False)[0],
    "kthvalue": lambda x: torch.kthvalue(x, 2, 0, keepdim=True)[0],
    "median": lambda x: torch.median(x, 0)[0],
    "median all": torch.median,
    "nanmedian": lambda x: torch.nanmedian(x, -1, keepdim=True)[0],
    "nanmedian all": torch.nanmedian,
    "mode": lambda x: torch.mode(x, 0),
    "mode keepdim": lambda x: torch.mode(x, -1, keepdim=True),
}

UNIQUES = {
    "unique": torch.unique,
    "unique all": lambda x: torch.unique(x, return_inverse=True, return_counts=True),
    "unique dim": lambda x: torch.unique(x, dim=0, return_inverse=True, return_counts=True),
    "consecutive": lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True),
    "consecutive dim": lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True, dim=1),
}

QUANTILES = {
    "scalar": lambda x: torch.quantile(x, 0.3),
    "dim": lambda x: torch.quantile(x, 0.6, dim=0),
    "keepdim": lambda x: torch.quantile(x, 0.5, keepdim=True),
    "several": lambda x: torch.quantile(x, torch.tensor([0.1, 0.5, 1.0], dtype=x.dtype), dim=1),
    "several keepdim": lambda x: torch.quantile(x, torch.tensor([0.0, 0.4], dtype=x.dtype), dim=0, keepdim=True),
    "several all": lambda x: torch.quantile(x, torch.tensor([0.0, 0.4], dtype=x.dtype), keepdim=True),
    **{
        way: lambda x, way=way: torch.quantile(x, 0.37, dim=1, interpolation=way)
        for way in ("lower", "higher", "nearest", "midpoint")
    },
    "nan": lambda x: torch.nanquantile(x, 0.3),
    "nan dim": lambda x: torch.nanquantile(x, torch.tensor([0.2, 0.8], dtype=x.dtype), dim=1, keepdim=True),
}


def draw(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """With equal elements."""
    return torch.randint(0, 2 if dtype == torch.bool else 6, shape).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_order(dtype):
    x = draw(dtype, 5, 4)
    table = accepted(SORTS, x)
    assert len(table) >= 8
    assert_all_match(table, x, others=[(draw(dtype, 5, 4),), (draw(dtype, 5, 4),)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.int32], ids=str)
def test_unique(dtype):
    x = draw(dtype, 4, 6)
    x[2] = x[0]
    assert_all_match(UNIQUES, x, others=[(draw(dtype, 4, 6),), (torch.ones_like(x),)])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_quantiles(dtype):
    x = torch.randn(5, 4, dtype=dtype)
    spoilt = x.clone()
    spoilt[1, 2] = NAN
    spoilt[3] = NAN
    assert_all_match(QUANTILES, x, others=[(torch.randn(5, 4, dtype=dtype),), (spoilt,)])


@pytest.mark.slow
@pytest.mark.parametrize("opset", [18, 23])
def test_dynamic_sizes(opset):
    assert_all_match(
        {**SORTS, **UNIQUES, **QUANTILES},
        draw(torch.float32, 5, 4),
        others=[(draw(torch.float32, 8, 7),), (draw(torch.float32, 3, 10),)],
        dynamic_shapes={"x": {0: Dim.AUTO, 1: Dim.AUTO}},
        opset_version=opset,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
def test_special_values(dtype):
    """A nan comes after inf, and the largest number before it."""
    largest = torch.finfo(dtype).max
    x = torch.tensor([1.0, NAN, INF, largest, -INF, NAN, 2.0, -0.0, 0.0, INF, -largest], dtype=dtype)
    table = {
        "sort": lambda x: torch.sort(x, stable=True),
        "sort down": lambda x: torch.sort(x, stable=True, descending=True),
        "median": lambda x: torch.median(x, 0),
        "median all": torch.median,
        "nanmedian": torch.nanmedian,
        "kthvalue": lambda x: torch.kthvalue(x, 9)[0],
    }
    numbers = torch.tensor([4.0, NAN, 3.0, 1.0, INF, 2.0, 0.0, NAN, -1.0, -INF, 8.0], dtype=dtype)
    assert_all_match(table, x, others=[(numbers,), (numbers.nan_to_num(6.0),), (torch.full_like(x, NAN),)])
    uniques = {
        "unique": lambda x: torch.unique(x, return_counts=True),
        "consecutive": lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True),
    }
    assert_all_match(uniques, x, others=[(numbers,), (torch.full_like(x, NAN),)])


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(), (1,), (0,)], ids=str)
def test_few_elements(shape):
    table = {**SORTS, **UNIQUES, **QUANTILES, "topk one": lambda x: torch.topk(x, 1)}
    x = torch.full(shape, 2.0)
    fitting = {
        name: function for name, function in accepted(table, x).items() if not (shape == (0,) and "mode" in name)
    }
    assert len(fitting) > 5
    assert_all_match(fitting, x, others=[(x + 1,)])


def test_topk_of_a_size_known_only_then():
    def model(x, y):
        count = y.shape[0]
        torch._check(count <= x.shape[0])
        return torch.topk(x, count, 0), torch.kthvalue(x, count, 0)[0]

    assert_matches(
        model,
        torch.randn(6),
        torch.randn(3),
        others=[(torch.randn(9), torch.randn(5)), (torch.randn(4), torch.randn(4))],
        dynamic_shapes=({0: Dim.AUTO}, {0: Dim.AUTO}),
    )


EDGES = [-1.0, 0.0, 0.5, 0.5, 2.0]
SEARCHES = {
    "bucketize": lambda x: torch.bucketize(x, torch.tensor(EDGES, dtype=x.dtype)),
    "bucketize right": lambda x: torch.bucketize(x, torch.tensor(EDGES, dtype=x.dtype), right=True, out_int32=True),
    "searchsorted": lambda x: torch.searchsorted(torch.tensor(EDGES, dtype=x.dtype), x),
    "searchsorted side": lambda x: torch.searchsorted(torch.tensor(EDGES, dtype=x.dtype), x, side="right"),
    "searchsorted rows": lambda x: torch.searchsorted(x.sort(-1)[0], x, right=True),
    "searchsorted number in integers": lambda x: torch.searchsorted(torch.tensor([0, 1, 2]), 0.5) + x,
    "searchsorted number": lambda x: torch.searchsorted(x.flatten().sort()[0], 0.5),
    "searchsorted sorter": lambda x: torch.searchsorted(x, x, sorter=x.argsort(-1)),
    "searchsorted other type": lambda x: torch.searchsorted(torch.tensor([0, 1]), x),
    "isin": lambda x: torch.isin(x, torch.tensor([0.5, 2.0, -1.0], dtype=x.dtype)),
    "isin inverted": lambda x: torch.isin(x, x[:1], invert=True),
    "isin number": lambda x: torch.isin(x, 0.5),
    "isin of a number": lambda x: torch.isin(0.5, x),
}

OWN_SEQUENCES = ("searchsorted rows", "searchsorted number", "searchsorted sorter")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_search(dtype):
    x = torch.tensor([[0.5, 0.6, -7.0], [2.0, NAN, -1.0], [0.0, INF, -INF]], dtype=dtype)
    # Where a sequence holds a nan, what torch finds depends on where it looks.
    for_any = {name: function for name, function in SEARCHES.items() if name not in OWN_SEQUENCES}
    assert_all_match(for_any, x, others=[(x * 2,), (torch.zeros_like(x),)])
    assert_all_match(SEARCHES, torch.randn(3, 5, dtype=dtype), others=[(torch.randn(3, 5, dtype=dtype).round(),)])


def test_search_in_integers():
    table = {
        "bucketize": lambda x: torch.bucketize(x, torch.tensor([1, 3, 3, 5])),
        "searchsorted": lambda x: torch.searchsorted(x.sort()[0], x, right=True),
        "isin": lambda x: torch.isin(x, torch.tensor([1, 4])),
    }
    assert_all_match(table, torch.tensor([0, 1, 2, 3, 9]), others=[(torch.tensor([5, 4, 3, 3, -2]),)])
