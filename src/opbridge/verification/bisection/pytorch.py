"""One side of a comparison: a PyTorch model, whose values are those of its captured graph."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

from opbridge.capture.functionalize import FunctionalGraph
from opbridge.graph.values import as_tensor
from opbridge.verification.graph_run import GraphRun
from opbridge.verification.intermediate import keyed

__all__ = ["TorchSide"]


class TorchSide:
    """A captured graph on inputs.

    Attributes:
        label: Its name.
        nodes: The node that gives each value, by the names of `counterparts`.
        runs: How many times it has run.

    Args:
        functional: The captured graph in functional form.
        leaves: The leaves of the inputs.
        counterparts: By the name of a value of the file, the key of the captured graph's value: "relu" or "split:1".
        label: Its name.
    """

    def __init__(
        self, functional: FunctionalGraph, leaves: Sequence[Any], counterparts: Mapping[str, str], label: str
    ) -> None:
        self.functional, self.leaves, self.label = functional, leaves, label
        self.counterparts = dict(counterparts)
        by_name = {node.name: node for node in functional.graph.graph.nodes}
        self.nodes = {name: by_name[key.partition(":")[0]] for name, key in counterparts.items()}
        self.runs = 0

    def fetch(self, names: Sequence[str]) -> dict[str, torch.Tensor]:
        """Values by the names that they have in the file, in one run.

        Raises:
            Unusable: PyTorch raises.
        """
        wanted: dict[str, list[str]] = {}
        for name in names:
            if name in self.counterparts:
                wanted.setdefault(self.counterparts[name], []).append(name)
        if not wanted:
            return {}
        last = {self.nodes[name] for name in names if name in self.nodes}
        found: dict[str, torch.Tensor] = {}
        for key, value in self.walk(last):
            for name in wanted.get(key, ()):
                found[name] = value.clone()  # later operators may write to it
        return found

    def walk(self, until: Collection[Node] | None = None) -> Iterator[tuple[str, torch.Tensor]]:
        """All values that are tensors or numbers, with their keys, in one run. Those that nothing reads are dropped.

        Args:
            until: The nodes after which the run may end; None: all nodes run.

        Raises:
            Unusable: PyTorch raises.
        """
        self.runs += 1
        left = None if until is None else set(until)
        run = GraphRun(self.functional, self.leaves)
        readers = self._last_readers()
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            for node in self.functional.graph.graph.nodes:
                if left is not None and not left:
                    break
                if node.op == "get_attr":
                    run.read(node)
                elif node.op == "call_function":
                    result = run.compute(node)
                    for key, value in keyed(node.name, result):
                        tensor = _as_tensor(value)
                        if tensor is not None:
                            yield key, tensor
                    run.assign(node, result)
                if left is not None:
                    left.discard(node)
                for each in readers.get(node, ()):
                    run.values.pop(each, None)

    def _last_readers(self) -> dict[Node, list[Node]]:
        """For each node, the values that it is the last to read."""
        last: dict[Node, Node] = {}
        for node in self.functional.graph.graph.nodes:
            for each in node.all_input_nodes:
                last[each] = node
            for each in self.functional.rebinds.get(node, ()):
                last[each] = node
        found: dict[Node, list[Node]] = {}
        for each, node in last.items():
            found.setdefault(node, []).append(each)
        return found

    def alone(self, name: str, values: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor | None, list[Any]]:
        """What the operator of a value gives for values of the file, and the arguments that it was given.

        Args:
            name: The name of the value in the file.
            values: The file's values by name; what it lacks is PyTorch's own.

        Returns:
            None where PyTorch cannot compute it.
        """
        node = self.nodes[name]
        by_key = {self.counterparts[each]: value for each, value in values.items() if each in self.counterparts}
        run = GraphRun(self.functional, self.leaves)
        needed = set(node.all_input_nodes)
        self.runs += 1
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            for each in self.functional.graph.graph.nodes:
                if each is node:
                    break
                if each.op == "get_attr":
                    run.read(each)
                elif each.op == "call_function":
                    result = run.compute(each)
                    if each in needed:
                        result = _with_values(each.name, result, by_key)
                    run.assign(each, result)
            result = run.compute(node)
        given = [run.values[each] for each in node.all_input_nodes]
        for key, value in keyed(node.name, result):
            if key == self.counterparts[name]:
                return _as_tensor(value), given
        return None, given


def _with_values(name: str, result: Any, values: Mapping[str, torch.Tensor]) -> Any:
    """The result of a node with the file's values in the place of its own."""

    def replaced(key: str, value: Any) -> Any:
        other = values.get(key)
        if other is None or not isinstance(value, torch.Tensor):
            return value
        if value.is_complex() and not other.is_complex():
            other = torch.view_as_complex(other.contiguous())
        return other if other.shape == value.shape and other.dtype == value.dtype else value

    made = [replaced(key, value) for key, value in keyed(name, result)]
    return type(result)(made) if isinstance(result, (list, tuple)) else made[0]


def _as_tensor(value: Any) -> torch.Tensor | None:
    return as_tensor(value) if isinstance(value, (torch.Tensor, bool, int, float)) else None
