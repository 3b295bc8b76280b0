"""The rules that read a target's facts: one for each kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from opbridge.rules.forms import holds
from opbridge.rules.looking import Looked, computed_from, name_of, type_name
from opbridge.rules.rule import FactRule, Hit
from opbridge.targets import facts, provided

__all__ = ["RULES"]


class MissingOperator(FactRule):
    """Reads `facts.Missing` and `facts.Only`."""

    identifier = "missing-operator"
    title = "An operator that the target does not support"
    why = "The target rejects the model, or delegates the node to another runtime."
    remedy = "Use other operators, or provide an implementation (a plugin) for the target."
    kind = facts.Missing
    of_malformed = True

    def hits(self, node: ir.Node, fact: facts.Missing, looked: Looked) -> Iterator[Hit]:
        remedy = "" if node.domain in ("", "ai.onnx") else provided.remedy(name_of(node))
        yield Hit(f"The target does not support the operator {name_of(node)}.", node, remedy)


class UnsupportedType(FactRule):
    """Reads `facts.Types`."""

    identifier = "unsupported-type"
    title = "An input whose type the target does not support"
    why = "The target supports the operator, but not for this type."
    remedy = "Cast the input to a supported type, and the result back."
    kind = facts.Types

    def hits(self, node: ir.Node, fact: facts.Types, looked: Looked) -> Iterator[Hit]:
        for name in fact.inputs or ("",):
            value = looked.input(node, name)
            found = _type(value)
            if found and found not in fact.allowed and not (fact.but_sizes and _is_of_sizes(value, looked)):
                which = f"'{name}'" if name else "its first input"
                yield Hit(
                    f"{node.op_type} has {which} of type {found}; the target supports {_either(fact.allowed)}.", node
                )


def _is_of_sizes(value: ir.Value | None, looked: Looked) -> bool:
    """Whether a value is computed from the sizes of tensors alone, as far as one looks."""
    steps = [] if value is None else list(computed_from(value, until=looked.is_known))
    counting = {"Shape", "Size"}
    given = [each for _, node in steps if node.op_type not in counting for each in node.inputs if each is not None]
    return (
        bool(steps)
        and steps[0][0] is value
        and any(node.op_type in counting for _, node in steps)
        and all(each.producer() is not None or looked.is_known(each) for each in given)
    )


class ConstantInput(FactRule):
    """Reads `facts.Constant`."""

    identifier = "constant-input"
    title = "An input that must be constant for the target"
    why = "The target compiles the operator for the value of this input, so it must be an initializer."
    remedy = "Compute the value before the export, so that it is a constant in the model's code."
    kind = facts.Constant

    def hits(self, node: ir.Node, fact: facts.Constant, looked: Looked) -> Iterator[Hit]:
        for name in fact.inputs:
            value = looked.input(node, name)
            if value is None or looked.is_stored(value) or looked.is_stored(_behind(value, fact.through)):
                continue
            if not looked.is_known(value):
                yield Hit(f"The input '{name}' of {node.op_type} is computed at run time.", node)
            elif fact.stored:
                told = f"The input '{name}' of {node.op_type} is computed from constants, but is not an initializer."
                yield Hit(told, node, "Fold the constants of the model before it is loaded on the target.")


def _behind(value: ir.Value, through: Sequence[str]) -> ir.Value:
    """What a value is computed from by operators of one input."""
    while (producer := value.producer()) is not None and name_of(producer) in through:
        before = producer.inputs[0] if producer.inputs else None
        if before is None:
            break
        value = before
    return value


class NonZeroInput(FactRule):
    """Reads `facts.Zero`."""

    identifier = "nonzero-input"
    title = "An input that must be zero for the target"
    why = "The target treats it as zero, or rejects the model."
    remedy = "Use symmetric quantization, with zero points of 0."
    kind = facts.Zero

    def hits(self, node: ir.Node, fact: facts.Zero, looked: Looked) -> Iterator[Hit]:
        for name in fact.inputs:
            value = looked.input(node, name)
            found = looked.constant(value)
            if value is not None and (found is None or np.any(found.astype(np.float64))):
                said = "is not known" if found is None else f"is {_some(found[found != 0])}"
                yield Hit(f"The input '{name}' of {node.op_type} {said}; the target supports only 0.", node)


class TooLarge(FactRule):
    """Reads `facts.Below`."""

    identifier = "too-large"
    title = "A number that is above the target's limit"
    why = "The target has a limit for this input, and rejects the model above it."
    remedy = "Stay below the limit, or compute the result in parts."
    kind = facts.Below

    def hits(self, node: ir.Node, fact: facts.Below, looked: Looked) -> Iterator[Hit]:
        found = looked.constant(looked.input(node, fact.input))
        if found is not None and found.size and found.max() >= fact.bound:
            yield Hit(
                f"The input '{fact.input}' of {node.op_type} is {found.max()}; the target supports numbers below "
                f"{fact.bound:g}.",
                node,
            )


class TooSmall(FactRule):
    """Reads `facts.Least`."""

    identifier = "too-small"
    title = "A number below the target's limit"
    why = "The target does not support such numbers here: it rejects the node, or computes something else."
    remedy = "Use an equivalent number, for example a non-negative index."
    kind = facts.Least

    def hits(self, node: ir.Node, fact: facts.Least, looked: Looked) -> Iterator[Hit]:
        found = looked.constant(looked.input(node, fact.input))
        if found is not None and found.size and found.min() < fact.bound:
            yield Hit(
                f"The input '{fact.input}' of {node.op_type} contains {found.min()}; the target supports numbers "
                f"of {fact.bound:g} and above.",
                node,
            )


class UnsupportedNumber(FactRule):
    """Reads `facts.Elements`."""

    identifier = "unsupported-number"
    title = "An input with a number that the target does not support"
    why = "The target supports the operator, but not for this number."
    remedy = "Use a supported number, or other operators."
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
                taken = (
                    f"; the target supports {_either(fact.allowed)}"
                    if fact.allowed
                    else ", which the target does not support"
                )
                yield Hit(f"The input '{name}' of {node.op_type} contains {_some(found[wrong])}{taken}.", node)


class UnsupportedArgument(FactRule):
    """Reads `facts.Absent`."""

    identifier = "unsupported-argument"
    title = "An optional input or output that the target does not support"
    why = "The target supports the operator only without it."
    remedy = "Remove it, or compute it with other operators."
    kind = facts.Absent

    def hits(self, node: ir.Node, fact: facts.Absent, looked: Looked) -> Iterator[Hit]:
        for name in fact.inputs:
            if looked.input(node, name) is not None:
                yield Hit(f"The target does not support the input '{name}' of {node.op_type}.", node)
        for name in fact.outputs:
            if (looked.named_output if fact.unread else looked.output)(node, name) is not None:
                yield Hit(f"The target does not support the output '{name}' of {node.op_type}.", node)


class UnsupportedAttribute(FactRule):
    """Reads `facts.Attribute`."""

    identifier = "unsupported-attribute"
    title = "An attribute value that the target does not support"
    why = "The target supports the operator, but not with this value."
    remedy = "Use a supported value, or other operators."
    kind = facts.Attribute

    def hits(self, node: ir.Node, fact: facts.Attribute, looked: Looked) -> Iterator[Hit]:
        if not fact.allowed:
            if fact.attribute in node.attributes:
                yield Hit(f"The target does not support the attribute '{fact.attribute}' of {node.op_type}.", node)
            return
        value = looked.attribute(node, fact.attribute)
        if value is None:
            return
        for each in value if isinstance(value, Sequence) and not isinstance(value, str) else [value]:
            if each not in fact.allowed:
                yield Hit(
                    f"{node.op_type} has {fact.attribute}={value}; the target supports {_either(fact.allowed)}.", node
                )
                return


class UnsupportedRevision(FactRule):
    """Reads `facts.Revision`."""

    identifier = "unsupported-revision"
    title = "An operator version that the target does not support"
    why = "Operators change between opsets, and the target supports only other versions of this one."
    remedy = "Export with an older opset (--opset)."
    kind = facts.Revision

    def hits(self, node: ir.Node, fact: facts.Revision, looked: Looked) -> Iterator[Hit]:
        name = name_of(node)
        form = looked.revision(node)
        if form and form < fact.oldest:
            told = f"{name} has version {form} here; the target supports it from opset {fact.oldest}."
            yield Hit(told, node, "Export with a newer opset (--opset).")
        elif fact.newest and form > fact.newest:
            yield Hit(f"{name} has version {form} here; the target supports it up to opset {fact.newest}.", node)


class PartlySupported(FactRule):
    """Reads `facts.Partly`."""

    identifier = "partly-supported"
    title = "An operator that the target supports only partly"
    why = "Whether the target supports this use cannot be determined from the model, or is not fully documented."
    remedy = "Test this part of the model on the target first."
    kind = facts.Partly

    def hits(self, node: ir.Node, fact: facts.Partly, looked: Looked) -> Iterator[Hit]:
        yield Hit(f"The target supports {name_of(node)} only partly.", node)


class UnsupportedForm(FactRule):
    """Reads `facts.Form`."""

    identifier = "unsupported-form"
    title = "A use of an operator that the target does not support"
    why = "The target was measured to reject this use of the operator, or to compute wrong results."
    remedy = "Use the operator differently, or other operators."
    kind = facts.Form

    def hits(self, node: ir.Node, fact: facts.Form, looked: Looked) -> Iterator[Hit]:
        if all(holds(each, node, looked) for each in fact.form):
            yield Hit(f"The target does not support {name_of(node)} if {' and '.join(fact.form)}.", node)


class UnsupportedRank(FactRule):
    """Reads `facts.Rank`."""

    identifier = "unsupported-rank"
    title = "An input whose rank the target does not support"
    why = "The target supports the operator only for tensors of some ranks."
    remedy = "Reshape to a supported rank, and back."
    kind = facts.Rank

    def hits(self, node: ir.Node, fact: facts.Rank, looked: Looked) -> Iterator[Hit]:
        shape = looked.shape(looked.input(node, fact.input))
        if shape is not None and len(shape) not in fact.allowed:
            yield Hit(
                f"{node.op_type} has an input of rank {len(shape)}; the target supports {_either(fact.allowed)}.",
                node,
            )


class DynamicShape(FactRule):
    """Reads `facts.Static`, for operators."""

    identifier = "dynamic-shape"
    title = "A dynamic dimension that the target does not support"
    why = "The target compiles the operator for one shape."
    remedy = "Export with a fixed size (leave the dimension out of dynamic_shapes)."
    kind = facts.Static

    def hits(self, node: ir.Node, fact: facts.Static, looked: Looked) -> Iterator[Hit]:
        values = [looked.input(node, each) for each in fact.inputs] if fact.inputs else list(node.inputs)
        for value in values:
            shape = looked.shape(value)
            if value is not None and (shape is None or not all(isinstance(each, int) for each in shape)):
                said = "of unknown shape" if shape is None else f"of shape {_shape(shape)}"
                yield Hit(f"{node.op_type} has an input {said}; the target requires a static shape.", node)


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
