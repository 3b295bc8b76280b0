"""Models that take one decision's outcome to a later one by something else than a variable's tensor or number.

Each is one of two by the sign of the first number of its input, and does something with that by the sign of the second.
"""

from __future__ import annotations

import collections
import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

__all__ = ["HIDING", "INPUTS"]

INPUTS = tuple(
    torch.tensor([[a, b, c, 2.5], [1.0, -2, 3, 0.5], [0.25, 4, -1, 2], [1, 2, 3, 4]])
    for a in (1.0, -1)
    for b in (1.0, -1)
    for c in (1.0, -1)
)

HIDING: dict[str, Any] = {}


class _Numbers(list):
    number = 0


class _Slotted:
    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


def _numbers(number: int) -> _Numbers:
    found = _Numbers()
    found.number = number
    return found


def _tagged(x: torch.Tensor, number: int) -> torch.Tensor:
    found = x * 1
    found.number = number
    return found


def _yielding(number: int):
    yield number


_TIMES = [lambda y, number=number: y * number for number in (2, 3)]

_VALUES: dict[str, tuple[Callable[[int, Any], Any], Callable[[Any, Any], Any]]] = {
    "a_range": (lambda k, x: range(2 + k), lambda held, y: sum((y + i for i in held), y)),
    "a_slice": (lambda k, x: slice(k, k + 2), lambda held, y: y + y[held].sum()),
    "a_function_of_torch": (lambda k, x: torch.sin if k else torch.cos, lambda held, y: held(y)),
    "a_function_of_python": (lambda k, x: math.floor if k else math.ceil, lambda held, y: y * held(2.5)),
    "a_partial": (lambda k, x: functools.partial(torch.mul, k + 2), lambda held, y: held(y)),
    "default_values": (lambda k, x: _TIMES[k], lambda held, y: held(y)),
    "the_limits_of_a_dtype": (
        lambda k, x: torch.finfo(torch.float16 if k else torch.float32),
        lambda held, y: y * 2 if held.max > 1e30 else y,
    ),
    "an_attribute_of_a_list": (lambda k, x: _numbers(k + 2), lambda held, y: y * held.number),
    "slots": (lambda k, x: _Slotted(k + 2), lambda held, y: y * held.number),
    "an_error": (lambda k, x: ValueError("a" * (k + 1)), lambda held, y: y * len(str(held))),
    "a_set": (lambda k, x: {k}, lambda held, y: y * (2 if 1 in held else 3)),
    "a_deque": (lambda k, x: collections.deque([k + 2]), lambda held, y: y * held[0]),
    "an_iterator": (lambda k, x: iter([k + 2]), lambda held, y: y * next(held)),
    "a_generator": (lambda k, x: _yielding(k + 2), lambda held, y: y * next(held)),
    "a_layout": (lambda k, x: (x * 1).t() if k else x * 1, lambda held, y: y * 2 if held.is_contiguous() else y * 3),
    "an_attribute_of_a_tensor": (lambda k, x: _tagged(x, k + 2), lambda held, y: y * held.number),
}


def _hiding(make: Callable[[int, Any], Any], use: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    def model(x):
        y = x + 1
        held = make(0 if x[0, 0] > 0 else 1, x)
        if x[0, 1] > 0:
            y = use(held, y)
        return y * 2

    return model


HIDING.update({name: _hiding(*each) for name, each in _VALUES.items()})


def hiding(model: Any) -> Any:
    torch.manual_seed(0)
    HIDING[model.__name__] = model().eval() if isinstance(model, type) else model
    return model


class _Scaling(nn.Module):
    scale = 1

    def forward(self, x):
        return x * self.scale


@hiding
class AnAttributeWithinAnother(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.held = {"a": {"b": 1}}

    def forward(self, x):
        self.held["a"]["b"] = 2 if x[0, 0] > 0 else 3
        return x * self.held["a"]["b"] if x[0, 1] > 0 else x


@hiding
class AModuleInAList(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.held = [_Scaling()]

    def forward(self, x):
        self.held[0].scale = 2 if x[0, 0] > 0 else 3
        return self.held[0](x) if x[0, 1] > 0 else x


@hiding
class AnAttributeThatIsTakenBefore(nn.Module):
    def changed(self, x):
        self.scale = 1
        return x if x[0, 1] > 0 else x * 3

    def forward(self, x):
        self.scale = 2 if x[0, 0] > 0 else 3
        return self.scale * self.changed(x)


@hiding
class AnAttributeOfAClass(nn.Module):
    scale = 1

    def forward(self, x):
        AnAttributeOfAClass.scale = 2 if x[0, 0] > 0 else 3
        return x * self.scale if x[0, 1] > 0 else x


_STATE = {"scale": 1}
_scale = 1


def _set_scale(value: int) -> None:
    global _scale
    _scale = value


def _kept(value: int | None, kept: dict[str, int] = {}) -> int:  # noqa: B006
    if value is not None:
        kept["scale"] = value
    return kept["scale"]


@hiding
def a_global_dict(x):
    _STATE["scale"] = 2 if x[0, 0] > 0 else 3
    return x * _STATE["scale"] if x[0, 1] > 0 else x


_TABLES: dict[str, torch.Tensor] = {}


@hiding
def a_table_that_the_first_use_makes(x):
    if x[0, 0] > 0:
        if "table" not in _TABLES:
            _TABLES["table"] = torch.arange(4.0)
        x = x + _TABLES["table"]
    return x if x[0, 1] > 0 else x * 2


@hiding
def a_global_number(x):
    _set_scale(2 if x[0, 0] > 0 else 3)
    return x * _scale if x[0, 1] > 0 else x


@hiding
def a_default_that_changes(x):
    _kept(2 if x[0, 0] > 0 else 3)
    return x * _kept(None) if x[0, 1] > 0 else x


@hiding
def an_attribute_of_a_function(x):
    _kept.scale = 2 if x[0, 0] > 0 else 3
    return x * _kept.scale if x[0, 1] > 0 else x


@hiding
def the_default_dtype(x):
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64 if x[0, 0] > 0 else torch.float32)
        return x * torch.ones(1).element_size() if x[0, 1] > 0 else x
    finally:
        torch.set_default_dtype(before)


@hiding
def one_of_two_is_written_to(x):
    a, b = x * 1, x * 2
    c = a if x[0, 0] > 0 else b
    if x[0, 1] > 0:
        c.add_(1)
    return a + 0, b + 0


@hiding
def a_view_or_a_copy_is_written_to(x):
    a = x * 1
    b = a[2] if x[0, 0] > 0 else a[2].clone()
    if x[0, 1] > 0:
        b.add_(1)
    return a * 2


@hiding
def whether_two_are_one(x):
    a, b = x * 2, x * 3
    c = a if x[0, 0] > 0 else b
    if x[0, 1] > 0:
        x = x * 2 if c is a else x * 3
    return x + c


@hiding
def a_set_of_three_decisions(x):
    held = {0, 1}
    if x[0, 0] > 0:
        held = {0, 2}
    if x[0, 1] > 0 and 2 in held:
        held = {0, 3}
    if x[0, 2] > 0:
        return x * 2 if 3 in held else x * 3
    return x


@hiding
def an_argument_that_waits(x):
    def times(number, y):
        return number * y

    def decided(y):
        if x[0, 1] > 0:
            return y + 1
        return y - 1

    pair = (2, 3) if x[0, 0] > 0 else (4, 5)
    return times(pair[1], decided(x))


@hiding
def a_number_of_an_inner_function(x):
    number = 1

    def decided(y):
        nonlocal number
        number = 1
        return y + 1 if x[0, 1] > 0 else y - 1

    number = 2 if x[0, 0] > 0 else 3
    return number * decided(x)
