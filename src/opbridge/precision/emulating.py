"""A model in 16 bits as one in float32 that rounds wherever the model does.

ONNX Runtime's CPU has no arithmetic of bfloat16, and what it does not have in float16 it computes in float32 without
rounding between two nodes. Here every tensor of the format is one of float32 with numbers of the format, and every
output of a node is rounded to it, so that the types of the model are what is run.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from opbridge.precision.copies import Copy
from opbridge.precision.formats import Format
from opbridge.precision.instruments import Instruments, Place, is_own
from opbridge.precision.tensors import is_rounded
from opbridge.precision.types import bodies, graphs

__all__ = ["emulated", "with_unwritten_weights"]

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
            if value not in inner:
                continue
            if graph is not copy.model.graph or not _is_from_source(value, to, tools.rounded):
                value.type = ir.TensorType(_FLOAT)
                if value.const_value is not None:
                    value.const_value = _wide(value.const_value)
    for graph in graphs(copy.model.graph):
        for node in list(graph):
            if not is_own(node):
                _emulate(node, to, tools, inner)
    return copy.model


def with_unwritten_weights(model: ir.Model, to: Format) -> ir.Model:
    """A copy of a model that casts its weights when they are read, from those that the float32 model has.

    It computes what the model does, and has no weights of its own that would have to be written.
    """
    copy = Copy(model).model
    tools = Instruments(copy, to)

    def cast(value: ir.Value) -> ir.Value:
        return tools.emit(Place.behind(value, copy.graph), "Cast", value, dtype=to.dtype, to=int(to.dtype))

    for value in list(copy.graph.initializers.values()):
        _is_from_source(value, to, cast)
    return copy


def _is_from_source(value: ir.Value, to: Format, narrow: Callable[[ir.Value], ir.Value]) -> bool:
    """Has a weight be the one of float32 that it was cast from, and rounds it for its users; whether that is so.

    Args:
        value: The weight.
        to: The format.
        narrow: Gives a value of float32 as the users get it.
    """
    tensor = value.const_value
    if value.is_graph_input() or value.is_graph_output() or not is_rounded(tensor, to):
        return False
    uses = list(value.uses())
    value.const_value, value.type = tensor.source, ir.TensorType(_FLOAT)
    rounded = narrow(value)
    for user, at in uses:
        user.replace_input_with(at, rounded)
    return True


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
