"""The forms that ONNX's operators have had, and whether a call of one form is one of another."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import onnx

__all__ = ["changes", "form", "lacking", "newest", "permitted", "type_of_value"]

_OPTION = onnx.defs.OpSchema.FormalParameterOption


@functools.cache
def history() -> Mapping[str, Mapping[int, onnx.defs.OpSchema]]:
    """The forms of each operator by the opset that they came with."""
    found: dict[str, dict[int, onnx.defs.OpSchema]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            found.setdefault(schema.name, {})[schema.since_version] = schema
    return {name: dict(sorted(forms.items())) for name, forms in found.items()}


def newest() -> int:
    """The newest opset that the installed onnx package knows."""
    return int(onnx.defs.onnx_opset_version())


def changes(name: str) -> tuple[int, ...]:
    """The opsets in which an operator came or changed; none where it is no operator of ONNX."""
    return tuple(history().get(name, ()))


def form(name: str, opset: int) -> onnx.defs.OpSchema | None:
    """An operator's form at an opset; None where it has none yet."""
    found = None
    for since, schema in history().get(name, {}).items():
        if since <= opset:
            found = schema
    return found


def lacking(
    call: Any, source: onnx.defs.OpSchema, target: onnx.defs.OpSchema, attributes: Mapping[str, Any]
) -> str | None:
    """What a call has that another form has no place for, in words that follow the operator's name; None: nothing.

    Args:
        call: The node.
        source: The form that it is written in.
        target: The other form.
        attributes: Its attributes by name, without those at a default that means what the other form does.
    """
    inputs, outputs = list(call.inputs), list(call.outputs)
    while inputs and inputs[-1] is None:
        inputs.pop()
    if len(inputs) > target.max_input:
        return f"with the input '{source.inputs[min(len(inputs), len(source.inputs)) - 1].name}'"
    for at, parameter in enumerate(target.inputs):
        if parameter.option == _OPTION.Single and (at >= len(inputs) or inputs[at] is None):
            return f"without the input '{parameter.name}'"
    used = [at for at, each in enumerate(outputs) if each.name and (each.uses() or each.is_graph_output())]
    if used and used[-1] >= target.max_output:
        return f"with the output '{source.outputs[min(used[-1], len(source.outputs) - 1)].name}'"
    for name in attributes:
        if name not in target.attributes:
            return f"with {name}={_short(attributes[name])}"
    for name, attribute in target.attributes.items():
        if attribute.required and name not in attributes:
            return f"without {name}"
    return None


def _short(value: Any) -> str:
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return text if len(text) < 60 else text[:57] + "..."


@functools.cache
def _permitted(name: str, since: int) -> Mapping[str, frozenset[str]]:
    schema = history()[name][since]
    return {each.type_param_str: frozenset(each.allowed_type_strs) for each in schema.type_constraints}


def permitted(schema: onnx.defs.OpSchema, parameter: Any) -> frozenset[str]:
    """The types that an input or output may have."""
    return _permitted(schema.name, schema.since_version).get(parameter.type_str, frozenset({parameter.type_str}))


def type_of_value(schema: onnx.defs.OpSchema, parameters: Sequence[Any], at: int) -> Any:
    """The parameter of an input or output by its place, the last one for all that a variadic one takes."""
    return parameters[min(at, len(parameters) - 1)]
