"""`while` loops."""

from __future__ import annotations

import torch
from models.deciding.model import COUNTS, GROWING, count, deciding
from torch import nn

__all__: list[str] = []


@deciding(0, GROWING, loops=1)
def a_while_loop(x):
    while x.sum() < 30:
        x = x * 1.5 + 0.1
    return x.sin()


@deciding(0, GROWING, loops=1)
def a_loop_that_ends_with_a_break(x):
    y = x
    while True:
        y = y + x
        if y.sum() > 30:
            break
    return y * 2


@deciding(1, GROWING, loops=1)
def a_decision_in_a_loop(x):
    y = x.new_zeros(())
    while x.sum() < 30:
        x = x + 0.5 if x.max() > 1 else x * 1.5
        y = y + 1
    return x, y


@deciding(0, GROWING, loops=2)
def a_loop_in_a_loop(x):
    y = x
    while y.sum() < 30:
        z = x
        while z.sum() < y.sum():
            z = z * 2
        y = y + z
    return y


@deciding(0, GROWING, loops=1)
def a_loop_that_adds_rows(x):
    y = x[:1]
    while y.sum() < 10:
        y = torch.cat([y, y[-1:] + x[:1]])
    return y * 2


@deciding(1, GROWING, loops=1)
class ALoopOnOneSide(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        if x.sum() < 5:
            while x.abs().sum() < 10:
                x = self.linear(x) + x * 2
            return x
        return self.linear(x)


@deciding(0, GROWING, loops=2)
def one_loop_after_the_other(x):
    while x.sum() < 30:
        x = x * 1.5
    while x.mean() > 1:
        x = x / 2
    return x


@deciding(0, GROWING, loops=1)
def swapped_in_each_turn(x):
    a, b = x, x * 2 + 1
    while a.sum() < 30:
        a, b = b, a + b
    return a - b


@deciding(0, GROWING, loops=1)
def handed_on_from_turn_to_turn(x):
    a = b = c = d = x
    while a.sum() < 30:
        a, b, c, d = b, c, d, d * 1.5 + 1
    return a + d


@deciding(0, GROWING, loops=1)
def turns_that_are_counted(x):
    turns, share = 0, 1.0
    while x.sum() < 30:
        x = x * 1.5 + turns
        turns += 1
        share *= 0.5
    return x, x * turns, x * share


@deciding(0, COUNTS, loops=1)
def a_number_in_the_condition(x):
    i = 0
    while i < count(x):
        x = torch.cat([x[:, :1], x[:, 1:] * 1.1 + i], 1)
        i += 1
    return x


# The segments end where the second number is positive.
