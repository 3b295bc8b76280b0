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
