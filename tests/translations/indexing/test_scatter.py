"""Elements put at, added to and taken from positions."""

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
DTYPES = [torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.int8, torch.bool]

# On x of shape (3, 4), an index of the same shape with positions below 3, and y of the shape of x.
TABLE = {
    "scatter": lambda x, i, y: x.scatter(0, i.sort(0)[0][:1], y),
    "scatter short": lambda x, i, y: x.scatter(1, i[:2, :1], y),
    "scatter value": lambda x, i, y: x.scatter(1, i, 1),
    "scatter_add": lambda x, i, y: x.scatter_add(0, i, y),
    "scatter_add short": lambda x, i, y: x.scatter_add(-1, i[:, 1:3], y),
    "scatter add": lambda x, i, y: x.scatter(1, i, y, reduce="add"),
    "scatter multiply": lambda x, i, y: x.scatter(0, i, y, reduce="multiply"),
    "scatter value add": lambda x, i, y: x.scatter(0, i, 2, reduce="add"),
    "scatter value multiply": lambda x, i, y: x.scatter(1, i, 3, reduce="multiply"),
    **{
        f"scatter_reduce {way} {own}": lambda x, i, y, way=way, own=own: x.scatter_reduce(
            1, i, y, way, include_self=own
        )
        for way in ("sum", "prod", "mean", "amax", "amin")
        for own in (True, False)
    },
    **{
        f"index_reduce {way} {own}": lambda x, i, y, way=way, own=own: x.index_reduce(1, i[0], y, way, include_self=own)
        for way in ("prod", "mean", "amax", "amin")
        for own in (True, False)
    },
    "index_add": lambda x, i, y: x.index_add(0, i[:, 0], y),
    "index_add alpha": lambda x, i, y: x.index_add(1, i[0], y, alpha=2),
    "index_copy": lambda x, i, y: x.index_copy(1, i[:1, 0], y[:, :1]),
    "index_copy rows": lambda x, i, y: x.index_copy(0, i[0, :1], y[:1]),
    "index_fill": lambda x, i, y: x.index_fill(1, i[0], 1),
    "index_fill tensor": lambda x, i, y: x.index_fill(0, i[0, :2], y[0, 0]),
    "index_select": lambda x, i, y: x.index_select(1, i[0].int()),
    "gather": lambda x, i, y: x.gather(1, i),
    "gather short": lambda x, i, y: x.gather(0, i[:2, 1:3]),
    "take": lambda x, i, y: x.take(i - 2),
    "take_along_dim": lambda x, i, y: torch.take_along_dim(x, i[:1], 0),
    "take_along_dim all": lambda x, i, y: torch.take_along_dim(x, i.flatten()),
    "put": lambda x, i, y: x.put(i[:1, :1] - 1, y),
    "put accumulate": lambda x, i, y: x.put(i, y, accumulate=True),
    "masked_select": lambda x, i, y: x.masked_select(i > 0),
    "masked_select row": lambda x, i, y: x.masked_select(i[:1] > 0),
    "masked_select of a row": lambda x, i, y: x[0].masked_select(i > 1),
    "masked_scatter": lambda x, i, y: x.masked_scatter(i > 0, y),
    "masked_scatter row": lambda x, i, y: x.masked_scatter(i[0] > 0, y),
    "masked_fill": lambda x, i, y: x.masked_fill(i > 0, 1),
    "nonzero": lambda x, i, y: x.nonzero(),
    "nonzero tuple": lambda x, i, y: torch.nonzero(x, as_tuple=True),
    "argwhere": lambda x, i, y: torch.argwhere(x),
    "nonzero_static": lambda x, i, y: torch.nonzero_static(x, size=9, fill_value=-2),
}


def draw(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype) * (torch.rand(shape) > 0.2)
    return torch.randint(0, 2 if dtype == torch.bool else 4, shape).to(dtype)


def positions() -> torch.Tensor:
    return torch.randint(0, 3, (3, 4))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_positions(dtype):
    inputs = draw(dtype, 3, 4), positions(), draw(dtype, 3, 4)
    table = accepted(TABLE, *inputs)
    if dtype == torch.float16:
        # torch rounds each step of these to float16.
        table = {
            name: function
            for name, function in table.items()
            if not any(word in name for word in ("reduce", "add", "acc"))
        }
    assert len(table) > 20
    others = [(draw(dtype, 3, 4), positions(), draw(dtype, 3, 4)) for _ in range(2)]
    assert_all_match(table, *inputs, others=others)


def test_rows_of_a_mask_are_counted():
    """The features of images in the places of tokens: one number for each row, and not for each element."""
    program = assert_matches(
        lambda x, tokens, y: x.masked_scatter((tokens == 7).unsqueeze(-1).expand_as(x), y),
        torch.randn(2, 3, 4),
        torch.tensor([[7, 1, 7], [7, 2, 3]]),
        torch.randn(3, 4),
        others=[
            (torch.randn(1, 4, 4), torch.tensor([[1, 7, 7, 1]]), torch.randn(6, 4)),
            (torch.randn(2, 2, 4), torch.zeros(2, 2, dtype=torch.long), torch.randn(0, 4)),
        ],
        dynamic_shapes=({0: "batch", 1: "length"}, {0: "batch", 1: "length"}, {0: "images"}),
    )
    operators = {node.op_type for node in program.model.graph}
    assert "CumSum" in operators and "NonZero" not in operators


def test_integer_means_are_rounded_down():
    x, index, y = torch.tensor([-5, 0, 7]), torch.tensor([0, 0, 1]), torch.tensor([-2, 3, -4])
    table = {
        "with": lambda x, i, y: x.scatter_reduce(0, i, y, "mean"),
        "without": lambda x, i, y: x.scatter_reduce(0, i, y, "mean", include_self=False),
    }
    assert_all_match(table, x, index, y, others=[(-x, index.flip(0), -y), (x * 3 + 1, index * 2, y + 5)])


def test_mean_of_what_is_scattered():
    """torch.onnx gives the sum."""
    model = lambda x, i, y: x.scatter_reduce(0, i, y, "mean")  # noqa: E731
    inputs = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 0, 2]), torch.tensor([3.0, 8.0, 5.0])
    program = opbridge.export(model, inputs, verify=False)
    np.testing.assert_allclose(run(program, inputs)[0], [4.0, 2.0, 4.0])


def test_nan_among_what_is_scattered():
    table = {
        f"{way} {own}": lambda x, i, y, way=way, own=own: x.scatter_reduce(0, i, y, way, include_self=own)
        for way in ("amax", "amin")
        for own in (True, False)
    }
    x, index = torch.tensor([1.0, NAN, 3.0, -INF, NAN]), torch.tensor([0, 1, 2, 2, 3])
    y = torch.tensor([NAN, 2.0, 7.0, NAN, INF])
    assert_all_match(table, x, index, y, others=[(x, index, y.flip(0)), (x.flip(0), index, y.nan_to_num(1.0))])


@pytest.mark.slow
@pytest.mark.parametrize("opset", [18, 23])
def test_dynamic_sizes(opset):
    size = {0: Dim.AUTO}
    table = {
        "scatter": lambda x, i, y: x.scatter(0, i, y),
        "scatter_reduce": lambda x, i, y: x.scatter_reduce(0, i, y, "mean"),
        "index_add": lambda x, i, y: x.index_add(0, i, y),
        "index_fill": lambda x, i, y: x.index_fill(0, i, 2.0),
        "index_reduce": lambda x, i, y: x.index_reduce(0, i, y, "amax"),
        "put": lambda x, i, y: x.put(i, y),
        "gather": lambda x, i, y: x.gather(0, i) + y,
        "masked_select": lambda x, i, y: x.masked_select(x > 0),
        "nonzero": lambda x, i, y: x.nonzero(),
    }
    others = [(torch.randn(n), torch.randperm(n)[:m], torch.randn(m)) for n, m in ((9, 4), (5, 5))]
    assert_all_match(
        table,
        torch.randn(6),
        torch.randperm(6)[:3],
        torch.randn(3),
        others=others,
        dynamic_shapes={"args": (size, size, size)},
        opset_version=opset,
    )


def test_zero_dimensional():
    x, index, y = torch.tensor(2.5), torch.tensor(0), torch.tensor(1.5)
    table = accepted(
        {
            "scatter": lambda x, i, y: x.scatter(0, i, y),
            "scatter_add": lambda x, i, y: x.scatter_add(0, i, y),
            "scatter_add vector": lambda x, i, y: x.scatter_add(0, i[None], y[None]),
            "scatter_reduce": lambda x, i, y: x.scatter_reduce(0, i, y, "mean"),
            "index_add": lambda x, i, y: x.index_add(0, i, y),
            "index_copy": lambda x, i, y: x.index_copy(0, i, y),
            "index_fill": lambda x, i, y: x.index_fill(0, i, 3.0),
            "index_select": lambda x, i, y: x.index_select(0, i),
            "gather": lambda x, i, y: x.gather(0, i),
            "take": lambda x, i, y: x.take(i),
            "put": lambda x, i, y: x.put(i, y),
            "masked_select": lambda x, i, y: x.masked_select(y > 0),
            "nonzero": lambda x, i, y: x.nonzero(),
            "argwhere": lambda x, i, y: torch.argwhere(y),
            "nonzero tuple": lambda x, i, y: torch.nonzero(x, as_tuple=True),
        },
        *(x, index, y),
    )
    assert len(table) == 15
    assert_all_match(table, x, index, y, others=[(torch.tensor(0.0), index, torch.tensor(-1.0))])


def test_nothing_to_put():
    empty = torch.zeros(0, dtype=torch.int64)
    table = {
        "scatter_add": lambda x, i, y: x.scatter_add(0, i, y),
        "scatter_reduce": lambda x, i, y: x.scatter_reduce(0, i, y, "mean"),
        "index_add": lambda x, i, y: x.index_add(0, i, y),
        "index_fill": lambda x, i, y: x.index_fill(0, i, 1.0),
        "index_copy": lambda x, i, y: x.index_copy(0, i, y),
        "gather": lambda x, i, y: x.gather(0, i),
        "take": lambda x, i, y: x.take(i),
    }
    assert_all_match(table, torch.randn(3), empty, torch.randn(0), others=[(torch.randn(3), empty, torch.randn(0))])


def test_nonzero_of_a_number_has_no_coordinates():
    program = opbridge.export(lambda x: x.nonzero(), (torch.tensor(2.0),), verify=False)
    assert run(program, (torch.tensor(3.0),))[0].shape == (1, 0)
    assert run(program, (torch.tensor(0.0),))[0].shape == (0, 0)


def test_doubles_keep_their_digits():
    assert_matches(
        lambda x, i: (x.scatter(0, i, 0.1), x.index_fill(0, i, 0.1)),
        torch.zeros(3, dtype=torch.float64),
        torch.tensor([1]),
        rtol=0.0,
        atol=0.0,
    )
