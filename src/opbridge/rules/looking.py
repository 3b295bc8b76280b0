"""A model as the rules look at it: its nodes with all bodies, and what is known of its values."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx_ir as ir

from opbridge.onnx import opsets
from opbridge.onnx.shapes import Sizes, infer, sizes
from opbridge.rules.node_types import give_types

__all__ = ["LARGEST", "Looked", "bodies", "name_of"]

LARGEST = 1 << 16
"""Constants of more elements than this are not looked into."""

_NOT_FOLDED = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
)
_ONNX = ("", "ai.onnx")


class Looked:
    """A model with what is known of its values. Shapes that the file does not have are inferred, in place.

    Args:
        model: The model.

    Attributes:
        model: The model.
        opset: Its opset of ONNX's own operators.
        nodes: All its nodes, those of bodies and functions included, each after those that it reads.
    """

    def __init__(self, model: ir.Model) -> None:
        self.model = model
        self.opset = model.graph.opset_imports.get("", model.graph.opset_imports.get("ai.onnx", 1))
        self.nodes: list[ir.Node] = []
        self._known: set[ir.Value] = set()
        for graph in (model.graph, *model.functions.values()):
            self._walk(graph)

    def _walk(self, graph: Any) -> None:
        if isinstance(graph, ir.Graph):
            self._known.update(graph.initializers.values())
        for node in graph:
            self._infer(node)
            self.nodes.append(node)
            for body in bodies(node):
                self._walk(body)
            if self._is_known(node):
                self._known.update(node.outputs)

    def _infer(self, node: ir.Node) -> None:
        if node.domain not in _ONNX:
            return
        if any(each.type is None for each in node.outputs):
            give_types(node, self.opset)
        if all(each.shape is not None for each in node.outputs):
            return
        for value, shape in zip(node.outputs, infer(node, self.opset), strict=True):
            if value.shape is None and shape is not None:
                value.shape = ir.Shape(shape)

    def _is_known(self, node: ir.Node) -> bool:
        if node.op_type in _NOT_FOLDED or node.domain not in _ONNX or any(bodies(node)):
            return False
        if node.op_type in ("Shape", "Size"):
            found = sizes(node.inputs[0]) if node.inputs else None
            return found is not None and all(isinstance(each, int) for each in found)
        return all(each is None or each in self._known for each in node.inputs)

    def is_stored(self, value: ir.Value) -> bool:
        """Whether a value is an initializer, or the output of a Constant."""
        producer = value.producer()
        return value.is_initializer() or (producer is not None and producer.op_type == "Constant")

    def is_known(self, value: ir.Value) -> bool:
        """Whether a value is stored, or computed from such values alone."""
        return value in self._known

    def constant(self, value: ir.Value | None) -> np.ndarray | None:
        """The elements of a value that is stored; None for others, and for those that are too many."""
        if value is None:
            return None
        tensor = value.const_value
        producer = value.producer()
        if tensor is None and producer is not None and producer.op_type == "Constant":
            tensor = _of_constant(producer)
        if tensor is None or tensor.size > LARGEST:
            return None
        return tensor.numpy()

    def input(self, node: ir.Node, name: str) -> ir.Value | None:
        """An input of a node by its name in the schema, "" for the first one; None where it is not given."""
        at = 0 if not name else _places(name_of(node), self.opset, True).get(name)
        return node.inputs[at] if at is not None and at < len(node.inputs) else None

    def output(self, node: ir.Node, name: str) -> ir.Value | None:
        """An output of a node by its name in the schema, where it is used or given a name."""
        at = _places(name_of(node), self.opset, False).get(name)
        if at is None or at >= len(node.outputs):
            return None
        value = node.outputs[at]
        return value if value.name and (value.uses() or value.is_graph_output()) else None

    def shape(self, value: ir.Value | None) -> Sizes | None:
        """A value's shape; None where not even the number of dimensions is known."""
        return sizes(value)


@functools.cache
def _places(operator: str, opset: int, of_inputs: bool) -> dict[str, int]:
    """The places of an operator's inputs or outputs by their names."""
    schema = opsets.native_schema(operator, opset)
    if schema is None:
        return {}
    return {each.name: at for at, each in enumerate(schema.inputs if of_inputs else schema.outputs)}


def _of_constant(node: ir.Node) -> Any:
    for name in ("value", "value_int", "value_ints", "value_float", "value_floats"):
        if (attribute := node.attributes.get(name)) is not None:
            return attribute.value if name == "value" else ir.tensor(np.asarray(attribute.value))
    return None


def bodies(node: ir.Node) -> Iterator[ir.Graph]:
    """The bodies of a node such as If."""
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.value
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.value


def name_of(node: ir.Node) -> str:
    """A node's operator as facts name it: "TopK", "com.microsoft::FusedConv"."""
    return node.op_type if node.domain in _ONNX else f"{node.domain}::{node.op_type}"
