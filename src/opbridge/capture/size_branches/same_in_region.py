"""Whether two captures compute the same for the sizes of one region."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node
from torch.utils import _pytree as pytree

from opbridge.base.torch_private import torch_shape_env
from opbridge.capture.guards.expressions import value_at
from opbridge.capture.value_numbers import ValueNumbering
from opbridge.graph.operators import operator_of

__all__ = ["RegionNumbering"]

_PADDING = frozenset({"aten::pad", "aten::constant_pad_nd"})
_COPIES = frozenset({"aten::clone", "aten::contiguous"})


class RegionNumbering(ValueNumbering):
    """Gives nodes one number that give the same for the sizes of a region, which is given by many of its sizes.

    1. A number that follows from the sizes is told by its values for these.
    2. Padding by nothing, a slice of everything and a copy are what they are made of.

    Args:
        points: Sizes of the region, by symbol.
    """

    def __init__(self, points: Sequence[Mapping[str, int]]) -> None:
        super().__init__()
        self._points = points
        self._values: dict[Any, Any] = {}

    def _form_of_number(self, number: Any) -> Any:
        return self._value(number)

    def _value(self, number: Any) -> Any:
        """The values of a number for the sizes; the number itself where it is one and the same."""
        expression = number.node.expr
        if expression not in self._values:
            text, symbols = torch_shape_env.asked_now(expression)
            values: tuple[Any, ...] = (None,)
            if all(set(symbols) <= point.keys() for point in self._points):
                values = tuple(value_at(text, point) for point in self._points)
                is_one = len(set(values)) == 1
                self._values[expression] = (type(values[0]), repr(values[0])) if is_one else ("values", values)
            if None in values:
                self._values[expression] = "number", text
        return self._values[expression]

    def _is(self, value: Any, number: int) -> bool:
        return bool(self._form(value, {}) == (int, repr(number)))

    def _unchanged(self, node: Node) -> Node | None:
        """What an operator gives unchanged for the sizes of the region; None where it does something."""
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            return None
        name = operator_of(node).partition(".")[0]
        source = node.args[0] if node.args else None
        if not isinstance(source, Node):
            return None
        if name in _COPIES:
            return source
        if name in _PADDING:
            return source if all(self._is(each, 0) for each in pytree.tree_leaves(node.args[1])) else None
        if name == "aten::slice":
            return source if self._takes_all(node, source) else None
        return None

    def _takes_all(self, node: Node, source: Node) -> bool:
        given = dict(zip(("dim", "start", "end", "step"), node.args[1:], strict=False)) | node.kwargs
        dim, value = given.get("dim", 0), source.meta["val"]
        begins = given.get("start") is None or self._is(given["start"], 0)
        if not begins or not self._is(given.get("step", 1), 1) or not isinstance(dim, int):
            return False
        return self._form(value.shape[dim], {}) == self._form(node.meta["val"].shape[dim], {})
