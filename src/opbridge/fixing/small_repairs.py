"""Repairs of what the rules on shapes, names and numbers find, each at one node or value."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from opbridge.onnx import reading
from opbridge.onnx.shapes import infer
from opbridge.rules.looking import Looked
from opbridge.rules.of_numbers import squares
from opbridge.rules.of_shapes import types_given

__all__ = ["REPAIRS"]


_MOST_ELEMENTS = 1 << 24
_MADE_FROM_SIZES = frozenset({"ConstantOfShape", "Expand", "OneHot", "Pad", "Range", "Resize", "Tile"})


def _origin_of(node: ir.Node) -> dict[str, str]:
    """What the file says of where a node comes from, for the nodes beside it."""
    return {key: text for key, text in node.metadata_props.items() if key != "opbridge.node"}


def _free(looked: Looked, name: str) -> str:
    """A name that no value of the model has."""
    taken = looked.names
    number = 1
    while f"{name}_{number}" in taken:
        number = number + 1 if number < 16 else max(number, len(taken)) + 1
    taken.add(f"{name}_{number}")
    return f"{name}_{number}"


def _stored(looked: Looked, name: str, array: np.ndarray) -> ir.Value:
    """A new initializer of the model."""
    name = _free(looked, name)
    value = ir.Value(name=name, const_value=ir.tensor(array, name=name))
    value.shape, value.type = ir.Shape(array.shape), ir.TensorType(ir.DataType.from_numpy(array.dtype))
    looked.model.graph.register_initializer(value)
    return value


def _new(looked: Looked, of: ir.Node, op_type: str, inputs: list[ir.Value | None], **attributes: ir.Attr) -> ir.Node:
    """A node with one output, which comes from where another node does."""
    name = _free(looked, f"{of.name or of.outputs[0].name}_{op_type.lower()}")
    node = ir.Node("", op_type, inputs, attributes=list(attributes.values()), name=name)
    node.outputs[0].name = name
    node.metadata_props.update(_origin_of(of))
    return node


def gives_too_much(looked: Looked) -> bool:
    """Whether something that is computed from constants alone is too large to be computed now."""
    for node in looked.nodes:
        for value in node.outputs:
            if looked.is_known(value) and not looked.is_stored(value):
                shape = looked.shape(value)
                if shape is None and node.op_type not in _MADE_FROM_SIZES:
                    continue
                sizes = [each for each in shape or [None] if isinstance(each, int)]
                if shape is None or len(sizes) < len(shape) or math.prod(sizes) > _MOST_ELEMENTS:
                    return True
    return False


def clashing_names(looked: Looked, node: ir.Node | None) -> str:
    """clashing-names: they were given other names when the file was read."""
    names = looked.model.meta.pop(reading.CLASHES, None)
    return f"renamed {len(names)} values with duplicate names" if names else ""


def sort_nodes(looked: Looked, node: ir.Node | None) -> str:
    """unsorted-nodes: the nodes are put in the order in which they can be computed."""
    try:
        looked.model.graph.sort()
    except ValueError:  # they are in a circle
        return ""
    looked.early.clear()
    return "sorted the nodes"


def declared_shape(looked: Looked, node: ir.Node | None) -> str:
    """declared-shape: the shape that the operator gives takes the place of the one that the file says."""
    assert node is not None
    for value, given in zip(node.outputs, infer(node, looked.opset_of(node)), strict=True):
        if given is not None:
            value.shape = ir.Shape(given)
    return f"corrected the shapes in the file of the outputs of {node.op_type}"


def declared_type(looked: Looked, node: ir.Node | None) -> str:
    """declared-type: the type that the operator gives takes the place of the one that the file says."""
    assert node is not None
    for value, given in zip(node.outputs, types_given(node, looked), strict=False):
        if given is not None and isinstance(value.type, ir.TensorType):
            value.type = ir.TensorType(given)
    return f"corrected the types in the file of the outputs of {node.op_type}"


def scalar_axes(looked: Looked, node: ir.Node | None) -> str:
    """scalar-axes: the scalar is a list of one number."""
    assert node is not None and node.graph is not None
    changed = ""
    for at, value in enumerate(node.inputs):
        if (at == 0 and node.op_type != "ConstantOfShape") or value is None or looked.shape(value) != []:
            continue
        if node.op_type == "Pad" and at == 2:  # the value to pad with
            continue
        known = looked.constant(value)
        if known is not None:
            node.replace_input_with(at, _stored(looked, f"{value.name}_list", known.reshape(1)))
        else:
            shape = _stored(looked, f"{value.name}_shape", np.array([1], np.int64))
            listed = _new(looked, node, "Reshape", [value, shape])
            listed.outputs[0].type, listed.outputs[0].shape = value.type, ir.Shape([1])
            node.graph.insert_before(node, listed)
            node.replace_input_with(at, listed.outputs[0])
        changed = f"replaced the scalar input of {node.op_type} by a list of one element"
    return changed


def broadcast_scale(looked: Looked, node: ir.Node | None) -> str:
    """broadcast-scale: stored scales and biases are expanded."""
    assert node is not None
    data, axis = looked.shape(node.inputs[0]), looked.attribute(node, "axis")
    normalised = (data or [])[axis:]
    wanted = [each for each in normalised if isinstance(each, int)]
    if not wanted or len(wanted) != len(normalised):
        return ""
    changed = ""
    for at in (1, 2):
        value = node.inputs[at] if at < len(node.inputs) else None
        known = looked.constant(value)
        if value is None or known is None or list(known.shape) == wanted:
            continue
        while known.ndim > len(wanted) and known.shape[0] == 1:
            known = known[0]
        try:
            expanded = np.ascontiguousarray(np.broadcast_to(known, wanted))
        except ValueError:  # it does not broadcast: the model is wrong
            continue
        node.replace_input_with(at, _stored(looked, f"{value.name}_expanded", expanded))
        changed = "expanded the scale of LayerNormalization"
    return changed


def asymmetric_pads(looked: Looked, node: ir.Node | None) -> str:
    """asymmetric-pads: without padding, and the result sliced."""
    assert node is not None and node.graph is not None
    further = list(looked.attribute(node, "output_padding") or [0] * 3)
    pads = list(looked.attribute(node, "pads") or [0] * 6)
    padding = looked.attribute(node, "auto_pad")
    if padding not in (None, "NOTSET") or looked.attribute(node, "output_shape") is not None:
        return ""
    if len(pads) != 6 or len(further) != 3 or min(pads) < 0:
        return ""
    after = [pads[3 + at] - further[at] for at in range(3)]
    if min(after) < 0:  # there is more than the operator gives without padding
        return ""
    result = node.outputs[0]
    starts = _stored(looked, f"{result.name}_starts", np.array(pads[:3], np.int64))
    ends = np.array([-each if each else np.iinfo(np.int64).max for each in after], np.int64)
    axes = _stored(looked, f"{result.name}_axes", np.array([2, 3, 4], np.int64))
    whole = ir.Node("", "ConvTranspose", list(node.inputs), name=_free(looked, f"{node.name or result.name}_whole"))
    for name, attribute in node.attributes.items():
        if name not in ("pads", "output_padding"):
            whole.attributes[name] = attribute
    whole.metadata_props.update(_origin_of(node))
    whole.outputs[0].name, whole.outputs[0].type = whole.name, result.type
    sliced = _new(looked, node, "Slice", [whole.outputs[0], starts, _stored(looked, f"{result.name}_ends", ends), axes])
    sliced.outputs[0].type, sliced.outputs[0].shape = result.type, result.shape
    node.graph.insert_before(node, [whole, sliced])
    name = result.name or ""
    ir.convenience.replace_all_uses_with(result, sliced.outputs[0], replace_graph_outputs=True)
    result.name, sliced.outputs[0].name = f"{name}_before", name
    node.graph.remove(node, safe=True)
    return "replaced ConvTranspose by one without padding and a Slice"


def quantized_bias(looked: Looked, node: ir.Node | None) -> str:
    """quantized-bias: a stored bias is stored as what it is dequantised to."""
    assert node is not None and node.graph is not None
    stored, scale = looked.constant(node.inputs[0]), looked.constant(node.inputs[1])
    zero = looked.constant(node.inputs[2]) if len(node.inputs) > 2 else None
    if stored is None or scale is None or scale.dtype != np.float32 or looked.attribute(node, "block_size"):
        return ""
    if len(node.inputs) > 2 and node.inputs[2] is not None and (zero is None or zero.any()):
        return ""
    axis = looked.attribute(node, "axis")
    if scale.ndim == 1 and scale.size > 1:
        if not isinstance(axis, int) or not -stored.ndim <= axis < stored.ndim:
            return ""
        shape = [1] * stored.ndim
        shape[axis] = scale.size
        scale = scale.reshape(shape)
    result = node.outputs[0]
    if result.is_graph_output():
        return ""
    value = _stored(looked, f"{result.name}_float", stored.astype(np.float32) * scale.reshape(scale.shape or ()))
    ir.convenience.replace_all_uses_with(result, value)
    node.graph.remove(node, safe=True)
    return "stored the bias as float32"


def float16_squares(looked: Looked, node: ir.Node | None) -> str:
    """float16-squares: the squares and their sum are computed in float32."""
    assert node is not None and node.graph is not None
    first = node
    if node.op_type in ("ReduceMean", "ReduceSum"):
        squared = node.inputs[0]
        producer = None if squared is None else squared.producer()
        if squared is None or producer is None or producer.graph is not node.graph or not squares(squared, looked):
            return ""
        if len(producer.outputs[0].uses()) != 1 or producer.outputs[0].is_graph_output():
            return ""
        first = producer
    data = first.inputs[0]
    wide = ir.AttrInt64("to", int(ir.DataType.FLOAT))
    cast = _new(looked, node, "Cast", [data], to=wide)
    cast.outputs[0].type, cast.outputs[0].shape = ir.TensorType(ir.DataType.FLOAT), data.shape if data else None
    node.graph.insert_before(first, cast)
    for at, value in enumerate(first.inputs):
        if value is data:
            first.replace_input_with(at, cast.outputs[0])
    if first is not node:
        exponent = first.inputs[1]
        if first.op_type == "Pow" and exponent is not None and exponent.dtype == ir.DataType.FLOAT16:
            first.replace_input_with(1, _stored(looked, f"{exponent.name}_wide", np.array(2, np.float32)))
        first.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    result = node.outputs[0]
    narrow = _new(looked, node, "Cast", [None], to=ir.AttrInt64("to", int(ir.DataType.FLOAT16)))
    narrow.outputs[0].type, narrow.outputs[0].shape = result.type, result.shape
    node.graph.insert_after(node, narrow)
    name = result.name or ""
    ir.convenience.replace_all_uses_with(result, narrow.outputs[0], replace_graph_outputs=True)
    narrow.replace_input_with(0, result)
    result.name, narrow.outputs[0].name = f"{name}_wide", name
    result.type = ir.TensorType(ir.DataType.FLOAT)
    return f"computed the squares and {node.op_type} in float32"


_ROUNDING = frozenset({"Floor", "Ceil", "Round"})


def rounded_integers(looked: Looked, node: ir.Node | None) -> str:
    """type-not-in-onnx: integers are not rounded."""
    assert node is not None and node.graph is not None
    value = node.inputs[0] if node.inputs else None
    if node.op_type not in _ROUNDING or value is None or value.dtype is None or not value.dtype.is_integer():
        return ""
    same = ir.Node("", "Identity", [value], name=node.name)
    same.metadata_props.update(node.metadata_props)
    ir.convenience.replace_nodes_and_values(node.graph, node, [node], [same], node.outputs, same.outputs)
    same.outputs[0].type = value.type
    return f"removed {node.op_type} of integers"


REPAIRS: dict[str, Callable[[Looked, ir.Node | None], str]] = {
    "clashing-names": clashing_names,
    "unsorted-nodes": sort_nodes,
    "declared-shape": declared_shape,
    "declared-type": declared_type,
    "scalar-axes": scalar_axes,
    "broadcast-scale": broadcast_scale,
    "asymmetric-pads": asymmetric_pads,
    "quantized-bias": quantized_bias,
    "float16-squares": float16_squares,
    "type-not-in-onnx": rounded_integers,
}
"""The repairs, by the identifiers of the rules."""
