"""The element of a value as an expression of its indices: what a proof about a mask or a position is made of.

`Elements.at(value, indices)` follows the nodes that compute a value from the inputs of the graph. An integer is a
`Linear`: a number and multiples of atoms. A truth value is a `Truth`: atoms that all hold. Everything else is an atom,
a tuple that names what it is: two elements with equal atoms are equal, whatever the inputs are.

    ("axis", 2)                           the index of the element in the third dimension of the value that is asked for
    ("size", "past_sequence")             a size of an input
    ("input", "attention_mask", i, j)     an element of an input
    ("constant", "inv_freq", i)           an element of a weight
    ("at least 0", Linear)                a comparison
    ("nonzero", x)                        a number that is taken for a truth value
    ("choose", Truth, x, y)               x where the truth value holds, else y
    ("Cos", x)                            an operator that computes each element from those at the same place
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from opbridge.fit.fused.patterns import axes_of, numbers, shape_of

__all__ = ["Elements", "Expression", "Linear", "Truth", "Unknown", "atoms", "axis", "size"]


class Unknown(Exception):
    """The element of a value has no expression here."""


@dataclass(frozen=True)
class Linear:
    """An integer: a number, and multiples of atoms.

    Attributes:
        terms: The atoms with what they are multiplied by, which is not 0.
        number: What is added.
    """

    terms: frozenset[tuple[Any, int]] = frozenset()
    number: int = 0

    def plus(self, other: Linear, times: int = 1) -> Linear:
        """The sum with a multiple of another one."""
        found = dict(self.terms)
        for atom, count in other.terms:
            found[atom] = found.get(atom, 0) + times * count
        terms = frozenset((atom, count) for atom, count in found.items() if count)
        return Linear(terms, self.number + times * other.number)

    def times(self, factor: int) -> Linear:
        """The product with a number."""
        return Linear().plus(self, factor)


@dataclass(frozen=True)
class Truth:
    """A truth value: whether all of some atoms hold."""

    atoms: frozenset[Any] = frozenset()


Expression = Linear | Truth | tuple[Any, ...]

_INTEGERS = (ir.DataType.INT64, ir.DataType.INT32)
_FALSE = Truth(frozenset([("false",)]))
_BROADCASTING = frozenset(
    {"Add", "And", "Div", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Mul", "Pow", "Sub", "Where"}
)
_SAME_PLACE = frozenset(
    {"Abs", "Ceil", "Cos", "Exp", "Floor", "Identity", "Log", "Neg", "Reciprocal", "Sin", "Sqrt", "Tanh"}
    | {"Add", "Sub", "Mul", "Div", "Pow"}
)


def axis(number: int) -> Linear:
    """The index of an element in a dimension."""
    return Linear(frozenset([(("axis", number), 1)]))


def size(text: int | str | None) -> Linear:
    """A size from its text: "past_sequence + sequence"."""
    if isinstance(text, int):
        return Linear(number=text)
    if text is None:
        raise Unknown("a size has no name")
    parts = [part.strip() for part in text.split("+")]
    if not all(part.isidentifier() or part.isdigit() for part in parts):
        return Linear(frozenset([(("size", text), 1)]))
    found = Linear()
    for part in parts:
        found = found.plus(Linear(number=int(part)) if part.isdigit() else Linear(frozenset([(("size", part), 1)])))
    return found


def atoms(expression: Any) -> set[tuple[Any, ...]]:
    """All inputs, constants, sizes and indices that an expression reads."""
    if isinstance(expression, Linear):
        return set().union(*(atoms(atom) for atom, _ in expression.terms))
    if isinstance(expression, Truth):
        return set().union(*(atoms(atom) for atom in expression.atoms))
    if not isinstance(expression, tuple):
        return set()
    if expression and expression[0] in ("input", "constant", "size", "axis"):
        return {expression}
    return set().union(*(atoms(each) for each in expression))


_MOST_PARTS = 4096


def _is_large(expression: Any) -> bool:
    """Whether an expression has more parts than those of masks and positions have.

    A value that is added to itself again and again doubles them each time.
    """
    waiting, count = [expression], 0
    while waiting:
        each = waiting.pop()
        count += 1
        if count > _MOST_PARTS:
            return True
        if isinstance(each, Linear):
            waiting += [atom for atom, _ in each.terms]
        elif isinstance(each, Truth):
            waiting += each.atoms
        elif isinstance(each, tuple):
            waiting += each
    return False


class Elements:
    """The elements of the values of one model."""

    def __init__(self) -> None:
        self._known: dict[tuple[ir.Value, tuple[Linear, ...]], Expression] = {}

    def of(self, value: ir.Value) -> Expression:
        """The element of a value at ("axis", 0), ("axis", 1) and so on.

        Raises:
            Unknown: It has no expression.
        """
        shape = shape_of(value)
        if shape is None:
            raise Unknown("the rank is not known")
        return self.at(value, tuple(map(axis, range(len(shape)))))

    def at(self, value: ir.Value | None, indices: tuple[Linear, ...]) -> Expression:
        """The element of a value.

        Raises:
            Unknown: It has no expression.
        """
        if value is None:
            raise Unknown("an input is left out")
        key = value, indices
        if key not in self._known:
            try:
                found = self._found(value, indices)
            except RecursionError:
                raise Unknown("too many nodes in a row") from None
            if _is_large(found):
                raise Unknown("an expression that is too large")
            self._known[key] = found
        return self._known[key]

    def _found(self, value: ir.Value, indices: tuple[Linear, ...]) -> Expression:
        if value.const_value is not None and not value.is_graph_input():
            return _of_constant(value, indices)
        node = value.producer()
        if node is None:
            if not value.is_graph_input():
                raise Unknown("a value of an outer graph")
            atom = ("input", value.name, *indices)
            return Linear(frozenset([(atom, 1)])) if value.dtype in _INTEGERS else atom
        if node.domain != "":
            raise Unknown(f"{node.domain}::{node.op_type}")
        rule = _RULES.get(node.op_type)
        if rule is not None:
            return rule(self, node, indices)
        if node.op_type in _SAME_PLACE:
            return (node.op_type, *(self.broadcast(each, indices) for each in node.inputs))
        raise Unknown(node.op_type)

    def broadcast(self, value: ir.Value | None, indices: tuple[Linear, ...]) -> Expression:
        """The element of an input of a node that repeats its inputs where they have a size of 1."""
        shape = self.shape(value)
        own = indices[len(indices) - len(shape) :]
        return self.at(value, tuple(Linear() if dim == 1 else each for dim, each in zip(shape, own, strict=True)))

    def shape(self, value: ir.Value | None) -> tuple[int | str | None, ...]:
        """The sizes of a value, of which those that are 1 matter.

        Raises:
            Unknown: Its rank is not known.
        """
        found = shape_of(value)
        if found is not None:
            return found
        constant = None if value is None else value.const_value
        if constant is not None:
            return tuple(constant.shape.numpy())
        node = None if value is None else value.producer()
        if node is not None and node.domain == "" and node.inputs:
            if node.op_type in ("Cast", "Not"):
                return self.shape(node.inputs[0])
            if node.op_type == "Shape":
                return (None,)
            if node.op_type == "Squeeze" and (axes := axes_of(node, 1)) is not None:
                before = self.shape(node.inputs[0])
                dropped = {each % len(before) for each in axes}
                return tuple(dim for at, dim in enumerate(before) if at not in dropped)
            if node.op_type == "Unsqueeze" and (axes := axes_of(node, 1)) is not None:
                rest = iter(self.shape(node.inputs[0]))
                rank = len(self.shape(node.inputs[0])) + len(axes)
                added = {each % rank for each in axes}
                return tuple(1 if at in added else next(rest) for at in range(rank))
            if node.op_type == "Gather":
                data, chosen = self.shape(node.inputs[0]), self.shape(node.inputs[1])
                at = node.attributes.get_int("axis", 0) % len(data)
                return (*data[:at], *chosen, *data[at + 1 :])
            if node.op_type in _BROADCASTING:
                return _broadcast([self.shape(each) for each in node.inputs])
        raise Unknown("the rank is not known")

    def integer(self, value: ir.Value | None, indices: tuple[Linear, ...]) -> Linear:
        """The element of a value of integers.

        Raises:
            Unknown: It is none.
        """
        found = self.broadcast(value, indices)
        if not isinstance(found, Linear):
            raise Unknown("an integer is computed from others")
        return found

    def truth(self, value: ir.Value | None, indices: tuple[Linear, ...]) -> Truth:
        """The element of a value of truth values."""
        found = self.broadcast(value, indices)
        return found if isinstance(found, Truth) else Truth(frozenset([found]))


def _broadcast(shapes: list[tuple[int | str | None, ...]]) -> tuple[int | str | None, ...]:
    """The sizes of what is computed from values that are repeated where they have a size of 1."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(next((dim for dim in dims if dim != 1), 1) for dims in zip(*padded, strict=True))


def _of_constant(value: ir.Value, indices: tuple[Linear, ...]) -> Expression:
    found = numbers(value)
    if found is not None and found.ndim == len(indices):
        if found.size and (found == found.reshape(-1)[0]).all():
            return _literal(found.reshape(-1)[0])
        if not any(each.terms for each in indices):
            return _literal(found[tuple(each.number for each in indices)])
    return ("constant", value.name, *indices)


def _literal(found: Any) -> Expression:
    if found.dtype == np.bool_:
        return Truth() if found else _FALSE
    return Linear(number=int(found)) if found.dtype.kind in "iu" else ("number", float(found))


def _shape(elements: Elements, node: ir.Node, indices: tuple[Linear, ...]) -> Expression:
    shape = elements.shape(node.inputs[0])
    if indices[0].terms:
        raise Unknown("a size that is chosen at run time")
    start = node.attributes.get_int("start", 0)
    return size(shape[(start + len(shape) if start < 0 else start) + indices[0].number])


def _gather(elements: Elements, node: ir.Node, indices: tuple[Linear, ...]) -> Expression:
    data, chosen = elements.shape(node.inputs[0]), elements.shape(node.inputs[1])
    at = node.attributes.get_int("axis", 0) % len(data)
    index = elements.integer(node.inputs[1], indices[at : at + len(chosen)])
    if index.number < 0 and not index.terms:
        index = index.plus(size(data[at]))
    return elements.at(node.inputs[0], (*indices[:at], index, *indices[at + len(chosen) :]))


def _range(elements: Elements, node: ir.Node, indices: tuple[Linear, ...]) -> Expression:
    start, step = elements.at(node.inputs[0], ()), elements.at(node.inputs[2], ())
    if not isinstance(start, Linear) or not isinstance(step, Linear) or step.terms:
        raise Unknown("a Range of other numbers")
    return start.plus(indices[0], step.number)


def _unsqueeze(elements: Elements, node: ir.Node, indices: tuple[Linear, ...]) -> Expression:
    axes = axes_of(node, 1)
    if axes is None:
        raise Unknown("axes that are no constant")
    added = {each % len(indices) for each in axes}
    return elements.at(node.inputs[0], tuple(each for at, each in enumerate(indices) if at not in added))


def _squeeze(elements: Elements, node: ir.Node, indices: tuple[Linear, ...]) -> Expression:
    axes, before = axes_of(node, 1), elements.shape(node.inputs[0])
    if axes is None:
        raise Unknown("axes that are no constant")
    dropped, rest = {each % len(before) for each in axes}, iter(indices)
    return elements.at(node.inputs[0], tuple(Linear() if at in dropped else next(rest) for at in range(len(before))))


def _transpose(elements: Elements, node: ir.Node, indices: tuple[Linear, ...]) -> Expression:
    order = node.attributes.get_ints("perm", list(range(len(indices)))[::-1])
    return elements.at(node.inputs[0], tuple(indices[order.index(at)] for at in range(len(indices))))


def _expand(elements: Elements, node: ir.Node, indices: tuple[Linear, ...]) -> Expression:
    return elements.broadcast(node.inputs[0], indices)


def _slice(elements: Elements, node: ir.Node, indices: tuple[Linear, ...]) -> Expression:
    given = [numbers(each) for each in (node.inputs[1], *node.inputs[3:])]
    if any(each is None for each in given):
        raise Unknown("a Slice from a start that is no constant")
    starts = [int(each) for each in given[0].reshape(-1)]  # type: ignore[union-attr]
    axes = [int(each) for each in given[1].reshape(-1)] if len(given) > 1 else list(range(len(starts)))  # type: ignore[union-attr]
    if len(given) > 2 and any(int(each) != 1 for each in given[2].reshape(-1)):  # type: ignore[union-attr]
        raise Unknown("a Slice with steps")
    found = list(indices)
    for at, start in zip(axes, starts, strict=True):
        if start < 0:
            raise Unknown("a Slice that starts at the end")
        found[at % len(found)] = found[at % len(found)].plus(Linear(number=start))
    return elements.at(node.inputs[0], tuple(found))


def _concat(elements: Elements, node: ir.Node, indices: tuple[Linear, ...]) -> Expression:
    at = node.attributes.get_int("axis", 0) % len(indices)
    inputs = [elements.at(each, indices) for each in node.inputs]
    return ("Concat", at, indices[at], *inputs)


def _cast(elements: Elements, node: ir.Node, indices: tuple[Linear, ...]) -> Expression:
    found, to = elements.at(node.inputs[0], indices), ir.DataType(node.attributes.get_int("to", 1))
    if to == ir.DataType.BOOL:
        return found if isinstance(found, Truth) else Truth(frozenset([("nonzero", found)]))
    if to in _INTEGERS and isinstance(found, Linear):
        return found
    return ("Cast", to.name, found)


def _compared(left: int, right: int, margin: int) -> Callable[[Elements, ir.Node, tuple[Linear, ...]], Expression]:
    """left * x + right * y - margin >= 0."""

    def rule(elements: Elements, node: ir.Node, indices: tuple[Linear, ...]) -> Expression:
        x, y = (elements.integer(each, indices) for each in node.inputs)
        found = x.times(left).plus(y, right).plus(Linear(number=-margin))
        if not found.terms:
            return Truth() if found.number >= 0 else _FALSE
        return Truth(frozenset([("at least 0", found)]))

    return rule


def _and(elements: Elements, node: ir.Node, indices: tuple[Linear, ...]) -> Expression:
    one, other = (elements.truth(each, indices) for each in node.inputs)
    return Truth(one.atoms | other.atoms)


def _where(elements: Elements, node: ir.Node, indices: tuple[Linear, ...]) -> Expression:
    condition = elements.truth(node.inputs[0], indices)
    yes, no = (elements.broadcast(each, indices) for each in node.inputs[1:])
    if isinstance(yes, Truth) and no == _FALSE:
        return Truth(condition.atoms | yes.atoms)
    return yes if not condition.atoms else ("choose", condition, yes, no)


def _sum(sign: int) -> Callable[[Elements, ir.Node, tuple[Linear, ...]], Expression]:
    def rule(elements: Elements, node: ir.Node, indices: tuple[Linear, ...]) -> Expression:
        x, y = (elements.broadcast(each, indices) for each in node.inputs)
        if isinstance(x, Linear) and isinstance(y, Linear):
            return x.plus(y, sign)
        return (node.op_type, x, y)

    return rule


def _identity(elements: Elements, node: ir.Node, indices: tuple[Linear, ...]) -> Expression:
    return elements.at(node.inputs[0], indices)


def _reshape(elements: Elements, node: ir.Node, indices: tuple[Linear, ...]) -> Expression:
    """A Reshape that adds or drops dimensions of size 1 only."""
    before, after = elements.shape(node.inputs[0]), shape_of(node.outputs[0])
    if not before and len(indices) == 1:
        return elements.at(node.inputs[0], ())
    if after is None or None in (*before, *after):
        raise Unknown("a Reshape of sizes that have no name")
    if [each for each in before if each != 1] != [each for each in after if each != 1]:
        raise Unknown("Reshape")
    rest = iter([each for dim, each in zip(after, indices, strict=True) if dim != 1])
    return elements.at(node.inputs[0], tuple(Linear() if dim == 1 else next(rest) for dim in before))


_RULES: Mapping[str, Callable[[Elements, ir.Node, tuple[Linear, ...]], Expression]] = {
    "Add": _sum(1),
    "And": _and,
    "Cast": _cast,
    "Concat": _concat,
    "Expand": _expand,
    "Gather": _gather,
    "Greater": _compared(1, -1, 1),
    "GreaterOrEqual": _compared(1, -1, 0),
    "Identity": _identity,
    "Less": _compared(-1, 1, 1),
    "LessOrEqual": _compared(-1, 1, 0),
    "Range": _range,
    "Reshape": _reshape,
    "Shape": _shape,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Sub": _sum(-1),
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Where": _where,
}
