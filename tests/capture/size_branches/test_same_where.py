"""Branches on sizes of which one, specialised where the other runs, is the other one."""

from __future__ import annotations

import random

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from opbridge.capture import capture, other_branches
from opbridge.capture.guards.conditions import hold
from opbridge.capture.guards.expressions import holds_at
from opbridge.capture.size_branches.same_where import is_same_where
from opbridge.errors import OpbridgeError
from opbridge.graph.captured_graph import SizeCondition


class Model(nn.Module):
    """Computes by a function; all captures are of this one."""

    def __init__(self) -> None:
        super().__init__()
        self.function = None

    def forward(self, x):
        return self.function(x)


MODEL = Model().eval()


def graph_of(function):
    MODEL.function = function
    return capture(MODEL, (torch.randn(7, 6),), dynamic_shapes={"x": {0: "rows"}}).graph


def is_same(one, other, condition):
    first, second = graph_of(one), graph_of(other)
    (symbol,) = first.places
    text = condition.replace("n", symbol)
    points = [{symbol: size} for size in range(1, 30) if holds_at(text, {symbol: size})]
    return is_same_where(first, second, (SizeCondition(text, (symbol,), ""),), {symbol: (0, None)}, points)


def doubled(x):
    return x * 2


@pytest.mark.parametrize(
    ("more", "condition", "expected"),
    [
        (lambda x: F.pad(x, (0, 0, 0, -x.shape[0] % 4)), "n % 4 == 0", True),
        (lambda x: F.pad(x, (0, 0, 0, -x.shape[0] % 4)), "n % 2 == 0", False),
        (lambda x: F.pad(x, (0, 0, x.shape[0] % 4, -(x.shape[0] % 4))), "n % 2 == 0", False),
        (lambda x: x[: torch.sym_min(x.shape[0], 9)], "n <= 9", True),
        (lambda x: x[: torch.sym_min(x.shape[0], 9)], "n <= 10", False),
        (lambda x: x.repeat(1, 1 + x.shape[0] % 3), "n % 3 == 0", True),
        (lambda x: x.repeat(1, 1 + x.shape[0] % 3), "n % 3 <= 1", False),
        (lambda x: torch.cat([x, x[: x.shape[0] % 3]]), "n % 3 == 0", True),
        (lambda x: torch.cat([x, x[: x.shape[0] % 3]]), "n % 3 != 1", False),
        (lambda x: x.reshape(x.shape[0] // 2 * 2 + x.shape[0] % 2, 6), "n % 2 == 0", True),
        (lambda x: x.flip(0), "n % 2 == 0", False),
        (lambda x: x + 0, "n % 2 == 0", False),  # -0.0 becomes 0.0
        (lambda x: x.to(torch.float64).to(torch.float32), "n % 2 == 0", False),
        (lambda x: x.contiguous().clone(), "n % 2 == 0", True),
        (lambda x: x * ((x.shape[0] + 1) // 2 / 3 + 1), "n % 2 == 0", False),
    ],
)
def test_what_does_nothing_where_a_condition_holds(more, condition, expected):
    assert is_same(lambda x: doubled(more(x)), doubled, condition) is expected


@pytest.mark.parametrize(("condition", "expected"), [("n % 4 == 0", True), ("n % 2 == 0", False)])
def test_floats_are_the_same_where_they_are_computed_from_equal_integers(condition, expected):
    def scaled(rows):
        return lambda x: x * ((rows(x.shape[0]) - 1) / max(1, rows(x.shape[0]) - 1))

    assert is_same(scaled(lambda n: (n + 3) // 4), scaled(lambda n: n // 4), condition) is expected


def test_nothing_is_left_out_before_strides_are_read():
    def strided(x):
        return x.t().contiguous().as_strided((2, 2), (1, 2))

    def of_view(x):
        return x.t().as_strided((2, 2), (1, 2))

    assert not is_same(strided, of_view, "n >= 1")


AMOUNTS = [
    lambda n, k: k - n % k,
    lambda n, k: (k - n % k) % k,
    lambda n, k: n % k,
    lambda n, k: torch.sym_max(k - n, 0),
    lambda n, k: n // k,
]
CHANGES = [
    lambda x, amount: F.pad(x, (0, 0, 0, amount)),
    lambda x, amount: F.pad(x, (0, 0, amount, 0), value=1.0),
    lambda x, amount: x[: x.shape[0] - amount],
    lambda x, amount: x[amount:],
    lambda x, amount: torch.cat([x, x[:amount]]),
    lambda x, amount: x.repeat(amount + 1, 1),
    lambda x, amount: x.roll(1, 0),
]
CONDITIONS = [
    lambda n, k: n % k != 0,
    lambda n, k: n % k == 1,
    lambda n, k: n < k,
    lambda n, k: n >= k,
    lambda n, k: n % (2 * k) != 0,
]


class Drawn(nn.Module):
    """Changes its input where a condition on its size holds."""

    def __init__(self, chance) -> None:
        super().__init__()
        self.amount, self.change, self.condition = map(chance.choice, (AMOUNTS, CHANGES, CONDITIONS))
        self.otherwise = chance.choice([None, None, *CHANGES])
        self.k, self.other = chance.choice((2, 3, 4)), chance.choice((2, 3, 4))

    def forward(self, x):
        n = x.shape[0]
        if self.condition(n, self.k):
            x = self.change(x, self.amount(n, self.k))
        elif self.otherwise is not None:
            x = self.otherwise(x, self.amount(n, self.other) % self.other)
        return x.cumsum(0) * 2


@pytest.mark.slow
@pytest.mark.parametrize("turn", range(24))
def test_drawn_branches_are_those_of_the_model(turn):
    chance = random.Random(turn)
    model, example = Drawn(chance).eval(), chance.choice((5, 6, 7, 8))
    try:
        taken = capture(model, (torch.randn(example, 3),), dynamic_shapes={"x": {0: "rows"}})
    except OpbridgeError:
        return  # it says for which sizes the capture is the model
    graph = taken.graph
    compared = 0
    for size in (*range(1, 18), 23, 24, 48):
        x = torch.randn(size, 3)
        if not hold(graph.conditions, dict.fromkeys(graph.places, size)):
            continue
        try:
            expected = model(x)
        except RuntimeError:  # more is taken away than there is
            continue
        (found,) = other_branches.results(graph, [x.clone()])
        torch.testing.assert_close(found, expected)
        compared += 1
    assert compared
