"""Sums, means, products, variances, tests of elements, extremes and norms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from helpers.matching import assert_matches
from helpers.running import run
from helpers.tables import accepted, assert_all_match
from torch.export import Dim

import opbridge

NAN, INF = math.nan, math.inf
FLOATS = [torch.float32, torch.float64, torch.float16]
INTEGERS = [torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool]

# On tensors of shape (2, 3, 4).
REDUCTIONS = {
    "sum": torch.sum,
    "sum dim": lambda x: x.sum(-1),
    "sum dims": lambda x: x.sum((0, 2), keepdim=True),
    "sum no dims": lambda x: x.sum(()),
    "sum dtype": lambda x: x.sum(1, dtype=torch.float64),
    "nansum": lambda x: x.nansum((1,)),
    "nansum all": torch.nansum,
    "mean": torch.mean,
    "mean dims": lambda x: x.mean((-1, 0)),
    "mean dtype": lambda x: x.mean(1, True, dtype=torch.float32),
    "nanmean": lambda x: x.nanmean(2),
    "nanmean all": torch.nanmean,
    "prod": torch.prod,
    "prod dim": lambda x: x.prod(-2, keepdim=True),
    "prod dtype": lambda x: x.prod(0, dtype=torch.float32),
    "all": torch.all,
    "all dim": lambda x: x.all(0),
    "all dims": lambda x: torch.all(x, (1, 2), keepdim=True),
    "any": torch.any,
    "any dim": lambda x: x.any(-1, keepdim=True),
    "any dims": lambda x: torch.any(x, (0, 1)),
    "any no dims": lambda x: torch.any(x, dim=()),
    "count_nonzero": torch.count_nonzero,
    "count_nonzero dim": lambda x: torch.count_nonzero(x, 1),
    "count_nonzero dims": lambda x: torch.count_nonzero(x, (0, -1)),
    "logsumexp": lambda x: torch.logsumexp(x, 1),
    "logsumexp dims": lambda x: torch.logsumexp(x, (0, 2), keepdim=True),
    "amax": lambda x: torch.amax(x, 1),
    "amax all": torch.amax,
    "amin dims": lambda x: torch.amin(x, (0, -1), keepdim=True),
    "max": torch.max,
    "min": torch.min,
    "max dim": lambda x: torch.max(x, 1),
    "min dim": lambda x: torch.min(x, -1, keepdim=True),
    "argmax": torch.argmax,
    "argmax dim": lambda x: torch.argmax(x, 0),
    "argmin": lambda x: torch.argmin(x, keepdim=True),
    "argmin dim": lambda x: torch.argmin(x, -1, keepdim=True),
    "aminmax": torch.aminmax,
    "aminmax dim": lambda x: torch.aminmax(x, dim=2, keepdim=True),
}

VARIANCES = {
    "var": torch.var,
    "var biased": lambda x: x.var(False),
    "var dim": lambda x: x.var(1),
    "var dims": lambda x: x.var((0, 2), unbiased=False, keepdim=True),
    "var correction": lambda x: torch.var(x, 1, correction=0),
    "var large correction": lambda x: torch.var(x, 1, correction=3),
    "var fraction": lambda x: torch.var(x, dim=None, correction=1.5, keepdim=True),
    "std": torch.std,
    "std biased": lambda x: x.std(unbiased=False),
    "std dim": lambda x: x.std(-1, unbiased=True),
    "std correction": lambda x: torch.std(x, dim=(0, 1), correction=2),
    "var_mean": torch.var_mean,
    "var_mean biased": lambda x: torch.var_mean(x, False),
    "var_mean dims": lambda x: torch.var_mean(x, (1, 2), correction=0, keepdim=True),
    "std_mean": lambda x: torch.std_mean(x, 2, False),
    "std_mean all": lambda x: torch.std_mean(x, unbiased=False),
}

NORMS = {
    f"{name} {order}": function
    for order in (2, 1, 0, INF, -INF, -1, 3, 0.5, -2.5)
    for name, function in {
        "vector": lambda x, order=order: torch.linalg.vector_norm(x, order),
        "vector dims": lambda x, order=order: torch.linalg.vector_norm(x, order, (0, 2), keepdim=True),
        "vector dtype": lambda x, order=order: torch.linalg.vector_norm(x, order, 1, dtype=torch.float64),
        "norm dim": lambda x, order=order: torch.norm(x, order, -1),
        "norm dtype": lambda x, order=order: torch.norm(x, order, 1, dtype=torch.float64),
        "dist": lambda x, order=order: torch.dist(x, x.flip(0) * 0.5, order),
        "renorm": lambda x, order=order: x if order <= 0 or math.isinf(order) else torch.renorm(x, order, 1, 1.5),
    }.items()
}

MATRIX_NORMS = {
    "norm": torch.linalg.norm,
    "norm order": lambda x: torch.linalg.norm(x, 1, dim=2),
    "norm fro": lambda x: torch.linalg.norm(x, "fro", dim=(0, 1), keepdim=True),
    "norm inf": lambda x: torch.linalg.norm(x, INF, dim=(2, 0)),
    "matrix": lambda x: torch.linalg.matrix_norm(x),
    "matrix one": lambda x: torch.linalg.matrix_norm(x, -1, keepdim=True),
    "normalize": lambda x: torch.nn.functional.normalize(x, dim=1),
}


def draw(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    return torch.randint(0, 4, shape).to(dtype)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
def test_reductions(dtype):
    x = draw(dtype, 2, 3, 4)
    table = accepted(REDUCTIONS, x)
    if dtype == torch.float16:
        # torch rounds every step of these to float16.
        table = {name: each for name, each in table.items() if "logsumexp" not in name and name != "prod"}
    assert len(table) > 25
    assert_all_match(table, x, others=[(draw(dtype, 2, 3, 4),)])


def test_products_in_float16_that_no_step_rounds():
    table = {name: each for name, each in REDUCTIONS.items() if name.startswith("prod")}
    signs = torch.randint(2, (2, 2, 3, 4)) * 2 - 1
    x, other = (torch.randint(-1, 2, (2, 2, 3, 4)).exp2() * signs).half()
    assert_all_match(table, x, others=[(other,)], rtol=0, atol=0)


LARGE = {
    "sum": torch.sum,
    "sum dim": lambda x: x.sum(-1),
    "sum dims": lambda x: x.sum((0, 2), keepdim=True),
    "sum dtype": lambda x: x.sum(1, dtype=torch.int64),
    "nansum": lambda x: x.nansum((1,)),
    "prod": torch.prod,
    "prod dim": lambda x: x.prod(-2, keepdim=True),
    "prod last": lambda x: x.prod(-1),
    "prod none": lambda x: x[0, 0, 0].prod(),
    "cumprod": lambda x: x.cumprod(1),
    "sum of products": lambda x: (x * x).sum(0),
}


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize("length", [4, 40, 1, 0])
def test_integers_overflow_as_torchs_do(dtype, length):
    limits = torch.iinfo(dtype)
    x = torch.randint(limits.min, limits.max, (2, length, 3), dtype=dtype)
    if dtype == torch.int64 and length > 1:
        x[0, 0], x[1, 1] = limits.max, limits.min
    table = LARGE if length else {name: each for name, each in LARGE.items() if name != "prod none"}
    assert_all_match(table, x, others=[(torch.randint(limits.min, limits.max, x.shape, dtype=dtype),)])


def test_integers_of_a_dynamic_size_overflow_as_torchs_do():
    class Model(torch.nn.Module):
        def forward(self, x):
            return x.prod(), x.prod(1), x.sum(1), x.cumprod(0)

    limits = torch.iinfo(torch.int64)
    assert_matches(
        Model(),
        torch.randint(limits.min, limits.max, (3, 5)),
        dynamic_shapes=({0: "rows", 1: "columns"},),
        others=[(torch.randint(limits.min, limits.max, size),) for size in ((1, 1), (4, 70), (2, 0), (0, 3))],
    )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_variances(dtype):
    # Far from 0, where the difference of the squares' mean and the mean's square would cancel.
    table = accepted(VARIANCES, draw(dtype, 2, 3, 4))
    assert len(table) == len(VARIANCES)
    assert_all_match(table, draw(dtype, 2, 3, 4), others=[(draw(dtype, 2, 3, 4) * 3 + 50,)])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", FLOATS[:2], ids=str)
@pytest.mark.parametrize("table", [NORMS, MATRIX_NORMS], ids=["vector", "matrix"])
def test_norms(dtype, table):
    sparse = draw(dtype, 2, 3, 4) * (torch.rand(2, 3, 4) > 0.1)
    assert_all_match(table, draw(dtype, 2, 3, 4), others=[(sparse + 0.01,)])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_distances_of_broadcast_tensors(dtype):
    table = {f"dist {order}": lambda x, y, order=order: torch.dist(x, y, order) for order in (2, 1, 0, INF, 3)}
    others = [(torch.ones(3, 1, dtype=dtype), torch.zeros(2, 1, 4, dtype=dtype))]
    assert_all_match(table, draw(dtype, 3, 1), draw(dtype, 2, 1, 4), others=others)


@pytest.mark.parametrize("table", [REDUCTIONS, VARIANCES, MATRIX_NORMS], ids=["reductions", "variances", "norms"])
def test_at_opset_18(table):
    assert_all_match(table, draw(torch.float32, 2, 3, 4), opset_version=18)


@pytest.mark.slow
def test_dynamic_sizes():
    table = {**REDUCTIONS, **VARIANCES}
    assert_all_match(
        table,
        draw(torch.float32, 2, 3, 4),
        others=[(draw(torch.float32, 5, 3, 7),), (draw(torch.float32, 3, 6, 9),)],
        dynamic_shapes={"x": {0: Dim.AUTO, 1: Dim.AUTO, 2: Dim.AUTO}},
    )


def test_dynamic_divisor_of_a_variance():
    # With a correction of 5, (a, 4, b) has fewer degrees of freedom than none for small a.
    assert_matches(
        lambda x: (x.var((0,), correction=5), x.std(0, correction=3)),
        draw(torch.float32, 7, 4),
        others=[(draw(torch.float32, 4, 4),), (draw(torch.float32, 3, 4),)],
        dynamic_shapes={"x": {0: Dim.AUTO}},
    )


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (0,), (2, 0), (0, 3)], ids=str)
def test_few_elements(shape):
    """0-d, single-element and empty tensors: nan where there are no degrees of freedom or nothing to average."""
    table = {**REDUCTIONS, **VARIANCES}
    last = {name: f for name, f in table.items() if "dims" not in name}
    x = torch.full(shape, 2.5)
    fitting = accepted(last, x)
    assert len(fitting) > 5
    assert_all_match(fitting, x, others=[(torch.full(shape, -1.0),)])


SPECIAL = [
    [1.0, NAN, INF, -INF],
    [NAN, NAN, NAN, NAN],
    [INF, 3.0, NAN, 2.0],
    [-INF, -INF, -INF, -INF],
    [0.0, -0.0, 0.0, -0.0],
    [2.0, 5.0, 5.0, 2.0],
]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_special_values(dtype):
    """A nan is what an extreme is, and where it is; of equal elements the first counts."""
    x = torch.tensor(SPECIAL, dtype=dtype)
    table = {
        "amax": lambda x: torch.amax(x, 1),
        "amin": lambda x: torch.amin(x, 0),
        "max": torch.max,
        "min": torch.min,
        "max dim": lambda x: torch.max(x, 1),
        "min dim": lambda x: torch.min(x, 1),
        "max first": lambda x: torch.max(x, 0),
        "argmax": lambda x: torch.argmax(x, 1),
        "argmin": lambda x: torch.argmin(x, 0),
        "argmax all": torch.argmax,
        "argmin all": torch.argmin,
        "aminmax": lambda x: torch.aminmax(x, dim=1),
        "sum": lambda x: x.sum(1),
        "nansum": lambda x: x.nansum(1),
        "nanmean": lambda x: x.nanmean(1),
        "all": lambda x: x.all(1),
        "any": lambda x: x.any(1),
        "count_nonzero": lambda x: x.count_nonzero(1),
        "norm inf": lambda x: torch.linalg.vector_norm(x, INF, 1),
        "norm -inf": lambda x: torch.linalg.vector_norm(x, -INF, 1),
        "norm 0": lambda x: torch.linalg.vector_norm(x, 0, 1),
    }
    assert_all_match(table, x, others=[(x.flip(1),), (x[[5] * 6],), (torch.ones_like(x),)])


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x.var(), NAN),
        (lambda x: x.std(unbiased=False), 0.0),
        (lambda x: torch.var_mean(x)[0], NAN),
        (lambda x: torch.std_mean(x, unbiased=True)[0], NAN),
    ],
)
def test_variance_of_one_element(function, expected):
    """torch.onnx takes the default, unbiased, for a bias that is not asked for, and gives 0."""
    program = opbridge.export(function, (torch.tensor([2.0]),), verify=False)
    np.testing.assert_equal(run(program, (torch.tensor([3.0]),))[0], np.float32(expected))


def test_mean_of_rows_that_none_is_of():
    """The number of rows is known only when the model runs, and may be 0."""
    assert_matches(
        lambda x, mask: (x[mask].mean(), x[mask].sum(0), x[mask].std(0)),
        torch.randn(4, 3),
        torch.tensor([True, False, True, True]),
        others=[(torch.randn(4, 3), torch.zeros(4, dtype=torch.bool)), (torch.randn(4, 3), torch.ones(4) > 0)],
    )


@pytest.mark.slow
@pytest.mark.parametrize("order", [0.7, 1.3, 3.0, -1.9])
def test_norms_of_doubles_are_exact(order: float) -> None:
    x = torch.rand(3, 5, dtype=torch.float64) + 0.1
    assert_matches(lambda x: torch.linalg.vector_norm(x, order, 1), x, rtol=1e-14, atol=1e-14)
    if order > 0:
        assert_matches(lambda x: torch.cdist(x, x * 2, order), x, rtol=1e-14, atol=1e-14)
