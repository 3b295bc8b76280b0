"""The element types of a node's values, by the schema of its operator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
import onnx.helper
import onnx_ir as ir

from opbridge.errors import TranslationError
from opbridge.onnx import opsets

__all__ = ["Body", "all_by_type_variable", "by_type_variable", "function_body", "give_types", "mixed_inputs"]


def by_type_variable(node: ir.Node, schema: opsets.Schema) -> Iterator[tuple[str, bool, ir.DataType]]:
    """The types of a node's inputs, as far as they are known: type variable, whether all of it have one type, type."""
    for position, value in enumerate(node.inputs):
        if value is not None and isinstance(value.type, ir.TensorType) and schema.inputs:
            yield schema.type_variable(position), schema.homogeneous(position), value.type.dtype


def all_by_type_variable(node: ir.Node, schema: opsets.Schema) -> dict[str, ir.DataType]:
    """The types of a node's inputs and outputs by type variable, as far as they are known."""
    found = {variable: dtype for variable, _, dtype in by_type_variable(node, schema)}
    for position, value in enumerate(node.outputs):
        if isinstance(value.type, ir.TensorType) and schema.outputs:
            output = schema.outputs[min(position, len(schema.outputs) - 1)]
            found.setdefault(output.type_constraint.name, value.type.dtype)
    return found


def mixed_inputs(op_type: str, opset: int, types: Sequence[ir.DataType | None]) -> list[dict[int, ir.DataType]]:
    """The inputs that have to be of one type and are of several: for each such type variable, the types by place.

    Args:
        op_type: An operator of ONNX's own.
        opset: The model's opset.
        types: The types of the inputs; None for one that is not known, or no tensor.
    """
    schema = opsets.native_schema(op_type, opset)
    found: dict[str, dict[int, ir.DataType]] = {}
    for position, dtype in enumerate(types):
        if schema is not None and schema.inputs and dtype is not None and schema.homogeneous(position):
            found.setdefault(schema.type_variable(position), {})[position] = dtype
    return [each for each in found.values() if len(set(each.values())) > 1]


_OF_CONSTANT = {
    "value_int": ir.DataType.INT64,
    "value_ints": ir.DataType.INT64,
    "value_float": ir.DataType.FLOAT,
    "value_floats": ir.DataType.FLOAT,
    "value_string": ir.DataType.STRING,
    "value_strings": ir.DataType.STRING,
}


def give_types(node: ir.Node, opset: int) -> None:
    """Gives a node's outputs their types, in place, where the file says none and the schema tells them.

    Args:
        node: A node of ONNX's own operators, whose inputs have the types that are known of them.
        opset: The model's opset.
    """
    for value, found in zip(node.outputs, _types(node, opset), strict=False):
        if value.type is None and found is not None:
            value.type = ir.TensorType(found) if isinstance(found, ir.DataType) else found


def _types(node: ir.Node, opset: int) -> list[ir.DataType | ir.TypeProtocol | None]:
    """The types of a node's outputs, as far as they are known."""
    graphs = [each.value for each in node.attributes.values() if each.type == ir.AttributeType.GRAPH]
    if graphs:
        return [each.type for each in graphs[0].outputs[1 if node.op_type == "Loop" else 0 :]]
    if node.op_type == "Constant" and (given := _OF_CONSTANT.keys() & node.attributes.keys()):
        return [_OF_CONSTANT[given.pop()]]
    schema = opsets.native_schema(node.op_type, opset)
    if schema is None:
        return []
    if node.op_type == "Split":
        return [node.inputs[0].type if node.inputs and node.inputs[0] is not None else None] * len(node.outputs)
    types: dict[str, Any] = {}
    attributes = {name: each if name == "value" else each.value for name, each in node.attributes.items()}
    try:
        for position, value in enumerate(node.inputs):
            if value is not None and value.type is not None:
                types.setdefault(schema.type_variable(position), value.type)
        found = list(schema.output_dtypes(types, attributes, node.inputs))
    except (TranslationError, IndexError, KeyError, ValueError, TypeError, AttributeError):  # not a valid node
        return []
    for position, dtype in enumerate(found):
        output = schema.outputs[min(position, len(schema.outputs) - 1)]
        if isinstance(dtype, ir.DataType) and ir.TensorType(dtype) not in output.type_constraint.allowed_types:
            found[position] = None  # a sequence of such tensors, as of SequenceEmpty
    return found


@dataclass(frozen=True)
class Body:
    """What ONNX defines an operator by.

    Attributes:
        nodes: The nodes, with their types.
        opset: Their opset.
        inputs: The values that stand for the node's inputs.
        outputs: Those that stand for its outputs; None for one that the node does not use.
    """

    nodes: Sequence[ir.Node]
    opset: int
    inputs: Sequence[ir.Value]
    outputs: Sequence[ir.Value | None]


def function_body(node: ir.Node, opset: int) -> Body | None:
    """The nodes that ONNX defines a node's operator by; None: there are none.

    Args:
        node: The node, whose inputs have their types.
        opset: The model's opset.
    """
    schema = onnx.defs.get_schema(node.op_type, opset, "")
    proto: onnx.FunctionProto | None = None
    if schema.has_function:
        proto = schema.function_body
    elif schema.has_context_dependent_function:
        proto = _made_for(schema, node)
    if proto is None:
        return None
    given = {*proto.input, *(name for each in proto.node for name in each.output)}
    names = list(proto.output)
    del proto.output[:]
    proto.output.extend(name for name in names if name in given)
    try:
        function = ir.from_proto(proto)
    except Exception:  # onnx_ir does not read the body of every operator
        return None
    version = function.opset_imports.get("", opset)
    for value, of_node in zip(function.inputs, node.inputs, strict=False):
        value.type = None if of_node is None else of_node.type
    for each in function:
        for name, attribute in list(each.attributes.items()):
            if attribute.ref_attr_name:
                set_by = node.attributes.get(attribute.ref_attr_name)
                each.attributes.pop(name)
                if set_by is not None:
                    each.attributes[name] = ir.Attr(name, set_by.type, set_by.value)
        give_types(each, version)
    results = iter(function.outputs)
    return Body(list(function), version, function.inputs, [next(results) if name in given else None for name in names])


def _made_for(schema: onnx.defs.OpSchema, node: ir.Node) -> onnx.FunctionProto | None:
    """The function of an operator whose body depends on the types of its inputs and on its attributes."""
    types = []
    for value in node.inputs:
        dtype = None if value is None else value.dtype
        types.append(onnx.TypeProto() if dtype is None else onnx.helper.make_tensor_type_proto(int(dtype), None))
    proto = ir.to_proto(node).SerializeToString()
    try:
        made = schema.get_context_dependent_function(proto, [each.SerializeToString() for each in types])
        return onnx.FunctionProto.FromString(made)
    except Exception:  # whatever ONNX raises for a node that is not valid
        return None
