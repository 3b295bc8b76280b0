"""What is damaged in a model that was read: nodes that are not as their operators' schemas have them, and weights.

onnx_ir reads most damaged files, and raises anything where what is damaged in them is used.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator

import onnx
import onnx_ir as ir

from opbridge.errors import ModelFileError

__all__ = ["problem", "refuse", "unreadable"]


_TYPES = frozenset(int(each) for each in ir.DataType)

_DATA = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")

_LARGEST = 1 << 16
"""Of a weight of more elements only its place is looked at."""


def refuse(model: ir.Model, label: str) -> None:
    """Refuses a model that no use can be made of beyond saying what is wrong with it.

    Args:
        model: The model.
        label: Its name in messages.

    Raises:
        ModelFileError: A weight cannot be read, or a node is not as its operator's schema has it.
    """
    for name, tensor in _tensors(model):
        if wrong := unreadable(tensor):
            raise ModelFileError(
                f"{label} cannot be used: its weight '{name}' cannot be read ({wrong}). Copy the weight file to "
                "the folder of the model, or export again."
            )
    opset = model.graph.opset_imports.get("", model.graph.opset_imports.get("ai.onnx", 1))
    for node in model.graph.all_nodes():
        if node.domain in ("", "ai.onnx") and (wrong := problem(node, opset)):
            raise ModelFileError(
                f"{label} is not a valid model: {node.op_type} '{node.name}' {wrong}. Export it again."
            )


def _tensors(model: ir.Model) -> Iterator[tuple[str, ir.TensorProtocol]]:
    """The weights of a model with its bodies, by their names."""
    for graph in (model.graph, *model.graph.subgraphs()):
        if isinstance(graph, ir.Graph):
            for name, value in graph.initializers.items():
                if value.const_value is not None:
                    yield name, value.const_value
    for node in model.graph.all_nodes():
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.TENSOR and not attribute.is_ref():
                yield node.name or "", attribute.value


def unreadable(tensor: ir.TensorProtocol) -> str:
    """Why a weight cannot be read; "": it can."""
    try:
        sizes = list(tensor.shape)
        if any(not isinstance(each, int) or each < 0 for each in sizes):
            return f"its sizes are {sizes}"
        if isinstance(tensor, ir.TensorProtoTensor) and (wrong := _without_data(tensor)):
            return wrong
        if isinstance(tensor, ir.ExternalTensor):
            length = os.path.getsize(tensor.path) - (tensor.offset or 0)
            if tensor.nbytes > length:
                return f"{tensor.location} has {length} bytes for it, but it requires {tensor.nbytes}"
            if tensor.size > _LARGEST:
                tensor._check_path_containment()
        elif tensor.size > _LARGEST and tensor.dtype != ir.DataType.STRING:
            given = len(tensor.tobytes()) if tensor.size < _LARGEST << 6 else tensor.nbytes
            return "" if given == tensor.nbytes else f"it has {given} bytes, but requires {tensor.nbytes}"
        if tensor.size <= _LARGEST:
            tensor.numpy()
    except Exception as error:  # onnx_ir and numpy raise anything for a damaged one
        return " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return ""


def _without_data(tensor: ir.TensorProtoTensor) -> str:
    """That a tensor has sizes and no elements, which onnx_ir reads as zeros; "": it has them."""
    proto = tensor.raw
    if not tensor.size or proto.HasField("raw_data") or any(len(getattr(proto, each)) for each in _DATA):
        return ""
    return f"its sizes are {list(tensor.shape)}, and it has no data"


def problem(node: ir.Node, opset: int) -> str:
    """What is wrong with a node of ONNX's own operators, as the rest of a sentence; "": nothing, or not known."""
    if not all(isinstance(each, str) for each in (node.op_type, *node.attributes)):
        return "has a name that is not text"
    attributes = tuple((name, each.type.name) for name, each in node.attributes.items()) if node.attributes else ()
    given = tuple(each is not None for each in node.inputs)
    found = _problem(node.op_type, opset, given, len(node.outputs), attributes)
    if found:
        return found
    for name, each in node.attributes.items() if attributes else ():
        if not each.is_ref() and _lies(each):
            return f"has a damaged attribute '{name}'"
    return ""


def _lies(attribute: ir.Attr) -> bool:
    """Whether an attribute cannot be read, or names a type that there is not."""
    if attribute.value is None:
        return True
    if attribute.name in ("to", "dtype") and attribute.type == ir.AttributeType.INT:
        return attribute.value not in _TYPES
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
        return f"has {len(given)} inputs; expected {_range(schema.min_input, schema.max_input)}"
    for parameter, is_given in zip(schema.inputs, given, strict=False):
        if not is_given and parameter.option == onnx.defs.OpSchema.FormalParameterOption.Single:
            return f"has no input '{parameter.name}', which is required"
    if not schema.min_output <= outputs <= schema.max_output:
        return f"has {outputs} outputs; expected {_range(schema.min_output, schema.max_output)}"
    present = dict(attributes)
    for name, kind in present.items():
        declared = schema.attributes.get(name)
        if declared is None:
            return f"has the attribute '{name}', which does not exist at opset {opset}"
        if declared.type.name != kind:
            return f"has the attribute '{name}' of type {kind}; expected {declared.type.name}"
    for name, declared in schema.attributes.items():
        if declared.required and name not in present:
            return f"has no attribute '{name}', which is required"
    return ""


def _range(least: int, most: int) -> str:
    if least == most:
        return str(least)
    return f"{least} or more" if most > 1 << 20 else f"{least} to {most}"
