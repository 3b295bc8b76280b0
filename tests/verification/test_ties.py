"""Positions among equal elements."""

from __future__ import annotations

import torch

from opbridge.verification.ties import picks_the_same

SOURCE = torch.tensor([[3.0, 1.0, 3.0, float("nan")], [0.0, 0.0, 0.0, 2.0]])


def test_equal_elements_in_another_order() -> None:
    expected = SOURCE.argsort(dim=1, stable=True)
    assert picks_the_same(SOURCE, expected, torch.tensor([[1, 2, 0, 3], [2, 0, 1, 3]]))
    assert picks_the_same(SOURCE, torch.tensor([[0], [1]]), torch.tensor([[2], [0]]))
    assert picks_the_same(SOURCE, torch.tensor([0, 1]), torch.tensor([2, 0]))  # the dimension is gone


def test_what_is_wrong() -> None:
    expected = SOURCE.argsort(dim=1, stable=True)
    assert not picks_the_same(SOURCE, expected, torch.tensor([[0, 1, 2, 3], [0, 1, 2, 3]]))  # other elements
    assert not picks_the_same(SOURCE, expected, torch.tensor([[1, 0, 0, 3], [0, 1, 2, 3]]))  # one of them twice
    assert not picks_the_same(SOURCE, expected, torch.tensor([[1, 0, 4, 3], [0, 1, 2, 3]]))  # out of range
    assert not picks_the_same(SOURCE, expected, expected.to(torch.int32))
    assert not picks_the_same(SOURCE, SOURCE, SOURCE)
