"""The integers of a tensor that are known, row by row."""

from __future__ import annotations

import pytest
import torch

from opbridge.capture.tracer.integer_tables import each_of, part, rows

TABLE = ((1, 2), (3, 4), (5, 6))


@pytest.mark.parametrize(("dim", "index"), [(0, 0), (0, -1), (1, 1), (1, -2)])
def test_a_part_is_what_select_gives(dim, index):
    assert list(part(TABLE, dim, index)) == torch.tensor(TABLE).select(dim, index).tolist()


@pytest.mark.parametrize("bounds", [(), (1,), (1, 3), (-2, None), (0, 9223372036854775807, 2), (2, 1)])
def test_rows_are_those_of_a_slice(bounds):
    assert [list(each) for each in rows(TABLE, bounds)] == torch.ops.aten.slice(
        torch.tensor(TABLE), 0, *bounds
    ).tolist()


def test_an_index_that_is_no_number_gives_nothing():
    assert part(TABLE, 0, "n") is None
    assert rows(TABLE, (0, "n")) is None


def test_what_is_not_known_of_one_is_not_known_of_the_table():
    assert each_of(TABLE, lambda each: 10 - each) == ((9, 8), (7, 6), (5, 4))
    assert each_of(TABLE, lambda each: None if each == 4 else each) is None
    assert each_of((), lambda each: None) == ()
