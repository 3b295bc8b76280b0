"""Indices that are lists of integer tensors without dimensions, and sizes beside tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.matching import assert_matches
from helpers.rows import one_in

from opbridge.capture.tracer.indices import with_tensors


def places_from_pairs(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    pairs = torch.stack([torch.arange(x.shape[0]), x.argmax(1)], 1)
    rows, columns = zip(*pairs, strict=True)
    mask = torch.zeros_like(x, dtype=torch.bool)
    mask[rows, columns] = True
    return mask, x[rows, columns]


def lists_of_tensors_and_numbers(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    first, second = x.argmax(0)[:2]
    return x[:, [first % 4, second % 4]], x[[first, 2, second], 1:]


@pytest.mark.parametrize("model", [places_from_pairs, lists_of_tensors_and_numbers], ids=lambda model: model.__name__)
def test_a_list_of_tensors_is_an_index(model):
    assert_matches(model, torch.randn(6, 4), others=[(torch.randn(6, 4),) for _ in range(3)])


def test_other_indices_stay_as_they_are():
    number = torch.tensor(1)
    for index in (number, [number, number], (number, 0), ([0, 1], slice(None)), ((True, number),), ([1.0, number],)):
        assert with_tensors(index) is None
    rows, rest = with_tensors(([number, 2], slice(None)))
    assert rows.tolist() == [1, 2] and rest == slice(None)


def written_row_by_row(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    found = torch.zeros(x.shape[0], 2, 6)
    for i in range(x.shape[0]):
        found[i, 0, places[i]] = x[i]
        found[i, 1, places[i]] = -1.0
    return found


def read_row_by_row(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    return torch.stack([x[i, places[i]] * i for i in range(x.shape[0])])


def beside_slices(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    found = x[:, None, :].expand(-1, 3, -1).clone()
    for i in range(x.shape[0]):
        found[i, :, places[i]] = found[i, :, places[i]] * 2
        found[i, ..., x[i] > 0] = 7
    return found


def at_a_quotient(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    middle = x.shape[0] // 2
    return x[middle, :, None][places[middle]] + x[None, middle, places[0]].sum()


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    one_in(2, [written_row_by_row, read_row_by_row, beside_slices, at_a_quotient]),
    ids=lambda model: model.__name__,
)
def test_sizes_beside_tensors_select_first(model: Any) -> None:
    def inputs(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(rows, 5), torch.stack([torch.randperm(5) for _ in range(rows)])

    dynamic = ({0: torch.export.Dim("rows")}, {0: torch.export.Dim("rows")})
    assert_matches(model, *inputs(4), others=[inputs(rows) for rows in (1, 2, 5, 9)], dynamic_shapes=dynamic)


def places_of_all_rows(x: torch.Tensor, places: torch.Tensor) -> tuple[torch.Tensor, ...]:
    rows = torch.arange(x.shape[0])[:, None].repeat(1, places.shape[1])
    first, second = zip(*torch.stack([rows, places], -1).flatten(0, 1))  # noqa: B905 - UDOP passes no strict=
    mask = torch.zeros_like(x, dtype=torch.bool)
    mask[first, second] = True
    return mask, x[first, second], torch.stack(second), max(second), torch.tensor(len(first))


def columns_gone_over(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    columns = zip(*places.flatten()[:, None].repeat(1, 3), strict=True)
    return torch.stack([torch.stack([x[0, place] for place in column]).sum() for column in columns])


@pytest.mark.slow
@pytest.mark.parametrize("model", [places_of_all_rows, columns_gone_over], ids=lambda model: model.__name__)
def test_the_columns_of_a_tensor_of_a_dynamic_size(model: Any) -> None:
    def inputs(batch: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(batch, 5), torch.randint(5, (batch, count))

    dynamic = ({0: "batch"}, {0: "batch", 1: "count"})
    assert_matches(model, *inputs(2, 3), others=[inputs(1, 1), inputs(4, 2), inputs(3, 7)], dynamic_shapes=dynamic)


def rows_of_a_comprehension(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    even = [i for i in range(x.shape[0]) if i % 2 == 0]
    return x[even], x[:, [0, 2]][even] * 2


def rows_of_a_loop(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    half = []
    for i in range(x.shape[0]):
        half.append(i // 2)
    written = x.clone()
    written[half, 1] = 7
    return x[half, :2], written


def rows_by_data(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    kept = [i for i in range(x.shape[0]) if x[i].sum() > 0]
    written = x.clone()
    written[kept] = 0
    return x[kept], written


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", one_in(2, [rows_of_a_comprehension, rows_of_a_loop, rows_by_data]), ids=lambda model: model.__name__
)
def test_a_list_that_is_filled_is_an_index(model: Any) -> None:
    others = [(sign * torch.rand(count, 3),) for sign in (1, -1) for count in (1, 2, 3, 9)]
    assert_matches(model, torch.randn(5, 3), others=others, dynamic_shapes={"x": {0: "rows"}})
