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


@deciding(1, TURNS, loops=1)
def a_comprehension_with_a_condition_over_lines(x):
    found = [
        x[:, 1] * i
        for i in range(count(x))
        if (x[:, 1] * i).sum() < 6
    ]  # fmt: skip
    return torch.stack(found)


@deciding(0, TURNS, loops=1)
def a_comprehension_that_hides_a_tensor(x):
    i = x.sum()
    return torch.stack([torch.tanh(x[:, 1] * i) for i in range(count(x))]) * i


@deciding(0, TURNS, loops=1)
def a_comprehension_that_hides_a_shared_number(x):
    i = 3
    found = torch.stack([torch.tanh(x[:, 1] * i) for i in range(count(x))])
    return (lambda y: y * i)(found)


@deciding(0, TURNS, loops=2)
def two_comprehensions_in_a_line(x):
    return torch.stack([x[:, 1] * i for i in range(count(x))]) + torch.stack([x[:, 2] + j for j in range(count(x))])


@deciding(1, TURNS, loops=1)
def a_comprehension_as_an_argument_of_what_differs(x):
    y = x.abs() if x[0, 1] > 0.4 else x.cos()
    return y.add(torch.stack([x[:, 1] * i for i in range(count(x))]).sum())


@deciding(0, TURNS, loops=2)
def a_comprehension_in_a_while_loop(x):
    y = x[:, 1]
    while y.sum() < 50:
        y = y + torch.stack([y.abs() + i for i in range(count(x))]).sum(0) + 1
    return y


@deciding(3, TURNS)
def decisions_in_a_comprehension(x):
    k = 5 if x.sum() > 2 else 7
    y, z = [x * 2 if x.sum() > k else x.sin() for k in range(2)]
    return y + z * k


@deciding(0, TURNS, loops=1, rows=True)
def a_comprehension_over_rows(x):
    return torch.stack([row * number for number, row in enumerate(x)])


@deciding(0, TURNS, loops=2, rows=True)
def a_comprehension_in_a_comprehension(x):
    return torch.stack([torch.stack([row * other for row in x]) for other in x])


@deciding(0, TURNS, loops=2, rows=True)
def a_comprehension_in_a_loop(x):
    found = []
    for row in x:
        found.append(torch.stack([row * other for other in x]))
    return torch.stack(found)
