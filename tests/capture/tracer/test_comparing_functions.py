"""Comparisons of tensors that give a bool of Python, as conditions of a model."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches

X = torch.tensor([1.0, 2.0, 3.0])
OTHERS = [(X, X + 1), (X, X), (X, X + 1e-7), (X * torch.nan, X * torch.nan)]


def _close(x, y):
    return x * 2 if torch.allclose(x, y) else x + y


def _close_in_general(x, y):
    return x + y if not x.allclose(y, rtol=0.0, atol=1.5, equal_nan=True) else x * 2


def _equal(x, y):
    return x * 2 if torch.equal(x, y) and x.sum() > 0 else x + y


@pytest.mark.parametrize("model", [_close, _close_in_general, _equal])
def test_both_branches_are_in_the_file(model):
    program = assert_matches(model, X, X * 2, others=OTHERS)
    assert program.plan.decisions


def test_tensors_of_other_shapes_are_not_equal():
    def model(x):
        return x * 2 if x.equal(x[1:]) else x + 1

    assert not assert_matches(model, X).plan.decisions


@pytest.mark.slow
def test_a_loop_until_nothing_changes():
    """As labels of connected components are found."""

    def model(x):
        while True:
            former = x
            x = torch.maximum(x, torch.cat([x[1:], x[:1]]).sub(1))
            if torch.equal(x, former):
                return x

    assert_matches(
        model, torch.tensor([5, 0, 1, 0]), others=[(torch.tensor(each),) for each in ([0, 0, 0, 9], [4] * 4)]
    )
