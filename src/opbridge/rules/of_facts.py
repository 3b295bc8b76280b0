"""The rules that read a target's facts: one for each kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from opbridge.rules.forms import holds
from opbridge.rules.looking import Looked, name_of, type_name
from opbridge.rules.rule import FactRule, Hit
from opbridge.targets import facts

__all__ = ["RULES"]


class MissingOperator(FactRule):
    """Reads `facts.Missing` and `facts.Only`."""

    identifier = "missing-operator"
    title = "An operator that the target does not have"
    why = "The target refuses the model, or leaves the node to another runtime where it can."
    remedy = "Write the computation with other operators, or give the target an implementation of this one."
    kind = facts.Missing
    of_malformed = True

    def hits(self, node: ir.Node, fact: facts.Missing, looked: Looked) -> Iterator[Hit]:
        yield Hit(f"The target has no operator {name_of(node)}.", node)


class UnsupportedType(FactRule):
    """Reads `facts.Types`."""

    identifier = "unsupported-type"
    title = "An input whose type the target does not take there"
    why = "The target has the operator, but not for this type."
    remedy = "Cast the input to a type that the target takes, and the result back."
    kind = facts.Types

    def hits(self, node: ir.Node, fact: facts.Types, looked: Looked) -> Iterator[Hit]:
        for name in fact.inputs or ("",):
            value = looked.input(node, name)
            found = _type(value)
            if found and found not in fact.allowed:
                which = f"'{name}'" if name else "its first input"
                yield Hit(f"{node.op_type} has {which} of {found}; the target takes {_either(fact.allowed)}.", node)


class ConstantInput(FactRule):
    """Reads `facts.Constant`."""

    identifier = "constant-input"
    title = "An input that the target has to know when it loads the model"
    why = "The target builds the operator for the value of this input, so it has to be an initializer."
    remedy = "Compute the value before the export, so that it is a number in the model's code."
    kind = facts.Constant

    def hits(self, node: ir.Node, fact: facts.Constant, looked: Looked) -> Iterator[Hit]:
        for name in fact.inputs:
            value = looked.input(node, name)
            if value is None or looked.is_stored(value):
                continue
            if not looked.is_known(value):
                yield Hit(f"The input '{name}' of {node.op_type} is computed when the model runs.", node)
            elif fact.stored:
                told = f"The input '{name}' of {node.op_type} is computed from constants, and is no initializer."
                yield Hit(told, node, "Fold the constants of the model before it is loaded there.")


class NonZeroInput(FactRule):
    """Reads `facts.Zero`."""

    identifier = "nonzero-input"
    title = "An input that has to be zero for the target"
    why = "The target computes as if it were zero, or refuses the model."
    remedy = "Quantise symmetrically, so that zero points are 0."
    kind = facts.Zero

    def hits(self, node: ir.Node, fact: facts.Zero, looked: Looked) -> Iterator[Hit]:
        for name in fact.inputs:
            value = looked.input(node, name)
            found = looked.constant(value)
            if value is not None and (found is None or np.any(found.astype(np.float64))):
                said = "is not known" if found is None else f"is {_some(found[found != 0])}"
                yield Hit(f"The input '{name}' of {node.op_type} {said}; the target takes 0.", node)


class TooLarge(FactRule):
    """Reads `facts.Below`."""

    identifier = "too-large"
    title = "A number that is above the target's limit"
    why = "The target has a limit for this input, past which it refuses the model."
    remedy = "Stay below the limit, or compute the result in parts."
    kind = facts.Below

    def hits(self, node: ir.Node, fact: facts.Below, looked: Looked) -> Iterator[Hit]:
        found = looked.constant(looked.input(node, fact.input))
        if found is not None and found.size and found.max() >= fact.bound:
            yield Hit(
                f"The input '{fact.input}' of {node.op_type} is {found.max()}; the target takes numbers below "
                f"{fact.bound:g}.",
                node,
            )


class TooSmall(FactRule):
    """Reads `facts.Least`."""

    identifier = "too-small"
    title = "A number that is below what the target takes"
    why = "The target does not take such numbers there: it refuses the node, or computes something else."
    remedy = "Write the number in another form, as an index counted from the front."
    kind = facts.Least

    def hits(self, node: ir.Node, fact: facts.Least, looked: Looked) -> Iterator[Hit]:
        found = looked.constant(looked.input(node, fact.input))
        if found is not None and found.size and found.min() < fact.bound:
            yield Hit(
                f"The input '{fact.input}' of {node.op_type} has {found.min()} in it; the target takes numbers from "
                f"{fact.bound:g} on.",
                node,
            )


class UnsupportedNumber(FactRule):
    """Reads `facts.Elements`."""

    identifier = "unsupported-number"
    title = "An input with a number that the target does not take"
    why = "The target has the operator, but not for this number."
    remedy = "Choose a number that the target takes, or write the computation with other operators."
    kind = facts.Elements

    def hits(self, node: ir.Node, fact: facts.Elements, looked: Looked) -> Iterator[Hit]:
        for name in fact.inputs:
            found = looked.constant(looked.input(node, name))
            if found is None or not found.size:
                continue
            wrong = np.isin(found, fact.excluded)
            if fact.allowed:
                wrong |= ~np.isin(found, fact.allowed)
            if wrong.any():
                taken = f"; the target takes {_either(fact.allowed)}" if fact.allowed else ", which the target does not"
                yield Hit(f"The input '{name}' of {node.op_type} has {_some(found[wrong])} in it{taken}.", node)


class UnsupportedArgument(FactRule):
    """Reads `facts.Absent`."""

    identifier = "unsupported-argument"
    title = "An optional input or output that the target does not have"
    why = "The target has the operator without it."
    remedy = "Leave it out, or compute it with other operators."
    kind = facts.Absent

    def hits(self, node: ir.Node, fact: facts.Absent, looked: Looked) -> Iterator[Hit]:
        for name in fact.inputs:
            if looked.input(node, name) is not None:
                yield Hit(f"The target has no input '{name}' of {node.op_type}.", node)
        for name in fact.outputs:
            if (looked.named_output if fact.unread else looked.output)(node, name) is not None:
                yield Hit(f"The target has no output '{name}' of {node.op_type}.", node)


class UnsupportedAttribute(FactRule):
    """Reads `facts.Attribute`."""

    identifier = "unsupported-attribute"
    title = "An attribute with a value that the target does not take"
    why = "The target has the operator, but not in this form."
    remedy = "Choose a form that the target has, or write the computation with other operators."
    kind = facts.Attribute

    def hits(self, node: ir.Node, fact: facts.Attribute, looked: Looked) -> Iterator[Hit]:
        if not fact.allowed:
            if fact.attribute in node.attributes:
                yield Hit(f"The target has no attribute '{fact.attribute}' of {node.op_type}.", node)
            return
        value = looked.attribute(node, fact.attribute)
        if value is None:
            return
        for each in value if isinstance(value, Sequence) and not isinstance(value, str) else [value]:
            if each not in fact.allowed:
                yield Hit(
                    f"{node.op_type} has {fact.attribute}={value}; the target takes {_either(fact.allowed)}.", node
                )
                return


class UnsupportedRevision(FactRule):
    """Reads `facts.Revision`."""

    identifier = "unsupported-revision"
    title = "An operator in a form of an opset that the target does not have"
    why = "Operators change from opset to opset, and the target has this one in other forms only."
    remedy = "Export with an older opset (--opset)."
    kind = facts.Revision

    def hits(self, node: ir.Node, fact: facts.Revision, looked: Looked) -> Iterator[Hit]:
        name = name_of(node)
        form = looked.revision(node)
        if form and form < fact.oldest:
            told = f"{name} is of opset {form} here; the target has it from opset {fact.oldest} on."
            yield Hit(told, node, "Export with a newer opset (--opset).")
        elif fact.newest and form > fact.newest:
            yield Hit(f"{name} is of opset {form} here; the target has it up to opset {fact.newest}.", node)


class PartlySupported(FactRule):
    """Reads `facts.Partly`."""

    identifier = "partly-supported"
    title = "An operator that the target has in some forms only"
    why = "Whether the target takes it is not known from the model alone, or not published in full."
    remedy = "Try this part of the model on the target first."
    kind = facts.Partly

    def hits(self, node: ir.Node, fact: facts.Partly, looked: Looked) -> Iterator[Hit]:
        yield Hit(f"The target has {name_of(node)} in some forms only.", node)


class UnsupportedForm(FactRule):
    """Reads `facts.Form`."""

    identifier = "unsupported-form"
    title = "An operator in a form that the target does not take"
    why = "The target was seen to refuse the operator in this form, or to answer wrongly."
    remedy = "Write the operator in another form, or the computation with other operators."
    kind = facts.Form

    def hits(self, node: ir.Node, fact: facts.Form, looked: Looked) -> Iterator[Hit]:
        if all(holds(each, node, looked) for each in fact.form):
            yield Hit(f"The target does not take {name_of(node)} where {' and '.join(fact.form)}.", node)


class UnsupportedRank(FactRule):
    """Reads `facts.Rank`."""

    identifier = "unsupported-rank"
    title = "An input with a number of dimensions that the target does not take"
    why = "The target has the operator for tensors of some numbers of dimensions only."
    remedy = "Reshape to a number of dimensions that the target takes, and back."
    kind = facts.Rank

    def hits(self, node: ir.Node, fact: facts.Rank, looked: Looked) -> Iterator[Hit]:
        shape = looked.shape(looked.input(node, fact.input))
        if shape is not None and len(shape) not in fact.allowed:
            yield Hit(
                f"{node.op_type} has an input of {len(shape)} dimensions; the target takes {_either(fact.allowed)}.",
                node,
            )


class DynamicShape(FactRule):
    """Reads `facts.Static`, for operators."""

    identifier = "dynamic-shape"
    title = "A dynamic dimension where the target takes none"
    why = "The target builds the operator for one shape."
    remedy = "Export with fixed sizes there (leave the dimension out of dynamic_shapes)."
    kind = facts.Static

    def hits(self, node: ir.Node, fact: facts.Static, looked: Looked) -> Iterator[Hit]:
        values = [looked.input(node, each) for each in fact.inputs] if fact.inputs else list(node.inputs)
        for value in values:
            shape = looked.shape(value)
            if value is not None and (shape is None or not all(isinstance(each, int) for each in shape)):
                said = "of unknown shape" if shape is None else f"of shape {_shape(shape)}"
                yield Hit(f"{node.op_type} has an input {said}; the target takes fixed sizes there.", node)


RULES: tuple[type[FactRule], ...] = (
    MissingOperator,
    UnsupportedType,
    ConstantInput,
    NonZeroInput,
    TooLarge,
    TooSmall,
    UnsupportedNumber,
    UnsupportedArgument,
    UnsupportedAttribute,
    UnsupportedRevision,
    PartlySupported,
    UnsupportedForm,
    UnsupportedRank,
    DynamicShape,
)


def _type(value: ir.Value | None) -> str:
    """A value's type, as in "float16"; "" where it is not known."""
    return "" if value is None or value.dtype is None else type_name(value.dtype)


def _either(values: Sequence[Any]) -> str:
    *rest, last = map(str, values)
    return f"{', '.join(rest)} or {last}" if rest else last


def _some(values: np.ndarray) -> str:
    return ", ".join(map(str, values.ravel()[:3])) + (", ..." if values.size > 3 else "")


def _shape(shape: Sequence[Any]) -> str:
    return f"[{', '.join('?' if each is None else str(each) for each in shape)}]"
