"""A copy of a model, with what each node and value of the model is in it."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from opbridge.precision.types import Floats, bodies

__all__ = ["Copy"]


class Copy:
    """A copy of a model. Weights are shared, so that it takes little memory.

    Attributes:
        model: The copy.
        nodes: What each node of the model is in it.
        values: What each value is.
    """

    def __init__(self, model: ir.Model) -> None:
        self.model = model.clone()
        self.nodes: dict[ir.Node, ir.Node] = {}
        self.values: dict[ir.Value, ir.Value] = {}
        self._pair(model.graph, self.model.graph)

    def _pair(self, graph: ir.Graph, other: ir.Graph) -> None:
        self.values.update(zip(graph.inputs, other.inputs, strict=True))
        self.values.update((value, other.initializers[name]) for name, value in graph.initializers.items())
        for node, twin in zip(graph, other, strict=True):
            self.nodes[node] = twin
            self.values.update(zip(node.outputs, twin.outputs, strict=True))
            for body, its in zip(bodies(node), bodies(twin), strict=True):
                self._pair(body, its)

    def chosen(self, nodes: Collection[ir.Node]) -> set[ir.Node]:
        """What some nodes of the model are in the copy."""
        return {self.nodes[each] for each in nodes}

    def floats(self, floats: Floats) -> Floats:
        """The values of float32 in the copy."""
        return floats.of_copy(self.values)
