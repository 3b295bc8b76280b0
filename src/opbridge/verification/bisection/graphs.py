"""The values of a file that can be compared with another side, as the search takes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import onnx

from opbridge.onnx.subgraphs import GraphIndex
from opbridge.verification.bisection.search import Values
from opbridge.verification.bisection.types import size_of

__all__ = ["comparable", "nodes_between"]

_MOST_PARENTS = 1024
"""A value that cannot be compared and depends on more than these is passed over: what it depends on is found anyway."""


def comparable(index: GraphIndex, names: Collection[str], types: Mapping[str, onnx.TypeProto]) -> Values:
    """The values of a file that can be compared.

    Args:
        index: The file.
        names: The names of the values that have a counterpart.
        types: The types of values, with their shapes.
    """
    chosen = set(names)
    near: dict[str, frozenset[str]] = {}
    order: list[str] = []
    parents: dict[str, tuple[str, ...]] = {}
    nothing: frozenset[str] = frozenset()
    for node, read in zip(index.nodes, index.reads, strict=True):
        known = [near[name] for name in read if name in near]
        around = known[0] if len(known) == 1 else nothing.union(*known)
        if len(around) > _MOST_PARENTS:
            around = frozenset(sorted(around)[:_MOST_PARENTS])
        for name in filter(None, node.output):
            if name in chosen:
                order.append(name)
                parents[name] = tuple(around)
                near[name] = frozenset((name,))
            else:
                near[name] = around
    return Values(order, parents, {name: size_of(types.get(name)) for name in order})


def nodes_between(index: GraphIndex, values: Collection[str], parents: Collection[str]) -> list[int]:
    """The positions of the nodes that compute values from others, in order."""
    return index.ancestors(list(values), parents)
