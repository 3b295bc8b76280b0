"""Running sums, products and extremes."""

from __future__ import annotations

import math

import pytest
import torch
from helpers.tables import accepted, assert_all_match
from torch.export import Dim

NAN, INF = math.nan, math.inf

TABLE = {
    "cumsum": lambda x: x.cumsum(0),
    "cumsum last": lambda x: x.cumsum(-1),
    "cumsum dtype": lambda x: x.cumsum(0, dtype=torch.float64),
    "cumprod": lambda x: x.cumprod(0),
    "cumprod dtype": lambda x: x.cumprod(-1, dtype=torch.float64),
    "cummax": lambda x: x.cummax(0),
    "cummin": lambda x: x.cummin(-1),
    "logcumsumexp": lambda x: x.logcumsumexp(0),
    "logcumsumexp last": lambda x: x.logcumsumexp(-1),
    "trapezoid": lambda x: torch.trapezoid(x, dx=0.5),
    "trapezoid x": lambda x: torch.trapezoid(x, x.cumsum(-1)),
    "cumulative_trapezoid": lambda x: torch.cumulative_trapezoid(x, dim=0),
    "diff": lambda x: torch.diff(x, n=2, dim=0),
    "diff prepend": lambda x: torch.diff(x, dim=-1, prepend=x, append=x),
}


def draw(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return (torch.randn(shape) + 0.5).to(dtype) if dtype.is_floating_point else torch.randint(0, 3, shape).to(dtype)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        *((torch.float32, shape) for shape in ((5, 3), (4, 3, 2), (40, 2), (2, 33))),
        *((dtype, (4, 33)) for dtype in (torch.float64, torch.int64, torch.int8, torch.bool)),
    ],
    ids=str,
)
def test_running(dtype, shape):
    """Few elements, and many, which are combined in another way: by the first dimension and by the last."""
    x = draw(dtype, *shape)
    table = accepted(TABLE, x)
    assert len(table) >= 5
    assert_all_match(table, x, others=[(draw(dtype, *shape),)])


@pytest.mark.parametrize("dtype", [torch.float16], ids=str)
def test_halves(dtype):
    names = ("cumsum", "cumprod", "cummax", "cummin")
    assert_all_match({name: TABLE[name] for name in names}, draw(dtype, 6, 2), others=[(draw(dtype, 6, 2),)])


@pytest.mark.slow
@pytest.mark.parametrize("opset", [18, 23])
def test_dynamic_sizes(opset):
    assert_all_match(
        TABLE,
        draw(torch.float32, 5, 3),
        others=[(draw(torch.float32, 12, 4),), (draw(torch.float32, 3, 40),)],
        dynamic_shapes={"x": {0: Dim.AUTO, 1: Dim.AUTO}},
        opset_version=opset,
    )


@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 2), (2, 0)], ids=str)
def test_few_elements(shape):
    x = torch.full(shape, 1.5)
    assert_all_match(accepted({name: TABLE[name] for name in list(TABLE)[:9]}, x), x, others=[(x - 3,)])


@pytest.mark.parametrize("repeats", [1, 5])
def test_special_values(repeats):
    """Of equal extremes the last one's position counts, a nan stays, and infinities of one sign do not cancel."""
    rows = [
        [1.0, 3.0, 3.0, 2.0, 3.0, 0.0, -1.0],
        [1.0, NAN, 3.0, NAN, 2.0, INF, -INF],
        [-INF, -INF, 0.0, 1.0, INF, INF, 2.0],
        [-1000.0, 0.0, 1000.0, 0.0, -1000.0, 1000.0, 3.0],
        [-0.0, 0.0, -0.0, 0.0, -0.0, 0.0, 0.0],
    ]
    x = torch.tensor(rows).repeat(1, repeats)
    table = {
        "cummax": lambda x: x.cummax(1),
        "cummin": lambda x: x.cummin(1),
        "logcumsumexp": lambda x: x.logcumsumexp(1),
        "cumsum": lambda x: x.cumsum(1),
    }
    assert_all_match(table, x, others=[(-x,), (x.flip(1),)])
