"""Containers of tensors among inputs and outputs: those that are registered where they are met, and all others."""

from __future__ import annotations

import collections
import dataclasses
import typing

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree

import opbridge
from opbridge.errors import CaptureError, UsageError

attrs = pytest.importorskip("attrs")

X = torch.arange(6.0).reshape(2, 3)


@dataclasses.dataclass
class Plain:
    a: torch.Tensor
    b: torch.Tensor


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    a: torch.Tensor
    b: torch.Tensor


@attrs.define
class Attrs:
    a: typing.Any
    b: typing.Any


class Named(typing.NamedTuple):
    a: torch.Tensor
    b: torch.Tensor


class Typed(typing.TypedDict):
    a: torch.Tensor
    b: torch.Tensor


class Ordered(collections.OrderedDict):
    pass


class Mapped(collections.UserDict):
    pass


class Listed(collections.UserList):
    pass


class Pair(tuple):
    pass


def _attributes(value):
    return value.a, value.b


def _items(value):
    return value["a"], value["b"]


BY_NAME = [Plain, Frozen, Attrs, Named, Typed, Ordered, Mapped, dict, collections.OrderedDict]
IN_ORDER = [list, tuple, Pair, Listed, collections.deque]


class Model(torch.nn.Module):
    """Takes one container, and returns another of its class."""

    def __init__(self, kind, parts):
        super().__init__()
        self.kind, self.parts = kind, parts

    def forward(self, given):
        a, b = self.parts(given)
        return _made(self.kind, a * 2, b + 1)


def _made(kind, a, b):
    return kind(a=a, b=b) if kind in BY_NAME else kind([a, b])


@pytest.mark.parametrize("kind", [*BY_NAME, *IN_ORDER])
@pytest.mark.parametrize("nested", [False, True])
def test_a_container_in_and_out(kind, nested):
    by_item = issubclass(kind, dict | collections.UserDict)
    parts = tuple if kind in IN_ORDER else _items if by_item else _attributes
    model = Model(kind, parts)
    given = _made(kind, X, X + 1)
    if nested:
        inner = model

        def model(given):
            return [{"z": inner(given["y"][0])}]

        given = {"y": [given]}
    program = opbridge.export(model, (given,))
    inputs = [value.name for value in program.model.graph.inputs]
    outputs = [value.name for value in program.model.graph.outputs]
    assert len(inputs) == len(outputs) == 2 and program.verification.ok
    if kind in BY_NAME:
        assert [name[-1] for name in (*inputs, *outputs)] == ["a", "b"] * 2
    results = program.session().run(None, dict(zip(inputs, (X.numpy(), X.numpy()), strict=True)))
    np.testing.assert_array_equal(results, [X.numpy() * 2, X.numpy() + 1])


class Own:
    def __init__(self, a, b):
        self.a, self.b = a, b


class Registered:
    def __init__(self, a, b):
        self.a, self.b = a, b


# As the errors say it.
pytree.register_pytree_node(
    Registered, lambda value: ([value.a, value.b], None), lambda items, context: Registered(*items)
)

REMEDY = (
    r"torch\.utils\._pytree\.register_pytree_node\(Own, lambda value: \(\[value\.a, value\.b\], None\), "
    r"lambda items, context: Own\(\*items\)\)"
)


@pytest.mark.slow
@pytest.mark.parametrize("nested", [False, True])
def test_a_class_that_nothing_is_known_of(nested):
    given = {"x": [Own(X, X)]} if nested else Own(X, X)
    with pytest.raises(UsageError, match=rf"Unsupported input type \w+\.Own.*{REMEDY}"):
        opbridge.export(lambda x: X + 1, (given,))

    def model(x):
        return [Own(x * 2, x)] if nested else Own(x * 2, x)

    with pytest.raises(CaptureError, match=rf"the model returns a \w+\.Own.*{REMEDY}"):
        opbridge.export(model, (X,))


def test_a_class_that_the_user_registered():
    program = opbridge.export(lambda x: Registered(x.a * 2, {"c": x.b}), (Registered(X, X + 1),))
    assert len(program.model.graph.inputs) == len(program.model.graph.outputs) == 2 and program.verification.ok


def test_a_set_has_no_order():
    with pytest.raises(CaptureError, match=r"the model returns a set, whose elements have no order"):
        opbridge.export(lambda x: {x * 2}, (X,))
