"""`if`, conditional expressions, and what sides do."""

from __future__ import annotations

import torch
from models.deciding.model import ROWS, deciding
from torch import nn

__all__: list[str] = []


@deciding(1)
class OneOfTwoLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        y = self.left(x) if x.sum() > 0 else self.right(x) * 2
        return torch.relu(self.last(y)) + 1


@deciding(3)
def steps_that_are_left_out(x):
    if x.sum() > 0:
        x = x + 1
    if x.max() > 2:
        x = x * 3
    if x.min() < -1:
        x = x - 5
    return x


@deciding(3)
def nested_with_early_return(x):
    y = x * 2
    if x.sum() > 0:
        if x.max() > 3:
            y = y + 1
        elif x.max() > 0.4:
            return y - 1
        else:
            y = y.cos()
        y = y * 3
    return y.sin()


@deciding(3)
def chain_of_elifs(x):
    if x.max() > 3:
        return x + 1
    elif x.max() > 0.4:
        return x + 2
    elif x.sum() > -4:
        return x + 3
    return x + 4


@deciding(2)
def flag_for_later(x):
    large = False
    if x.sum() > 0:
        large = True
    if x[0, 0] > 1:
        x = x + 10 if large else x - 10
    return x * 2


@deciding(2)
def value_that_only_one_branch_uses_later(x):
    y = x.sin() if x.sum() > 0 else x.cos()
    z = x * 2
    if x.max() > 1:
        return z + y
    return z


@deciding(2)
def both_of_two(x):
    return x + 1 if x.sum() > 0 and x[0, 0] > 1 else x - 1


@deciding(2)
def one_of_two(x):
    return x + 1 if x.sum() > 0 or not x[0, 0] > -1 else x - 1


@deciding(1)
def asked_again(x):
    positive = x.sum() > 0
    y = x + 1 if positive else x - 1
    return y * 2 if positive else y * 3


@deciding(1)
def swapped(x):
    a, b = x + 1, x * 2
    if x.sum() > 0:
        a, b = b, a
    return a - b


@deciding(1)
def a_temporary_value(x):
    return x.sin() + _absolute_or_not(x)


def _absolute_or_not(x):
    return x.abs() if x.sum() > 0 else x


@deciding(2)
def in_a_list(x):
    found = [x]
    if x.sum() > 0:
        found[0] = x.sin()
    if x[0, 0] > 1:
        found.append(x * 2)
    return sum(found)


@deciding(1)
def written_in_place(x):
    y = x.clone()
    if x.sum() > 0:
        y[:, 0] = 7
    y += 1
    return y


@deciding(2)
def written_to_what_others_see(x):
    y = x.clone()
    row = y[:, 1]
    if x.sum() > 0:
        row += 5
    if x[0, 0] > 1:
        row *= 2
    return y


@deciding(3)
def equal_numbers_of_a_list(x):
    for factor in [2, 2, 2]:
        if x.sum() > 0:
            x = x * factor - 1
    return x


@deciding(4)
def for_each_column(x):
    for i in range(4):
        if x[:, i].sum() > 0:
            x = x * 1.5 + i
    return x


@deciding(1)
class Counting(nn.Module):
    """Sets an attribute of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def forward(self, x):
        self.seen += 1
        self.last = x.abs() if x.sum() > 0 else x
        return self.last + self.last.exp()


class _MaybeLinear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        if x.mean() > 0:
            return self.linear(x)
        return x * 0.5


@deciding(2)
class LayersThatAreLeftOut(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(_MaybeLinear() for _ in range(2)))

    def forward(self, x):
        return self.layers(x) + x


@deciding(1)
def results_of_several_sizes(x):
    y = torch.cat([x, x]) if x.sum() > 0 else x
    z = y * 2
    return z.reshape(z.shape[0] * 4)


@deciding(1, (torch.ones(ROWS, 4), -torch.ones(ROWS, 4), torch.tensor([[1.0, -1, 2, -3]] * ROWS)))
def nothing_is_left(x):
    y = x[x > 0]
    if y.numel() == 0:
        return torch.zeros(1)
    return y.mean().reshape(1)


@deciding(1)
def two_results(x):
    if x.sum() > 0:
        return {"a": x + 1, "b": (x.sum(), x)}
    return {"a": x - 1, "b": (x.max(), x * 2)}


@deciding(0)
def both_sides_alike(x):
    if x.sum() > 0:
        return x * 2 + 1
    return x * 2 + 1


@deciding(1)
def random_numbers_of_no_use(x):
    if x.sum() > 0:
        torch.rand(3)
        return x + 1
    return x


@deciding(1)
def a_comparison_of_two_tensors(x):
    return x * 3 if x[:, 0].sum() >= x[:, 1].sum() else x / 3


@deciding(1)
def around_a_cond(x):
    y = torch.cond(x.max() > 1, lambda v: v + 1, lambda v: v - 1, (x,))
    return y.sin() if x.sum() > 0 else y.cos()


@deciding(1)
def an_item(x):
    largest = x.max().item()
    return x / largest if largest > 1 else x


def _two_or_three(x):
    return 2 if x.sum() > 0 else 3


def _one_or_none(x):
    return 1 if x.max() > 1 else 0


@deciding(3)
def numbers_that_no_variable_holds(x):
    return x * (_two_or_three(x) * (_one_or_none(x) + (5 if x.min() < -1 else 4)))


@deciding(2, (torch.ones(ROWS, 4), -torch.ones(ROWS, 4), torch.tensor([[1.0, -1, -2, -3]] * ROWS)))
def sizes_known_in_one_branch(x):
    y = x[x > 0]
    if y.numel() == 0:
        return x.sum().reshape(1)
    if y.numel() == 3:
        y = y + torch.arange(3)
    return y.max().reshape(1)


@deciding(1, (torch.ones(4, 4), -torch.ones(4, 4), torch.tensor([[0.1, -1, -2, -3]] * 4)))
def a_size_that_one_branch_divides(x):
    y = x[x > 0]
    if x.sum() > 3:
        y = y.reshape(-1, 2).sum(1)
    return y * 2


@deciding(0)
def an_assertion_about_data(x):
    assert x.isfinite().all()
    y = x[x > -100]
    if y.numel() == 0:
        raise ValueError("nothing is left")
    return y.amax(0, keepdim=True)
