"""Whether two captures of a model are the same graph."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from torch.fx import Node

from opbridge.capture.value_numbers import ValueNumbering
from opbridge.graph.captured_graph import CapturedGraph

__all__ = ["is_same_graph", "placeholders_of"]


def is_same_graph(one: CapturedGraph, other: CapturedGraph, numbering: ValueNumbering | None = None) -> bool:
    """Whether two captures of a model return the same values, and write the same to buffers and inputs.

    The same means by the same operators on the same inputs, weights and constants, with results of the same shapes and
    dtypes. How a size is computed, and what nothing reads, does not count.

    Args:
        one: A capture.
        other: Another one, of the same module.
        numbering: What counts as the same value: by default, one that is computed alike. With sizes of its own, it
            compares the captures for these sizes; see also `size_branches.same_where`.
    """
    numbering = numbering or ValueNumbering()
    if one.structure != other.structure or one.updated != other.updated:
        return False
    if [_fixed(leaf) for leaf in one.inputs] != [_fixed(leaf) for leaf in other.inputs]:
        return False
    return _results(one, numbering) == _results(other, numbering)


def _fixed(leaf: Any) -> tuple[Any, ...]:
    """An input or output by its name, and by its value where it is a constant."""
    value = leaf.value
    return leaf.name, type(value), repr(value) if isinstance(value, (int, float, complex)) else value


def _results(graph: CapturedGraph, numbering: ValueNumbering) -> list[Any]:
    """What a capture returns and what it writes, in order."""
    numbers = numbering.of(graph.module, placeholders_of(graph, numbering))
    written = numbering.writes_of(graph.module, numbers)
    outputs = [numbers[leaf.node] if leaf.node is not None else _fixed(leaf)[1:] for leaf in graph.outputs]
    return [outputs, written]


def placeholders_of(graph: CapturedGraph, numbering: ValueNumbering) -> dict[Node, Hashable]:
    """What tells the placeholders of a capture from others.

    Args:
        graph: The capture.
        numbering: The numbering that is to have them.
    """
    found: dict[Node, Hashable] = {}
    for number, leaf in enumerate(graph.inputs):
        if leaf.node is not None:
            found[leaf.node] = ("input", number)
    for node, weight in graph.weights.items():
        of_constant = weight.kind == "constant"
        found[node] = numbering.tensor(weight.tensor) if of_constant else ("weight", id(weight.tensor))
    return found
