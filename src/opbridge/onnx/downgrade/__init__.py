"""Models of opsets before the one that translations are written for.

A translation calls operators in their form of opset 18. Where the model's opset has that form too, the call is built as
it is. Where the operator's form changed in between, a rule puts the call in the form before the change, and so on until
the model's opset is reached; an operator that came later is composed of older ones. What has no exact form is refused,
with the opset that has one.

axes.py         operators that work along axes: Reduce*, Softmax, Squeeze, Slice, Split, Pad, TopK, ...
elementwise.py  comparisons, bounds and activations
layers.py       LayerNormalization, pooling, Resize, ...
picking.py      Gather*, Scatter*
call.py         what the rules are written with
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from opbridge.errors import TranslationError
from opbridge.onnx.downgrade import axes, elementwise, layers, picking
from opbridge.onnx.downgrade.call import RULES, Call, Rule, needs
from opbridge.onnx.opsets import Schema, native_schema

if TYPE_CHECKING:
    from opbridge.onnx.tensor import NodeBuilder, Tensor

__all__ = ["build", "check_function"]

del axes, elementwise, layers, picking  # Imported for the rules that they register.


def build(
    builder: NodeBuilder, schema: Schema, inputs: Sequence[Tensor | None], attributes: Mapping[str, Any]
) -> tuple[Tensor, ...]:
    """Builds a call whose form came after the model's opset.

    Args:
        builder: Builds the nodes.
        schema: The operator in the form that the call has.
        inputs: Its inputs, in that form.
        attributes: Its attributes that are not at that form's default.

    Raises:
        TranslationError: the model's opset has no form for the call; the text names the opset that has one.
    """
    found = _rule(schema.name, builder.opset, schema.since)
    # Down to the last change that there is a rule for, or all the way.
    reached = builder.opset if found is None else found[0]
    native = native_schema(schema.name, reached)
    lacking = _lacking(native, schema, inputs, attributes)
    if native is None or lacking is not None:
        needed = next(
            opset
            for opset in range(reached + 1, schema.since + 1)
            if _lacking(native_schema(schema.name, opset), schema, inputs, attributes) is None
        )
        needs(f"{schema.name}{lacking}", builder.opset, needed)
    if found is not None:
        opset, rule = found
        return tuple(rule(Call(builder, schema.name, list(inputs), dict(attributes), opset)))
    # A default that changed is said.
    said = {
        name: parameter.default.value
        for name, parameter in schema.attributes.items()
        if name not in attributes and name in native.attributes and parameter.default is not None
    }
    given = list(inputs)
    while given and given[-1] is None:
        given.pop()
    return builder.call(schema.name, given, {**said, **attributes}, version=builder.opset)


def _rule(name: str, opset: int, since: int) -> tuple[int, Rule] | None:
    """What to do first with a call of the form of `since`: the last change of the operator after an opset."""
    rules = RULES.get(name, {})
    last = max((version for version in rules if opset < version <= since), default=None)
    return None if last is None else (last, rules[last])


def _lacking(native: Schema | None, schema: Schema, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> str | None:
    """What a call has that an older form of its operator has no place for, in words; None where nothing is."""
    if native is None:
        return ""
    variadic = bool(native.inputs) and native.inputs[-1].variadic
    for position, value in enumerate(inputs):
        if value is not None and position >= len(native.inputs) and not variadic:
            return f" with the input '{schema.inputs[min(position, len(schema.inputs) - 1)].name}'"
    for position, parameter in enumerate(native.inputs):
        if parameter.required and not parameter.variadic and (position >= len(inputs) or inputs[position] is None):
            return f" without the input '{parameter.name}'"
    for name in attributes:
        if name not in native.attributes:
            return f" with the attribute '{name}'"
    for name, attribute in native.attributes.items():
        if attribute.required and name not in attributes:
            return f" without the attribute '{name}'"
    return None


def check_function(definition: ir.Function, opset: int) -> None:
    """Sees to it that the body of an ONNX function, which is copied as it is, means the same at a model's opset.

    Args:
        definition: The function, with the opset that it was written for.
        opset: The model's opset.

    Raises:
        TranslationError: it uses an operator that the model's opset does not have in that form.
    """
    written = definition.opset_imports.get("", opset)
    changed = _first_changed(definition, opset, written)
    if changed is not None:
        needed = next(
            later for later in range(opset + 1, written + 1) if not _first_changed(definition, later, written)
        )
        raise TranslationError(
            f"The ONNX function {definition.name} is written for opset {written} and uses {changed}, which is "
            f"different in opset {opset}. Export with opset_version={needed} or newer, or write it for opset "
            f"{opset}."
        )


def _first_changed(definition: ir.Function, opset: int, written: int) -> str | None:
    """The first operator of a function that has another form at an opset, or none."""
    for node in definition.all_nodes():
        schema = native_schema(node.op_type, written) if node.domain in ("", "ai.onnx") else None
        if schema is None or written <= opset:
            continue
        native = native_schema(node.op_type, opset)
        if native is not None and native.since == schema.since:
            continue
        rule = _rule(node.op_type, opset, schema.since)
        if rule is not None or _lacking(native, schema, node.inputs, dict.fromkeys(node.attributes)) is not None:
            return node.op_type
    return None
