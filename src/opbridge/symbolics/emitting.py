"""Builds the nodes of a translation again in a TorchScript graph: the inverse of `copying`.

The nodes of an `opbridge.onnx.builder.Builder` are built with `g.op`: attributes get suffixes, absent inputs become
`prim::Constant`, constants `onnx::Constant`, and the graphs of If, Loop and Scan blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch

from opbridge.base.dtypes import torch_dtype
from opbridge.base.torch_private import torchscript_graph
from opbridge.errors import TranslationError
from opbridge.onnx.builder import Builder
from opbridge.onnx.tensor import Tensor
from opbridge.onnx.torch_tensor import TorchTensor

__all__ = ["as_torch", "emit"]

_SUFFIXES = {
    ir.AttributeType.INT: "i",
    ir.AttributeType.INTS: "i",
    ir.AttributeType.FLOAT: "f",
    ir.AttributeType.FLOATS: "f",
    ir.AttributeType.STRING: "s",
    ir.AttributeType.STRINGS: "s",
}


def emit(g: Any, builder: Builder, results: Sequence[Tensor], known: Mapping[int, Any]) -> list[Any]:
    """Builds a translation's nodes in a TorchScript graph.

    Args:
        g: The `g` of the symbolic function.
        builder: Holds the nodes of the translation.
        results: The values that the translation returned.
        known: The graph's values of the translation's inputs, by the identity of the latter.

    Returns:
        The graph's values of the results.

    Raises:
        TranslationError: A node has no form in TorchScript.
    """
    emitter = _Emitter(g, builder, known)
    return emitter.run(results)


class _Emitter:
    def __init__(self, g: Any, builder: Builder, known: Mapping[int, Any]) -> None:
        self._g = g
        self._builder = builder
        self._values: dict[int, Any] = dict(known)

    def run(self, results: Sequence[Tensor]) -> list[Any]:
        for node in _needed(self._builder.nodes, results):
            self._node(self._g, node)
        return [self._value(self._g, result) for result in results]

    def _node(self, g: Any, node: ir.Node) -> None:
        kind = f"{node.domain or 'onnx'}::{node.op_type}"
        inputs = [self._input(g, value) for value in node.inputs]
        if kind == "onnx::Reshape":
            inputs[1] = self._shape_of_reshape(g, node, inputs)
        attributes: dict[str, Any] = {}
        bodies: list[ir.Graph] = []
        for name, attribute in node.attributes.items():
            if attribute.type == ir.AttributeType.GRAPH:
                bodies.append(attribute.as_graph())
            else:
                attributes.update([_attribute(name, attribute)])
        if bodies:
            # TorchScript's order of blocks: the then-branch first.
            if node.op_type == "If":
                bodies = [node.attributes[name].as_graph() for name in ("then_branch", "else_branch")]
            made, contexts = torchscript_graph.op_with_blocks(
                g, kind, inputs, len(node.outputs), len(bodies), attributes
            )
            for context, body in zip(contexts, bodies, strict=True):
                self._body(context, body)
        else:
            made = g.op(kind, *inputs, outputs=len(node.outputs), **attributes)
        outputs = [made] if torchscript_graph.is_value(made) else list(made)
        for output, value in zip(node.outputs, outputs, strict=True):
            if isinstance(output.type, ir.TensorType):
                torchscript_graph.set_dtype(value, torch_dtype(output.type.dtype))
            self._values[id(output)] = value

    def _shape_of_reshape(self, g: Any, node: ir.Node, inputs: Sequence[Any]) -> Any:
        """The shape that a Reshape is given, computed where it begins with sizes that are copied: zeros.

        Without a -1 beside them, they end the exporter's shape inference with an internal error.
        """
        shape = node.inputs[1].const_value if node.inputs[1] is not None else None
        sizes = [] if shape is None else [int(size) for size in shape.numpy().reshape(-1)]
        copied = next((index for index, size in enumerate(sizes) if size), len(sizes))
        allows_zero = "allowzero" in node.attributes and node.attributes["allowzero"].as_int()
        if not copied or -1 in sizes or 0 in sizes[copied:] or allows_zero:
            return inputs[1]
        first = g.op("Gather", g.op("Shape", inputs[0]), g.op("Constant", value_t=torch.arange(copied)), axis_i=0)
        if copied == len(sizes):
            return first
        return g.op("Concat", first, g.op("Constant", value_t=torch.tensor(sizes[copied:])), axis_i=0)

    def _body(self, g: Any, body: ir.Graph) -> None:
        for value in body.inputs:
            given = torchscript_graph.block_input(g.block)
            if value.dtype is not None:
                torchscript_graph.set_dtype(given, torch_dtype(value.dtype))
            self._values[id(value)] = given
        for node in body:
            self._node(g, node)
        for value in body.outputs:
            torchscript_graph.block_output(g.block, self._value(g, value))

    def _input(self, g: Any, value: ir.Value | None) -> Any:
        return torchscript_graph.absent_input(g) if value is None else self._value(g, value)

    def _value(self, g: Any, value: ir.Value) -> Any:
        found = self._values.get(id(value))
        if found is None:
            if value.const_value is None:
                raise TranslationError(f"'{value.name}' is not the output of any node.")
            found = g.op("Constant", value_t=as_torch(value.const_value))
            if g is self._g:  # values of a block are not visible outside of it
                self._values[id(value)] = found
        return found


def _needed(nodes: Sequence[ir.Node], results: Sequence[Tensor]) -> list[ir.Node]:
    """The nodes that the results depend on, in their order."""
    wanted = {id(result) for result in results}
    kept = []
    for node in reversed(nodes):
        if any(id(output) in wanted for output in node.outputs):
            kept.append(node)
            wanted.update(id(value) for value in _read(node))
    return kept[::-1]


def _read(node: ir.Node) -> list[ir.Value]:
    """The values that a node reads, in its subgraphs too."""
    found = [value for value in node.inputs if value is not None]
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            body = attribute.as_graph()
            found.extend(body.outputs)
            for inner in body:
                found.extend(_read(inner))
    return found


def _attribute(name: str, attribute: ir.Attr) -> tuple[str, Any]:
    if attribute.type == ir.AttributeType.TENSOR:
        return f"{name}_t", as_torch(attribute.as_tensor())
    suffix = _SUFFIXES.get(attribute.type)
    if suffix is None:
        raise TranslationError(
            f"The attribute '{name}' is of a kind ({attribute.type}) that TorchScript does not support."
        )
    value = attribute.value
    return f"{name}_{suffix}", list(value) if isinstance(value, (list, tuple)) else value


def as_torch(tensor: ir.TensorProtocol) -> torch.Tensor:
    """A tensor of ONNX as a tensor of torch; a weight of the model is not copied."""
    if isinstance(tensor, TorchTensor):
        return tensor.tensor.detach()
    if tensor.dtype == ir.DataType.BFLOAT16:
        return torch.frombuffer(bytearray(tensor.tobytes()), dtype=torch.bfloat16).reshape(tuple(tensor.shape.numpy()))
    return torch.from_numpy(tensor.numpy().copy())
