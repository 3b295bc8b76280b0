"""Two models with the same nodes in the same order, whose values then belong together by their places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import onnx

from opbridge.onnx import subgraphs
from opbridge.onnx.subgraphs import GraphIndex, bodies

__all__ = ["with_names_of"]

_ENOUGH = 0.5
"""The share of the nodes with the same operator from which on two models are one, with some nodes changed."""

_PREFIX = "translation/"


def with_names_of(model: onnx.ModelProto, other: onnx.ModelProto) -> onnx.ModelProto | None:
    """A model with the names that the values in the same places of another one have.

    Only nodes that the outputs depend on count, in the main graphs. Constants keep their names, unless the other model
    has a value of such a name. The nodes have the names of the other model's too.

    Args:
        model: The model.
        other: The other one, whose inputs of the same names are the same.

    Returns:
        None where the two have other nodes: another number of them in a graph, a body or a function, or other results.
    """
    pairs = _Pairs([{(each.domain, each.name): each for each in its.functions} for its in (model, other)])
    index, others = GraphIndex(model, "the model"), GraphIndex(other, "the other model")
    mine = [index.nodes[at] for at in index.ancestors(index.outputs)]
    theirs = [others.nodes[at] for at in others.ancestors(others.outputs)]
    if not pairs.add(mine, theirs) or pairs.alike < _ENOUGH * pairs.count:
        return None
    found = subgraphs.part(index, index.outputs)
    taken = {*pairs.names.values(), *index.inputs}
    new = {name: f"{_PREFIX}{name}" for name in _constants(found.graph) if name in taken}
    _rename(found.graph, {**pairs.names, **new})
    for node, its in zip(found.graph.node, theirs, strict=True):
        node.name = its.name
    return found


def _constants(graph: onnx.GraphProto) -> Iterator[str]:
    """The names of the initializers of a graph and of its bodies."""
    yield from (each.name for each in graph.initializer)
    yield from (each.values.name for each in graph.sparse_initializer)
    for node in graph.node:
        for body in bodies(node):
            yield from _constants(body)


def _rename(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Renames the values of a graph and of its bodies, in place."""
    for each in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
        each.name = names.get(each.name, each.name)
    for sparse in graph.sparse_initializer:
        sparse.values.name = names.get(sparse.values.name, sparse.values.name)
    for annotation in graph.quantization_annotation:
        annotation.tensor_name = names.get(annotation.tensor_name, annotation.tensor_name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for body in bodies(node):
            _rename(body, names)


class _Pairs:
    """The values of two models that are in the same places.

    Args:
        functions: The functions of each model, by domain and name.

    Attributes:
        names: By the name of a value of the first model, that of the second.
        count: The number of pairs of nodes.
        alike: How many of these have one operator.
    """

    def __init__(self, functions: Sequence[Mapping[tuple[str, str], onnx.FunctionProto]]) -> None:
        self.names: dict[str, str] = {}
        self.count = self.alike = 0
        self._functions = functions

    def add(self, mine: Sequence[onnx.NodeProto], theirs: Sequence[onnx.NodeProto]) -> bool:
        """Adds the results of nodes, and what is in their bodies. Returns whether the nodes are the same ones."""
        return len(mine) == len(theirs) and all(map(self._add, mine, theirs))

    def _add(self, node: onnx.NodeProto, other: onnx.NodeProto) -> bool:
        graphs, others = list(bodies(node)), list(bodies(other))
        if len(graphs) != len(others) or not self._named(node.output, other.output):
            return False
        self.count += 1
        self.alike += (node.domain, node.op_type) == (other.domain, other.op_type)
        functions = [
            known.get((each.domain, each.op_type)) for known, each in zip(self._functions, (node, other), strict=True)
        ]
        if any(functions) and not self._same_function(*functions):
            return False
        return all(
            self._named([each.name for each in graph.input], [each.name for each in body.input])
            and self.add(graph.node, body.node)
            for graph, body in zip(graphs, others, strict=True)
        )

    def _named(self, mine: Sequence[str], theirs: Sequence[str]) -> bool:
        if len(mine) != len(theirs):
            return False
        return all(self.names.setdefault(name, its) == its for name, its in zip(mine, theirs, strict=True) if name)

    def _same_function(self, function: onnx.FunctionProto | None, other: onnx.FunctionProto | None) -> bool:
        """Whether two functions have the same nodes, whose values have the same names already."""
        if function is None or other is None or list(function.input) != list(other.input):
            return False
        inner = _Pairs(self._functions)
        is_same = inner.add(function.node, other.node) and all(name == its for name, its in inner.names.items())
        self.count += inner.count
        self.alike += inner.alike
        return is_same
