"""A capture that is made to be compared with another one ends at the first operator that differs."""

from __future__ import annotations

import torch
from torch.fx import Graph, Node

__all__ = ["GraphDiffers", "Repeating"]


class GraphDiffers(Exception):
    """The model calls another operator than in the capture that this one is compared with."""


class Repeating:
    """Compares the operators of a capture, while it is made, with those of another capture.

    Operators alone are compared, not their arguments: a capture that gets to its end has still to be compared.

    Args:
        expected: The graph of the other capture.
    """

    def __init__(self, expected: Graph) -> None:
        self._expected = [node.target for node in expected.nodes if _is_operator(node)]
        self._count = 0
        self._compares = True

    def note(self, graph: Graph, node: Node) -> None:
        """Compares a new node.

        Args:
            graph: The graph of the model; nodes of others, the bodies of operators, are left out.
            node: The new node.

        Raises:
            GraphDiffers: It is another operator.
        """
        if node.graph is not graph or not _is_operator(node) or not self._compares:
            return
        if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
            self._compares = False  # what is recorded under autocast may be taken back
            return
        position = self._count
        self._count += 1
        if position >= len(self._expected) or self._expected[position] is not node.target:
            raise GraphDiffers


def _is_operator(node: Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target is not torch.ops.aten.sym_size.int
