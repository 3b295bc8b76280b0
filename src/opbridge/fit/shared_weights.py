"""Weights that several models share, stored once for all of them.

`weight_layouts` stores a weight as one model uses it. Where one model reads a large weight as it is (an embedding) and
another one only transposed (the output projection), the set of both would hold it twice. Then the second model gets the
weight as it is too, and the Transpose back.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from opbridge.fit.weight_layouts import SMALL_BYTES
from opbridge.onnx.layouts import steps_of, weight_name
from opbridge.onnx.torch_tensor import TorchTensor

__all__ = ["store_once"]

_Key = tuple[int, int, int, ir.DataType]


def store_once(models: Sequence[ir.Model]) -> None:
    """Stores each large weight of several models in one layout, in place, unless all of them use another one.

    Args:
        models: The models, whose files share their external data.
    """
    straight: dict[_Key, TorchTensor] = {}
    for model in models:
        for value in model.graph.initializers.values():
            tensor = value.const_value
            if isinstance(tensor, TorchTensor) and tensor.nbytes > SMALL_BYTES and weight_name(tensor) is None:
                straight.setdefault(_key(tensor), tensor)
    for model in models:
        for value in list(model.graph.initializers.values()):
            tensor = value.const_value
            if not isinstance(tensor, TorchTensor) or weight_name(tensor) is None or _key(tensor) not in straight:
                continue
            orders = [numbers for kind, *numbers in steps_of(tensor) if kind == "transpose"]
            if len(orders) == len(steps_of(tensor)):
                _transpose_in(model, value, straight[_key(tensor)], orders)


def _key(tensor: TorchTensor) -> _Key:
    """What tensors have in common that hold the same elements of the same memory."""
    own = tensor.tensor
    return own.untyped_storage().data_ptr(), own.storage_offset(), own.numel(), tensor.dtype


def _transpose_in(model: ir.Model, value: ir.Value, weight: TorchTensor, orders: Sequence[Sequence[int]]) -> None:
    """Replaces an initializer by nodes that transpose a weight."""
    graph, name = model.graph, value.name
    assert name is not None and isinstance(value.const_value, TorchTensor)
    kept = weight_name(value.const_value)
    own = TorchTensor(weight.tensor, kept if kept not in graph.initializers else f"{name}/straight")
    assert own.name is not None
    del graph.initializers[name]
    current = graph.initializers.setdefault(
        own.name, ir.Value(name=own.name, shape=ir.Shape([*own.shape]), type=ir.TensorType(own.dtype), const_value=own)
    )
    nodes = []
    for number, order in enumerate(orders):
        node = ir.node("Transpose", [current], {"perm": list(order)}, name=f"{name}/Transpose_{number}")
        assert current.shape is not None
        node.outputs[0].shape = ir.Shape([current.shape[axis] for axis in order])
        node.outputs[0].type = value.type
        nodes.append(node)
        current = node.outputs[0]
    current.name = name
    value.replace_all_uses_with(current, replace_graph_outputs=True)
    graph.insert_before(graph[0], nodes)
