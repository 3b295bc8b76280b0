"""Tensors of nodes and subgraphs whose data lie in other files, embedded into the model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx_ir as ir

from opbridge.onnx.sink import read_weight

__all__ = ["nested_initializers", "with_embedded_tensors"]


def with_embedded_tensors(model: ir.Model) -> ir.Model:
    """The model, or a copy of it in which no tensor of a node or a subgraph is an `ir.ExternalTensor`.

    onnx_ir writes an `ir.ExternalTensor` as a reference to its file, which may lie in another folder than the model.
    The initializers of the main graph are left as they are.
    """
    if not any(isinstance(tensor, ir.ExternalTensor) for tensor in _nested_tensors(model)):
        return model
    model = model.clone()
    for value in nested_initializers(model):
        value.const_value = _embedded(value.const_value)
    for node in _nodes(model):
        for name, attribute in node.attributes.items():
            if attribute.is_ref():
                continue
            if attribute.type == ir.AttributeType.TENSOR:
                node.attributes[name] = ir.AttrTensor(name, _embedded(attribute.value))
            elif attribute.type == ir.AttributeType.TENSORS:
                node.attributes[name] = ir.AttrTensors(name, [_embedded(tensor) for tensor in attribute.value])
    return model


def _embedded(tensor: Any) -> Any:
    """A tensor that reads its data from the other file when they are needed."""
    if not isinstance(tensor, ir.ExternalTensor):
        return tensor
    return ir.LazyTensor(
        lambda: ir.Tensor(read_weight(tensor.numpy, tensor.name, tensor), dtype=tensor.dtype),
        dtype=tensor.dtype,
        shape=tensor.shape,
        name=tensor.name,
        doc_string=tensor.doc_string,
        metadata_props=tensor.metadata_props,
    )


def _nodes(model: ir.Model) -> Iterator[ir.Node]:
    yield from model.graph.all_nodes()
    for function in model.functions.values():
        yield from function.all_nodes()


def nested_initializers(model: ir.Model) -> Iterator[ir.Value]:
    """The initializers of the subgraphs of a model and its functions."""
    owners: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    for owner in owners:
        for graph in owner.subgraphs():
            yield from graph.initializers.values()


def _nested_tensors(model: ir.Model) -> Iterator[Any]:
    """The tensors of attributes, and of the initializers of subgraphs."""
    for value in nested_initializers(model):
        yield value.const_value
    for node in _nodes(model):
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.TENSOR:
                yield attribute.value
            elif attribute.type == ir.AttributeType.TENSORS:
                yield from attribute.value or ()
