"""Indices that are lists of integer tensors without dimensions."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches

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
