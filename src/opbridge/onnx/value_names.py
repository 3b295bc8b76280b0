"""Names for values that are added to a model."""

from __future__ import annotations

import onnx_ir as ir

__all__ = ["ValueNames"]


class ValueNames:
    """The names of all values of a model, in subgraphs too, where a value hides an outer one of its name."""

    def __init__(self, model: ir.Model) -> None:
        graphs = [model.graph, *model.graph.subgraphs()]
        self._taken = {value.name for graph in graphs for value in (*graph.inputs, *graph.initializers.values())}
        self._taken |= {value.name for graph in graphs for node in graph for value in node.outputs}

    def unused(self, name: str) -> str:
        """A name that no value has: the name itself, or with a number. It is taken from here on."""
        count, found = 0, name
        while found in self._taken:
            count += 1
            found = f"{name}_{count}"
        self._taken.add(found)
        return found
