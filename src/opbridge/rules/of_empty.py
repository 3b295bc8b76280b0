"""Dimensions that may be 0 where the target ends the process for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx_ir as ir

from opbridge.rules.looking import Looked, name_of, type_name
from opbridge.rules.rule import FactRule, Hit
from opbridge.targets import facts

__all__ = ["RULES", "EmptyDimension", "may_be_empty", "sizes_at"]


class EmptyDimension(FactRule):
    """Reads `facts.Filled`."""

    identifier = "empty-dimension"
    title = "A dimension that may be 0, where the target ends the process for it"
    why = "No error says so, and whatever else runs in the process ends with it: a server for all who ask."
    remedy = (
        "Call the model with sizes from 1 on only, and say so in the export: torch.export.Dim(name, min=1). Where data "
        "decides the size, as of x[mask], put the operator under an if on it."
    )
    severity = "warning"
    kind = facts.Filled

    def hits(self, node: ir.Node, fact: facts.Filled, looked: Looked) -> Iterator[Hit]:
        sizes = may_be_empty(node, fact, looked)
        if not sizes:
            return
        is_empty = any(size == 0 for _, size in sizes)
        said = " and ".join(_said(*each) for each in sizes if each[1] == 0 or not is_empty)
        which = f"input '{fact.input}'" if fact.input else "first input"
        told = f"{said[0].upper()}{said[1:]} of the {which} of {node.op_type}"
        yield Hit(f"{told} {'is' if is_empty else 'may be'} 0.", node, severity="error" if is_empty else "")


def _said(axis: int | None, size: int | str | None) -> str:
    if axis is None:
        return "any dimension"
    return f"dimension {axis} ({size})" if size else f"dimension {axis}"


def may_be_empty(node: ir.Node, fact: facts.Filled, looked: Looked) -> list[tuple[int | None, int | str | None]]:
    """The dimensions of a fact that may be 0 at a node of its operators, with their sizes.

    Returns:
        The numbers of the dimensions with 0, a name, or None; the number is None where the shape is not known.
    """
    value = looked.input(node, fact.input)
    if value is None or (fact.types and value.dtype is not None and type_name(value.dtype) not in fact.types):
        return []
    beside = looked.attribute(node, fact.beside) if fact.beside else 0
    if beside is None:
        return []
    shape = looked.shape(value)
    if shape is None:
        return [(None, None)]
    if not shape or (fact.ranks and len(shape) not in fact.ranks):
        return []
    left_out = beside % len(shape) if fact.beside else None
    return [
        (axis, size)
        for axis, size in enumerate(shape)
        if (axis in fact.axes or not fact.axes) and axis != left_out and (not isinstance(size, int) or size == 0)
    ]


def sizes_at(looked: Looked, of: Sequence[facts.Filled]) -> Iterator[int | str | None]:
    """The sizes that may be 0 in a whole model at dimensions of such facts; None: one that is not known."""
    for node in looked.nodes:
        for fact in of:
            if name_of(node) in fact.operators and looked.has_attributes(node, fact.when):
                for _, size in may_be_empty(node, fact, looked):
                    yield size


RULES: tuple[type[FactRule], ...] = (EmptyDimension,)
