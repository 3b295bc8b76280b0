"""A captured graph that is put together of the nodes of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

__all__ = ["GraphCopy"]


class GraphCopy:
    """A new graph, to which nodes of other graphs are copied.

    Attributes:
        graph: The new graph.
        stands_for: By a node of another graph, the node or the value that stands for it here.
    """

    def __init__(self) -> None:
        self.graph = Graph()
        self.stands_for: dict[Node, Any] = {}
        self._root = torch.nn.Module()

    def add(self, node: Node, name: str) -> Node:
        """Copies a node, with its metadata, and for a node of the kind get_attr with the value that it reads.

        Args:
            node: The node. What it reads has been copied, or stands for something.
            name: The name of the copy.
        """
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda argument: self.stands_for[argument])
        target: Any = node.target
        if node.op == "get_attr":
            value: Any = node.graph.owning_module
            for part in str(node.target).split("."):
                value = getattr(value, part)
            target = f"{name}_value"
            setattr(self._root, target, value)
        new = self.graph.create_node(node.op, target, args, kwargs, name, node.type)
        new.meta = dict(node.meta)
        self.stands_for[node] = new
        return new

    def put(self, body: GraphModule, given: Sequence[Any], naming: Callable[[str], str]) -> Any:
        """Copies the nodes of a subgraph.

        Args:
            body: The subgraph.
            given: What stands for its placeholders.
            naming: The name of each copy, by the name of the node.

        Returns:
            What the subgraph returns.
        """
        values = iter(given)
        for node in body.graph.nodes:
            if node.op == "placeholder":
                self.stands_for[node] = next(values)
            elif node.op == "output":
                return torch.fx.node.map_arg(node.args[0], lambda argument: self.stands_for[argument])
            else:
                self.add(node, naming(node.name))
        raise AssertionError("a graph without an output")

    def module(self) -> GraphModule:
        """The graph with the values that its nodes of the kind get_attr read."""
        return GraphModule(self._root, self.graph)
