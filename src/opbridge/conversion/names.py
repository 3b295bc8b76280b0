"""Names for what is built, which nothing in a model has."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import onnx_ir as ir

__all__ = ["Names"]


class Names:
    """Gives names that nothing in a model has, nor has been given before.

    Args:
        model: The model.
    """

    def __init__(self, model: ir.Model) -> None:
        self._taken = set(_names_in(model))
        self._counters: dict[str, Iterator[int]] = {}

    def __call__(self, base: str) -> str:
        counter = self._counters.setdefault(base, itertools.count(1))
        name = next(each for each in (f"{base}_{at}" for at in counter) if each not in self._taken)
        self._taken.add(name)
        return name


def _names_in(model: ir.Model) -> Iterator[str]:
    graphs: tuple[Any, ...] = (model.graph, *model.functions.values())
    for graph in graphs:
        yield from (each.name or "" for each in graph.inputs)
        if isinstance(graph, ir.Graph):
            yield from graph.initializers
        for node in graph.all_nodes():
            yield node.name or ""
            yield from (each.name or "" for each in node.outputs)
            for body in _bodies(node):
                yield from (each.name or "" for each in body.inputs)
                yield from body.initializers


def _bodies(node: ir.Node) -> Iterator[ir.Graph]:
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH and not attribute.is_ref():
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS and not attribute.is_ref():
            yield from attribute.as_graphs()
