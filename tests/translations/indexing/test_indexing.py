"""x[...] with tensors and masks, read and written, and writes to a part of a tensor."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches
from helpers.tables import assert_all_match
from torch.export import Dim

I = torch.tensor([0, -1, 2])  # noqa: E741
J = torch.tensor([1, 3, -2])
COLUMN = torch.tensor([[0], [1]])
SQUARE = torch.tensor([[0, 1], [2, 3]])
ROWS = torch.tensor([True, False, True, True, False])
PLANE = torch.rand(5, 6, generator=torch.Generator().manual_seed(1)) > 0.5
WHOLE = torch.rand(4, 5, 6, 7, generator=torch.Generator().manual_seed(2)) > 0.5
NONE = torch.zeros(0, dtype=torch.int64)

# On x of shape (4, 5, 6, 7).
READS = {
    "first": lambda x: x[I],
    "second": lambda x: x[:, I],
    "last": lambda x: x[..., SQUARE],
    "int32": lambda x: x[:, I.int()],
    "number": lambda x: x[:, torch.tensor(-1)],
    "empty": lambda x: x[:, NONE],
    "two first": lambda x: x[I, J],
    "two inner": lambda x: x[:, I, J],
    "two last": lambda x: x[..., I, J],
    "two apart": lambda x: x[I, :, J],
    "two apart inner": lambda x: x[:, I, :, J],
    "two broadcast": lambda x: x[:, SQUARE, torch.tensor([[0], [2]])],
    "number and vector": lambda x: x[torch.tensor(1), I],
    "grid": lambda x: x[:, COLUMN, I],
    "grid last": lambda x: x[:, :, COLUMN, J],
    "grid of three": lambda x: x[torch.arange(4)[:, None, None], I[:, None], J],
    "three that share axes": lambda x: x[COLUMN, I, COLUMN],
    "new axes": lambda x: x[None, I, :, None, J],
    "slices between": lambda x: x[:, 1:3, I, ::2],
    "mask": lambda x: x[:, ROWS],
    "mask first": lambda x: x[ROWS[:4]],
    "mask of two axes": lambda x: x[:, PLANE],
    "mask of all": lambda x: x[WHOLE],
    "mask and vector": lambda x: x[:, PLANE, torch.tensor([0])],
    "True": lambda x: x[torch.tensor(True)],
    "False": lambda x: x[torch.tensor(False)],
    "own mask": lambda x: x[x > 0],
    "unsafe": lambda x: torch.ops.aten._unsafe_index(x, [None, None, COLUMN, J]),
}

# Indices, and the shapes of values to write there.
WRITES = {
    "first": ([I], (3, 5, 6, 7)),
    "second": ([None, I], (4, 3, 6, 7)),
    "second broadcast": ([None, I], (7,)),
    "third one": ([None, None, I], (1,)),
    "two first": ([I, J], (3, 6, 7)),
    "two first broadcast": ([I, J], (6, 7)),
    "two inner": ([None, I, J], (4, 3, 7)),
    "two inner broadcast": ([None, I, J], (7,)),
    "two apart": ([I, None, J], (3, 5, 7)),
    "two apart broadcast": ([I, None, J], (7,)),
    "grid": ([None, COLUMN, J], (4, 2, 3, 7)),
    "square last": ([None, None, None, SQUARE], (4, 5, 6, 2, 2)),
    "square last broadcast": ([None, None, None, SQUARE], (2,)),
    "number": ([torch.tensor(1)], (5, 6, 7)),
    "number inner": ([None, torch.tensor(-1)], (6, 7)),
    "grid of three": ([torch.arange(4)[:, None, None], I[:, None], J], (7,)),
    "empty": ([NONE], (7,)),
    "mask first": ([ROWS[:4]], (7,)),
    "mask first one": ([ROWS[:4]], (1,)),
    "mask": ([None, ROWS], ()),
    "mask of two axes": ([None, PLANE], ()),
    "mask of two axes, many": ([None, PLANE], (int(PLANE.sum()), 7)),
    "mask of all": ([WHOLE], ()),
    "mask of all, many": ([WHOLE], (int(WHOLE.sum()),)),
    "mask and vector": ([ROWS[:4], torch.tensor([0])], (6, 7)),
}


def draw(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.randn(shape).to(dtype) if dtype.is_floating_point else torch.randint(0, 4, shape).to(dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int32], ids=str)
def test_reads(dtype):
    table = {name: f for name, f in READS.items() if name != "own mask" or dtype == torch.float32}
    assert_all_match(table, draw(dtype, 4, 5, 6, 7), others=[(draw(dtype, 4, 5, 6, 7),)])


@pytest.mark.slow
@pytest.mark.parametrize("opset", [18, 23])
def test_reads_of_dynamic_sizes(opset):
    table = {name: f for name, f in READS.items() if "mask" not in name and name != "grid of three"}
    assert_all_match(
        table,
        torch.randn(4, 5, 6, 7),
        others=[(torch.randn(5, 6, 7, 8),), (torch.randn(9, 8, 8, 5),)],
        dynamic_shapes={"x": dict.fromkeys(range(4), Dim.AUTO)},
        opset_version=opset,
    )


def test_reads_at_positions_known_only_then():
    assert_matches(
        lambda x, i, j, mask: (x[:, i, j], x[i], x[:, mask], x[i, :, j]),
        torch.randn(4, 5, 6),
        I,
        J,
        ROWS,
        others=[
            (torch.randn(4, 5, 6), torch.tensor([3, 0, -2, 1]), torch.tensor([0, 0, -1, 5]), ~ROWS),
            (torch.randn(4, 5, 6), torch.tensor([1, 1]), torch.tensor([2, 3]), torch.zeros(5, dtype=torch.bool)),
        ],
        dynamic_shapes=({}, {0: Dim.AUTO}, {0: Dim.AUTO}, {}),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bool, torch.int32], ids=str)
@pytest.mark.parametrize("accumulate", [False, True])
def test_writes(dtype, accumulate):
    names = list(WRITES)

    def model(x, *values):
        return [
            torch.ops.aten.index_put(x, WRITES[name][0], value, accumulate)
            for name, value in zip(names, values, strict=True)
        ]

    def inputs():
        return draw(dtype, 4, 5, 6, 7), *(draw(dtype, *WRITES[name][1]) for name in names)

    assert_matches(model, *inputs(), others=[inputs()])


def test_writes_accumulate_at_a_position_named_twice():
    twice = torch.tensor([1, 1, -1])
    assert_matches(
        lambda x, y: (
            torch.ops.aten.index_put(x, [twice], y, True),
            torch.ops.aten.index_put(x, [None, twice], y.T, True),
            torch.ops.aten.index_put(x, [twice, twice], y[:, 0], True),
        ),
        torch.randn(4, 4),
        torch.randn(3, 4),
        others=[(torch.randn(4, 4), torch.randn(3, 4))],
    )


def test_writes_of_dynamic_sizes():
    names = [
        name for name, (_, shape) in WRITES.items() if shape == (7,) and "mask" not in name and "three" not in name
    ]
    assert len(names) >= 4

    def model(x, y):
        return [torch.ops.aten.index_put(x, WRITES[name][0], y) for name in names]

    assert_matches(
        model,
        torch.randn(4, 5, 6, 7),
        torch.randn(7),
        others=[(torch.randn(9, 8, 7, 7), torch.randn(7))],
        dynamic_shapes=(dict.fromkeys(range(3), Dim.AUTO), {}),
    )


def write_to_parts(x, y):
    x = x.clone()
    x[:, 1:3] = y
    x[0] = 1
    x[:, -1] = 2
    x[..., ::2] = 0
    x[1:-1, -2:] = 3
    x[x > 0.5] = -1
    return x


# On x of shape (4, 5, 6) and y of shape (6,).
PARTS = {
    "assignments": write_to_parts,
    "select": lambda x, y: torch.select_scatter(x, y.expand(4, 6), 1, -2),
    "select first": lambda x, y: torch.select_scatter(x, y.expand(5, 6), 0, 0),
    "slice": lambda x, y: torch.slice_scatter(x, y.expand(4, 2, 6), 1, 2, 4),
    "slice from the end": lambda x, y: torch.slice_scatter(x, y.expand(4, 3, 6), 1, -3),
    "slice by steps": lambda x, y: torch.slice_scatter(x, y.expand(4, 2, 6), 1, 1, 5, 2),
    "slice beyond": lambda x, y: torch.slice_scatter(x, y.expand(2, 5, 6), 0, 2, 99),
    "slice of nothing": lambda x, y: torch.slice_scatter(x, x[:0], 0, 3, 1),
    "diagonal": lambda x, y: torch.diagonal_scatter(x, y[:4].expand(6, 4)),
    "diagonal above": lambda x, y: torch.diagonal_scatter(x, y[:3].expand(6, 3), 2),
    "diagonal below": lambda x, y: torch.diagonal_scatter(x, y[:4].expand(5, 4), -1, 2, 0),
    "diagonal of the last": lambda x, y: torch.diagonal_scatter(x, y[:4].expand(4, 4), -1, -2, -1),
    "as_strided": lambda x, y: torch.as_strided_scatter(x, y[:4].reshape(2, 2), (2, 2), (30, 7), 3),
}


@pytest.mark.parametrize("opset", [18, 23])
def test_parts(opset):
    x, y = torch.randn(4, 5, 6), torch.randn(6)
    assert_all_match(PARTS, x, y, others=[(torch.randn(4, 5, 6), torch.randn(6))], opset_version=opset)


@pytest.mark.slow
def test_parts_of_dynamic_sizes():
    table = {
        "assignments": write_to_parts,
        "select": lambda x, y: torch.select_scatter(x, y.expand(x.shape[0], 6), 1, -2),
        "slice": lambda x, y: torch.slice_scatter(x, y.expand(x.shape[0], 3, 6), 1, -3),
        "steps": lambda x, y: torch.slice_scatter(x, x[:, 1::2] * 2, 1, 1, None, 2),
        "diagonal": lambda x, y: torch.diagonal_scatter(x, x.diagonal(1) + 1, 1),
    }
    assert_all_match(
        table,
        torch.randn(4, 5, 6),
        torch.randn(6),
        others=[(torch.randn(7, 5, 6), torch.randn(6)), (torch.randn(5, 9, 6), torch.randn(6))],
        dynamic_shapes={"args": ({0: Dim.AUTO, 1: Dim.AUTO}, {})},
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bool, torch.int64], ids=str)
def test_parts_of_other_types(dtype):
    table = {name: function for name, function in PARTS.items() if name != "assignments"}
    assert_all_match(table, draw(dtype, 4, 5, 6), draw(dtype, 6), others=[(draw(dtype, 4, 5, 6), draw(dtype, 6))])


@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (9, 3), (3, 3, 3)])
@pytest.mark.parametrize("wrap", [False, True])
def test_fill_diagonal(shape, wrap):
    assert_matches(lambda x: x.clone().fill_diagonal_(2.5, wrap), torch.randn(shape))


def test_fill_diagonal_of_any_size():
    shapes = ({0: "rows", 1: "columns"},)
    others = [(torch.randn(7, 2),), (torch.randn(2, 5),)]
    assert_matches(lambda x: x.clone().fill_diagonal_(1.0), torch.randn(3, 4), others=others, dynamic_shapes=shapes)


def test_fill_diagonal_of_a_part():
    def model(x):
        y = x.clone()
        y[:, 1:].fill_diagonal_(7.0)
        return y

    assert_matches(model, torch.randn(3, 4))
    assert_matches(model, torch.randn(3, 4), others=[(torch.randn(5, 4),)], dynamic_shapes=({0: "rows"},))


@pytest.mark.slow
def test_values_that_are_the_same_for_all_elements_of_a_mask():
    """Nothing in the file has a size that the mask decides."""

    def put(accumulate, *index):
        return lambda x, y, m, n: torch.ops.aten.index_put(x, index_of(m, n, *index), y[index[-1]], accumulate)

    def index_of(m, n, before, mask, _):
        return [None] * before + [m if mask == "rows" else n]

    values = {
        "rows": [(0, (0, 0)), (0, (0, 0, slice(1))), (0, (slice(1), slice(1)))],
        "plane": [(0, (0, 0)), (0, (0, slice(1)))],
    }
    table = {
        f"{mask} {before} {number} {accumulate}": put(accumulate, before, mask, value)
        for mask, listed in values.items()
        for number, (before, value) in enumerate(listed)
        for accumulate in (False, True)
    }
    inner = lambda x, y, m, n: torch.ops.aten.index_put(x, [None, n[0]], y[:, :1, :])  # noqa: E731
    rows, plane = torch.rand(4) > 0.5, torch.rand(4, 3) > 0.5
    given = torch.randn(4, 3, 5), torch.randn(4, 3, 5), rows, plane
    others = [(*given[:2], truth, truth[:, None].expand(4, 3)) for truth in (rows < 0, rows > -1)]
    assert_all_match({**table, "inner": inner}, *given, others=others)
    program = assert_matches(inner, *given)
    assert not {"NonZero", "ScatterND"} & {node.op_type for node in program.model.graph}
