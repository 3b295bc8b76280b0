"""Python's functions of numbers, of sizes and tensors."""

from __future__ import annotations

import builtins
import math

import pytest
import torch
from helpers.captures import assert_same, computed

from opbridge.capture import capture

X = torch.randn(3, 4)


@pytest.mark.parametrize(
    "model",
    [
        lambda x: x * len(x),
        lambda x: x.new_zeros(max(x.shape[0], 4)),
        lambda x: x.new_ones(min([x.shape[0], 5, 9])),
        lambda x: x * math.pow(x.shape[0], 0.5),
    ],
    ids=["len", "max", "min", "pow"],
)
def test_sizes_stay_dynamic(model):
    taken = capture(model, X, dynamic_shapes={"x": {0: "n"}})
    assert taken.notes == ()
    for size in (1, 3, 8):
        assert_same(taken, torch.randn(size, 4))


@pytest.mark.parametrize("choose", ["max", "min"])
def test_tensors_are_chosen_as_python_chooses(choose):
    def model(x, y):
        chosen = getattr(builtins, choose)
        return chosen(x, y), torch.zeros(()) + chosen(x, 2.0)

    taken = capture(model, (torch.tensor(1.0), torch.tensor(2.0)))
    for x, y in ((1.0, 2.0), (3.0, 2.0), (math.nan, 1.0), (1.0, math.nan)):
        given = torch.tensor(x), torch.tensor(y)
        torch.testing.assert_close(computed(taken, *given), model(*given), equal_nan=True)


def test_the_functions_are_pythons_own_afterwards():
    before = builtins.max, builtins.min, math.pow
    capture(lambda x: x * len(x), X, dynamic_shapes={"x": {0: "n"}})
    assert (builtins.max, builtins.min, math.pow) == before
    assert "len" not in globals()
