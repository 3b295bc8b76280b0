"""`while` loops."""

from __future__ import annotations

import torch
from models.deciding.model import COUNTS, GROWING, SIGNS, count, deciding
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


_FEW = GROWING[:4]  # for these there is a turn, and so an element


@deciding(0, _FEW, loops=1)
def appended_in_a_while_loop(x):
    found = []
    while x.sum() < 30:
        x = x * 1.5 + 0.1
        found.append(x)
    return torch.stack(found)


@deciding(0, GROWING, loops=1)
def appended_to_a_list_with_one(x):
    found = [x]
    while x.sum() < 30:
        x = x * 1.5 + 0.1
        found.append(x)
    return torch.stack(found, 1) * len(found)


@deciding(0, GROWING, loops=1)
def appended_before_a_break(x):
    found, y = [x], x
    while True:
        y = y + x
        found.append(y)
        if y.sum() > 30:
            break
    return torch.cat(found, 1)


@deciding(0, GROWING, loops=1)
def from_the_last_element_of_a_list(x):
    found, done, turns = [x], False, 0
    while not done:
        found.append(found[-1] * 1.3 + 0.1)
        turns += 1
        done = (found[-1].sum() > 30).item()
    return torch.stack(found) * turns


@deciding(1, GROWING, loops=1)
def appended_on_both_sides_and_asked_about_afterwards(x):
    found, total = (x,), x
    while total.sum() < 30:
        total = total * 1.5 if total.max() > 1 else total + 0.4
        found += (total, total.cos())
    if total.mean() > 5:
        total = total - 5
    return torch.stack(found), total


@deciding(3, SIGNS)
def as_many_turns_as_python_says(x):
    """The turns of this loop are no turns of data."""
    found, i = [], 0
    while i < 3:
        x = x + 1 if x[0, i] > 0 else x * 0.5
        found.append(x)
        i += 1
    return torch.stack(found)


@deciding(1, GROWING, loops=2)
def returned_from_two_loops(x):
    while x.sum() < 30:
        y = x
        while y.sum() < 50:
            y = y * 1.5
            if y.max() > 40:
                return y
        x = x + y
    return x


@deciding(1, _FEW, loops=1)
def appended_in_some_turns(x):
    found = [x]
    while x.sum() < 30:
        if x.max() > 1.3:
            found.append(x.exp())
        x = x * 1.5
    return torch.stack(found), x * len(found)


@deciding(1, _FEW, loops=1)
def appended_to_one_of_two_lists(x):
    small, large = [x[0]], [x[0] * 3]
    while x.sum() < 30:
        if x.max() > 1.3:
            large.append(x[0] * 2)
        else:
            small.append(x[0] + 1)
        x = x * 1.5
    return torch.stack(small), torch.cat(large)
