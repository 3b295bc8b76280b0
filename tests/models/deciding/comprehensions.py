"""Comprehensions and generators."""

from __future__ import annotations

import torch
from models.deciding.model import TURNS, count, deciding

__all__: list[str] = []


@deciding(0, TURNS, loops=1)
def a_comprehension_that_is_stacked(x):
    return torch.stack([torch.tanh(x[:, 1] * i) for i in range(count(x))])


@deciding(0, TURNS, loops=1)
def a_generator_in_a_tuple(x):
    return torch.cat(tuple(x * i for i in range(count(x))), 1)


@deciding(1, TURNS, loops=1)
def a_comprehension_of_two_sides(x):
    found = [x * i if i < 2 else x.cos() for i in range(count(x))]
    return torch.stack(found) * len(found)


@deciding(1, TURNS, loops=1)
def a_comprehension_with_a_condition(x):
    return torch.stack([x[:, 1] * i for i in range(count(x)) if (x[:, 1] * i).sum() < 6])


@deciding(1, TURNS, dynamic=False, loops=1)  # a capture without an element knows no dynamic sizes of one
def a_comprehension_with_two_conditions(x):
    found = [x[:, 1] + i for i in range(count(x)) if i * x[0, 1] < 2.2 if (x[:, 1] * i).sum() < 6]
    return torch.cat(found), x * len(found)
