"""Sequences of a symbolic length are what Python's are, also with numbers for what is symbolic."""

from __future__ import annotations

import itertools
import operator

import pytest
import torch
from helpers.captures import assert_same, named

from opbridge.capture import capture
from opbridge.capture.tracer.sized_sequences import Range
from opbridge.errors import CaptureError


def test_a_range_has_what_the_range_of_python_has() -> None:
    for start, stop, step in itertools.product(range(-3, 4), range(-3, 4), (-3, -2, -1, 1, 2, 3)):
        found, expected = Range(start, stop, step), range(start, stop, step)
        assert found.length == len(expected)
        assert [found.has(index) for index in range(8)] == [index < len(expected) for index in range(8)]
        assert [found.at(index) for index in range(len(expected))] == list(expected)


def test_a_slice_of_a_range_has_what_that_of_python_has() -> None:
    limits = (None, -9, -2, -1, 0, 1, 2, 9)
    for start, stop, step in itertools.product((-1, 2), (-3, 2, 5), (-2, -1, 1, 3)):
        for given in itertools.product(limits, limits, (None, -3, -1, 1, 2)):
            found = Range(start, stop, step)[slice(*given)]
            assert [found.at(index) for index in range(found.length)] == list(range(start, stop, step)[slice(*given)])


@pytest.mark.parametrize(
    "numbers",
    [
        lambda n: list(range(n))[::-1],
        lambda n: list(range(1, 3 * n, 3))[-1::-2],
        lambda n: range(n, 0, -1)[::-2],
        lambda n: list(range(n + 3))[2::-1],
    ],
)
def test_numbers_of_a_range_in_reverse_order(numbers) -> None:
    class Reversed(torch.nn.Module):
        def forward(self, x):
            return torch.tensor(numbers(x.shape[0]))[None] < x.shape[0] - 1, x + 1

    taken = capture(Reversed(), (torch.randn(7, 2),), dynamic_shapes={"x": {0: "n"}})
    assert not taken.notes
    for size in (2, 3, 8, 13):
        assert_same(taken, torch.randn(size, 2))


@pytest.mark.parametrize(
    "numbers",
    [
        lambda n: list(range(n))[1:],
        lambda n: list(range(1, 3 * n, 3))[-1:0:-2],
        lambda n: [n] * (n - 1),
    ],
)
def test_a_tensor_of_an_empty_list_has_the_default_dtype(numbers) -> None:
    """For one row, each list is empty, and the file would have integers."""

    class Listed(torch.nn.Module):
        def forward(self, x):
            return torch.tensor(numbers(x.shape[0])), x + 1

    taken = capture(Listed(), (torch.randn(7, 2),), dynamic_shapes={"x": {0: "n"}})
    assert "n >= 2" in " ".join(taken.notes)
    for size in (2, 3, 8):
        assert_same(taken, torch.randn(size, 2))


@pytest.mark.parametrize(
    "numbers",
    [
        lambda n: torch.tensor(list(range(n))[1:], dtype=torch.int64),
        lambda n: torch.tensor([0.5] * (n - 1)),
    ],
)
def test_a_tensor_of_an_empty_list_with_a_known_dtype(numbers) -> None:
    class Listed(torch.nn.Module):
        def forward(self, x):
            return numbers(x.shape[0]), x + 1

    taken = capture(Listed(), (torch.randn(7, 2),), dynamic_shapes={"x": {0: "n"}})
    for size in (1, 2, 3, 8):
        assert_same(taken, torch.randn(size, 2))


@pytest.mark.parametrize(
    "numbers",
    [
        lambda x: torch.tensor(list(range(int((x > 0).sum())))),
        lambda x: torch.tensor(x[:, 0].long().nonzero().flatten().tolist()),
        lambda x: torch.tensor([row for row, each in enumerate(x[:, 0].tolist()) if each > 0]),
    ],
)
def test_an_empty_list_by_data_changes_the_dtype(numbers) -> None:
    class Listed(torch.nn.Module):
        def forward(self, x):
            return numbers(x)

    with pytest.raises(CaptureError, match="a floating-point tensor of an empty list: pass dtype= to torch.tensor"):
        capture(Listed(), (torch.randn(7, 2),), dynamic_shapes={"x": {0: "n"}})


@pytest.mark.parametrize(
    "taken_by",
    [
        lambda x: x[list(range(x.shape[0]))[::-1]],
        lambda x: x[range(1, x.shape[0])],
        lambda x: x.t()[:, list(range(0, x.shape[0], 2))],
        lambda x: x[list(range(x.shape[0])), 0],
    ],
)
def test_a_range_as_an_index(taken_by) -> None:
    class Taken(torch.nn.Module):
        def forward(self, x):
            return taken_by(x) + 1

    taken = capture(Taken(), (torch.randn(7, 2),), dynamic_shapes={"x": {0: "n"}})
    assert not taken.notes
    for size in (2, 3, 8, 13, 40):
        assert_same(taken, torch.randn(size, 2))


def test_a_loop_over_chunks_that_is_unrolled_is_valid_for_all_sizes_of_one_chunk() -> None:
    """What it keeps in Python differs between iterations, so that it is no loop of the file."""

    def scaled(x):
        seen, parts = {}, []
        for start in range(0, x.shape[0], 100):
            seen[len(seen)] = "x" * len(seen)
            parts.append(x[start : min(start + 100, x.shape[0])] * (1 + len(seen)))
        return torch.cat(parts)

    taken = capture(scaled, (torch.randn(30, 2),), dynamic_shapes=({0: "n"},))
    why, valid = taken.notes
    assert why == taken.no_loop and why.startswith("the loop over a dynamic size is unrolled as in the example: ")
    assert valid.startswith("the file is valid only for n <= 100 ")
    assert sum(each.executions for each in taken.tried) < 8  # other numbers of chunks are not tried one by one
    for size in (1, 2, 99, 100):
        assert_same(taken, torch.randn(size, 2))


@pytest.mark.parametrize(
    "write",
    [
        lambda x, row, value: operator.setitem(x, (slice(None), row), value),
        lambda x, row, value: operator.setitem(x, (slice(None), slice(row, row + 1)), value[:, None]),
        lambda x, row, value: operator.setitem(
            x, (slice(None), slice(2 * row, 2 * row + 2)), torch.stack([value] * 2, 1)
        ),
    ],
)
def test_a_loop_that_writes_to_parts_asks_about_no_other_size(write) -> None:
    class Filled(torch.nn.Module):
        def forward(self, x):
            found = x.new_zeros(x.shape[0], 2 * x.shape[1], 3)
            total = x.new_zeros(x.shape[0], 3)
            for row in range(x.shape[1]):
                write(found, row, total)
                total = total + x[:, row]
            return found

    taken = capture(Filled(), (torch.randn(2, 5, 3),), dynamic_shapes={"x": {0: "batch", 1: "rows"}})
    assert not taken.notes
    assert not [each for each in taken.graph.conditions if "batch" in named(each.expression, taken.dim_names)]


def test_a_write_to_a_column_asks_about_no_other_size() -> None:
    class Filled(torch.nn.Module):
        def forward(self, x):
            found = x.new_zeros(x.shape[0], 3, x.shape[1] + 1)
            total = x.new_zeros(x.shape[0], 3)
            for row in range(x.shape[1]):
                found[:, :, row] = total
                total = total + x[:, row]
            found[:, :, -1] = total
            return found

    taken = capture(Filled(), (torch.randn(2, 5, 3),), dynamic_shapes={"x": {0: "batch", 1: "rows"}})
    assert not taken.notes
    assert not [each for each in taken.graph.conditions if "batch" in named(each.expression, taken.dim_names)]


def test_the_length_of_what_a_division_leaves_is_no_maximum() -> None:
    lengths = []

    class Left(torch.nn.Module):
        def forward(self, x):
            left = Range(x.shape[0] // 8 * 8, x.shape[0], 1)
            lengths.append(str(left.length))
            return x[: left.length]

    capture(Left(), (torch.randn(13),), dynamic_shapes={"x": {0: "n"}})
    assert lengths and not any("Max" in each for each in lengths)
