"""Small models that take elements of lists by data, and what Python keeps from one decision to the next."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

__all__ = [
    "ORDERS",
    "LayerOfAnIndex",
    "StepsInAnOrder",
    "StepsThatAreLeftOut",
    "a_default_for_no_element",
    "a_sum_that_raises",
]

_STEPS: tuple[Callable[..., torch.Tensor], ...] = (
    lambda x, factor: x * (1 + factor),
    lambda x, factor: x + factor,
    lambda x, factor: (x - factor).abs(),
    lambda x, factor: torch.sin(x) * factor,
)

ORDERS = torch.tensor([[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 2, 1, 1], [-1, -2, 0, 3], [0, 0, 0, 0]])


class LayerOfAnIndex(nn.Module):
    """The layer of a list that data choose."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x, index):
        return self.layers[index.item()](x)


class StepsInAnOrder(nn.Module):
    """The steps of a list, in an order that data decide."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x, order):
        for index in order[:3].tolist():
            x = torch.tanh(self.steps[index](x))
        return x


class StepsThatAreLeftOut(nn.Module):
    """The same, of which some are left out; this is how kornia changes colours."""

    def forward(self, x, order, factors):
        factors = factors.unbind(0)
        y = x
        for index in order[:3].tolist():
            if (factors[index] != 0).any():
                y = _STEPS[index](y, factors[index])
        return y.clone() if y is x else y


class StepsWithinACall(nn.Module):
    """The same within the arguments of a call, each step by functions that no other one calls."""

    def forward(self, x, order, factors):
        return _bounded(_stepped(x, order.tolist(), factors.unbind(0)))


def _stepped(x, places, factors):
    y = x
    for index in places:
        if (factors[index] != 0).any():
            y = _FUNCTIONS[index](y, factors[index])
    return y


def _bounded(x):
    return x.clamp(-50, 50)


def _shifted(x, factor):
    return _plus(x, factor)


def _plus(x, factor, *, scale=1):
    return x + factor * scale


def _scaled(x, factor):
    return _times(x, factor)


def _times(x, factor):
    return x * (1 + factor)


def _turned(x, factor):
    return _sine(x) - factor


def _sine(x):
    return x.sin()


def _squared(x, factor):
    return _square(x) * factor


def _square(x):
    return x * x


_FUNCTIONS = (_shifted, _scaled, _turned, _squared)


def a_default_for_no_element(x, order):
    try:
        step = _STEPS[order[0].item()]
    except IndexError:
        return x - 1
    return step(x, 2.0)


def a_sum_that_raises(x):
    if x.sum() > 0:
        x = x + 1
    if x.max() > 30:
        raise ValueError("too large")
    return x * 2
