"""A captured graph, computed node by node in PyTorch, with values that may be replaced on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from opbridge.capture.functionalize import FunctionalGraph
from opbridge.graph.operators import operator_of
from opbridge.graph.running import is_control_flow, run_control_flow
from opbridge.graph.written_results import result_at, results_of
from opbridge.verification.intermediate import Unusable

__all__ = ["GraphRun"]


class GraphRun:
    """One computation of a graph.

    Attributes:
        values: The value of each node so far.
    """

    def __init__(self, functional: FunctionalGraph, leaves: Sequence[Any]) -> None:
        """Sets the values of the placeholders. Buffers are copied, as batch_norm writes to them.

        Args:
            functional: The captured graph in functional form.
            leaves: The leaves of `(args, kwargs)`.
        """
        self._functional = functional
        self._clones: dict[Node, torch.Tensor] = {}
        self.values: dict[Node, Any] = {}
        for node, weight in functional.graph.weights.items():
            tensor = weight.tensor.detach()
            self.values[node] = tensor if weight.kind == "parameter" else tensor.clone()
        for leaf, value in zip(functional.graph.inputs, leaves, strict=True):
            if leaf.node is not None:
                self.values[leaf.node] = value.detach() if isinstance(value, torch.Tensor) else value

    def compute(self, node: Node) -> Any:
        """The result of a node of the kind call_function, from the values of its arguments.

        Raises:
            Unusable: PyTorch raises.
        """
        clones: dict[Node, torch.Tensor] = {}
        # Nodes that depend on no input may write in place: their values are not shared with others.
        is_writing = node not in self._functional.constant and _is_writing(node)

        def argument_value(argument: Node) -> Any:
            value = self.values[argument]
            if is_writing and isinstance(value, torch.Tensor):
                value = clones.setdefault(argument, value.clone())
            return value

        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), argument_value)
        self._clones = clones
        try:
            return run_control_flow(node, args) if is_control_flow(node) else node.target(*args, **kwargs)
        except Exception as error:
            name = operator_of(node)
            raise Unusable(f"PyTorch could not compute {name} on the runtime's values: {error}") from error

    def assign(self, node: Node, value: Any) -> None:
        """Sets the value of a node that was just computed, and of what it writes to."""
        self.values[node] = value
        rebinds = self._functional.rebinds.get(node)
        if not rebinds:
            return
        results = results_of(node)
        targets = {path: target for target, path in results.paths.items()}
        for written, path in rebinds.items():
            if results.returned and (path[0] if path else 0) < results.returned:
                self.values[written] = result_at(value, path)
            else:
                self.values[written] = self._clones[targets[path]]

    def read(self, node: Node) -> None:
        """Sets the value of a node of the kind get_attr."""
        value: Any = self._functional.graph.module
        for name in str(node.target).split("."):
            value = getattr(value, name)
        self.values[node] = value


def _is_writing(node: Node) -> bool:
    return bool(getattr(getattr(node.target, "_schema", None), "is_mutable", False))
