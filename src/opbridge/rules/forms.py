"""Whether a node is as its operator's schema has it: the number of its inputs and outputs, and its attributes."""

from __future__ import annotations

import functools

import onnx
import onnx_ir as ir

__all__ = ["problem"]


def problem(node: ir.Node, opset: int) -> str:
    """What is wrong with a node of ONNX's own operators, as the rest of a sentence; "": nothing, or not known."""
    attributes = tuple((name, each.type.name) for name, each in node.attributes.items())
    given = tuple(each is not None for each in node.inputs)
    found = _problem(node.op_type, opset, given, len(node.outputs), attributes)
    if found:
        return found
    for name, each in node.attributes.items():
        if not each.is_ref() and _lies(each):
            return f"has a damaged attribute '{name}'"
    return ""


def _lies(attribute: ir.Attr) -> bool:
    """Whether an attribute cannot be read."""
    if attribute.type != ir.AttributeType.TENSOR:
        return False
    try:
        return any(not isinstance(each, int) or each < 0 for each in attribute.value.shape)
    except Exception:  # onnx_ir raises anything for a damaged one
        return True


# A model has many nodes of few forms.
@functools.lru_cache(maxsize=4096)
def _problem(
    op_type: str, opset: int, given: tuple[bool, ...], outputs: int, attributes: tuple[tuple[str, str], ...]
) -> str:
    try:
        schema = onnx.defs.get_schema(op_type, opset, "")
    except (onnx.defs.SchemaError, TypeError):  # no such operator, or no number of an opset
        return ""
    if schema.deprecated:
        return ""
    if not schema.min_input <= len(given) <= schema.max_input:
        return f"has {len(given)} inputs; ONNX has {_range(schema.min_input, schema.max_input)}"
    for parameter, is_given in zip(schema.inputs, given, strict=False):
        if not is_given and parameter.option == onnx.defs.OpSchema.FormalParameterOption.Single:
            return f"lacks its input '{parameter.name}'"
    if not schema.min_output <= outputs <= schema.max_output:
        return f"has {outputs} outputs; ONNX has {_range(schema.min_output, schema.max_output)}"
    present = dict(attributes)
    for name, kind in present.items():
        declared = schema.attributes.get(name)
        if declared is None:
            return f"has an attribute '{name}' that the operator does not have at opset {opset}"
        if declared.type.name != kind:
            return f"has the attribute '{name}' as {kind}; ONNX has it as {declared.type.name}"
    for name, declared in schema.attributes.items():
        if declared.required and name not in present:
            return f"lacks its attribute '{name}'"
    return ""


def _range(least: int, most: int) -> str:
    if least == most:
        return str(least)
    return f"{least} or more" if most > 1 << 20 else f"{least} to {most}"
