"""Whether a capture, specialised for the sizes of a region, is another capture that was made for them.

Then the first one serves that region too, and no branch is needed. Both are numbered by `ValueNumbering` under the
conditions of the region:

1. Integers that follow from the sizes are the same where that is proven of all these sizes (`guards.equal_numbers`).
   Floats and truth values are the same where they are computed alike from such integers.
2. An operator that does nothing for them gives what it is given: `F.pad` by 0, a slice of everything, `expand`,
   `repeat` or `view` to the same shape, `cat` with empty tensors. Its result has the values, the dtype and the shape of
   its operand. Interpolation to the same size is none of these: it may turn an infinity into NaN.
3. Strides and aliases are another matter: nothing is left out of a graph with an operator that reads memory by strides
   or writes in place.

What is not proven is taken to differ, unless `is_proven=False` lets the points decide for numbers of several sizes, as
`continued_padding` does: it runs the capture on sizes of the region as well.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from opbridge.base.torch_private import torch_shape_env
from opbridge.capture.guards.conditions import Conditions
from opbridge.capture.guards.equal_numbers import EqualNumbers
from opbridge.capture.guards.samples import Range
from opbridge.capture.same_graph import is_same_graph
from opbridge.capture.tracer.writes import written_by
from opbridge.capture.value_numbers import ValueNumbering, is_number
from opbridge.graph.captured_graph import CapturedGraph
from opbridge.graph.operators import operator_of

__all__ = ["SpecialisedNumbering", "is_same_where"]

_PADDING = frozenset({"aten::pad", "aten::constant_pad_nd"})
_UNCHANGED_IN_THEIR_SHAPE = frozenset(
    f"aten::{name}"
    for name in (
        *("clone", "contiguous", "alias", "detach", "to", "_to_copy"),
        *("view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze"),
        *("expand", "expand_as", "broadcast_to", "repeat", "tile"),
        *("slice", "narrow"),
    )
)
"""Operators that give what they are given where that has the shape and the dtype of their result."""

_READING_STRIDES = frozenset({"aten::as_strided", "aten::as_strided_copy", "aten::as_strided_scatter"})


def is_same_where(
    one: CapturedGraph,
    other: CapturedGraph,
    conditions: Conditions,
    ranges: Mapping[str, Range],
    points: Sequence[Mapping[str, int]],
    *,
    is_proven: bool = True,
) -> bool:
    """Whether a capture computes the same as another one for all sizes of a region.

    Args:
        one: The capture; it is one of the same model for sizes outside of the region, and may do more.
        other: A capture for the region.
        conditions: What holds in the region.
        ranges: The smallest and the largest value of each size.
        points: Some sizes of the region, by symbol.
        is_proven: Whether that has to be proven; else numbers that follow from several sizes are compared at the points
            where there is no proof.
    """
    equal = EqualNumbers((each.expression for each in conditions), ranges, points, is_proven=is_proven)
    return is_same_graph(one, other, SpecialisedNumbering(equal, ranges))


class SpecialisedNumbering(ValueNumbering):
    """Gives nodes one number that give the same for all sizes of a region.

    Args:
        equal: Which numbers are equal there.
        sizes: The symbols that these may follow from.
    """

    def __init__(self, equal: EqualNumbers, sizes: Collection[str]) -> None:
        super().__init__()
        self._equal, self._sizes_of_region = equal, set(sizes)
        self._forms_of_numbers: dict[Any, Any] = {}
        self._uses_memory = False

    def of(self, module: GraphModule, given: Mapping[Node, Any]) -> dict[Node, int]:
        outside = self._uses_memory
        self._uses_memory = outside or _uses_memory(module)
        try:
            return super().of(module, given)
        finally:
            self._uses_memory = outside

    def _form_of_number(self, number: Any) -> Any:
        expression = number.node.expr
        if expression not in self._forms_of_numbers:
            self._forms_of_numbers[expression] = torch_shape_env.form_of_number(expression, self._form_of_integer)
        return self._forms_of_numbers[expression]

    def _form_of_integer(self, expression: Any) -> tuple[Any, str]:
        text, symbols = torch_shape_env.asked_now(expression)
        if self._sizes_of_region >= set(symbols):
            text = self._equal.representative(text)
        return (int, text) if text.lstrip("-").isdecimal() else ("number", text)

    def _unchanged(self, node: Node) -> Node | None:
        """What an operator gives unchanged for the sizes of the region; None where it does something."""
        if self._uses_memory or not _is_operator(node) or not node.args:
            return None
        name, given = _name(node), node.args[0]
        if name in _PADDING:
            is_unchanged = len(node.args) > 1 and all(map(self._is_zero, pytree.tree_leaves(node.args[1])))
        else:
            is_unchanged = name in _UNCHANGED_IN_THEIR_SHAPE or name == "aten::cat"
        candidates = given if name == "aten::cat" and isinstance(given, (list, tuple)) else (given,)
        if not is_unchanged:
            return None
        return next((each for each in candidates if isinstance(each, Node) and self._is_alike(each, node)), None)

    def _is_zero(self, amount: Any) -> bool:
        if isinstance(amount, Node) and not is_number(amount):
            return False  # data decide it
        return bool(self._form(amount, {}) == (int, "0"))

    def _is_alike(self, one: Node, other: Node) -> bool:
        """Whether two nodes are tensors of one shape, dtype and device."""
        values = one.meta.get("val"), other.meta.get("val")
        if not all(isinstance(each, torch.Tensor) and each.layout == torch.strided for each in values):
            return False
        return bool(self._form(values[0], {}) == self._form(values[1], {}))


def _uses_memory(module: GraphModule) -> bool:
    """Whether an operator of a graph, or of a body in it, reads memory by strides or writes."""
    for node in module.graph.nodes:
        if node.op == "get_attr":
            body = operator.attrgetter(str(node.target))(module)
            if isinstance(body, GraphModule) and _uses_memory(body):
                return True
        elif _is_operator(node) and (_name(node) in _READING_STRIDES or written_by(node)):
            return True
    return False


def _is_operator(node: Node) -> bool:
    return node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)


def _name(node: Node) -> str:
    return operator_of(node).partition(".")[0]
