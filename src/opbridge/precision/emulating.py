"""A model in 16 bits as one in float32 that rounds wherever the model does.

ONNX Runtime's CPU has no arithmetic of bfloat16, and what it does not have in float16 it computes in float32 without
rounding between two nodes. Here every tensor of the format is one of float32 with numbers of the format, and every
output of a node is rounded to it, so that the types of the model are what is run.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from opbridge.precision.copies import Copy
from opbridge.precision.formats import Format
from opbridge.precision.instruments import Instruments, Place, is_own
from opbridge.precision.types import bodies, graphs

__all__ = ["emulated"]

_FLOAT = ir.DataType.FLOAT

_TYPE_ATTRIBUTES = ("to", "dtype", "output_dtype", "output_datatype")


def emulated(model: ir.Model, to: Format, narrow: set[ir.Value]) -> ir.Model:
    """A copy of a model that rounds in float32.

    Args:
        model: The model.
        to: The format that it is in.
        narrow: All its values that are of the format.
    """
    copy = Copy(model)
    tools = Instruments(copy.model, to)
    inner = {copy.values[each] for each in narrow if each in copy.values}
    for graph in graphs(copy.model.graph):
        for value in (*graph.inputs, *graph.initializers.values()):
            if value in inner:
                value.type = ir.TensorType(_FLOAT)
                if value.const_value is not None:
                    value.const_value = _wide(value.const_value)
    for graph in graphs(copy.model.graph):
        for node in list(graph):
            if not is_own(node):
                _emulate(node, to, tools, inner)
    return copy.model


def _emulate(node: ir.Node, to: Format, tools: Instruments, inner: set[ir.Value]) -> None:
    for name, attribute in list(node.attributes.items()):
        if attribute.is_ref():
            continue
        if name in _TYPE_ATTRIBUTES and attribute.type == ir.AttributeType.INT and attribute.value == int(to.dtype):
            node.attributes[name] = ir.AttrInt64(name, int(_FLOAT))
        elif attribute.type == ir.AttributeType.TENSOR and attribute.value.dtype == to.dtype:
            node.attributes[name] = ir.AttrTensor(name, _wide(attribute.value))
    is_given = node.op_type in ("Constant", "ConstantOfShape") or any(True for _ in bodies(node))
    for value in node.outputs:
        if value not in inner or not value.name:
            continue
        value.type = ir.TensorType(_FLOAT)
        if is_given:  # what comes out of a body was rounded there
            continue
        uses = list(value.uses())
        rounded = tools.round_at(Place.behind(value, tools.model.graph), value)
        for user, at in uses:
            user.replace_input_with(at, rounded)
        if value.is_graph_output():
            _swap(value, rounded)


def _swap(value: ir.Value, rounded: ir.Value) -> None:
    """Has a graph give the rounded value, under the name of the other."""
    maker = value.producer()
    assert maker is not None and isinstance(maker.graph, ir.Graph)
    outputs = maker.graph.outputs
    for at, each in enumerate(list(outputs)):
        if each is value:
            outputs[at] = rounded
    value.name, rounded.name = rounded.name, value.name
    rounded.shape = value.shape


def _wide(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """The numbers in float32, made when they are read."""
    return ir.LazyTensor(
        lambda: ir.Tensor(tensor.numpy().astype(np.float32)), dtype=_FLOAT, shape=ir.Shape(tensor.shape.numpy())
    )
