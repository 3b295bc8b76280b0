"""What a user names in a model, and the values that a part of the model begins and ends with."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

import onnx

from opbridge.base.wording import listed
from opbridge.errors import UsageError
from opbridge.onnx.subgraphs import GraphIndex, bodies, described

__all__ = ["Places"]

_MOST_NAMED = 3


class Places:
    """Finds nodes and values of the main graph of a model by their names.

    Args:
        index: The model.
    """

    def __init__(self, index: GraphIndex) -> None:
        self._index = index
        self._nodes: dict[str, list[int]] = {}
        for at, node in enumerate(index.nodes):
            if node.name:
                self._nodes.setdefault(node.name, []).append(at)

    def node(self, name: str) -> int:
        """The position of a node, named by its name or by one of its outputs.

        Raises:
            UsageError: There is none, or several have that name.
        """
        found = self._nodes.get(name, [])
        if len(found) > 1:
            outputs = [self._index.nodes[at].output[0] for at in found if self._index.nodes[at].output]
            raise UsageError(
                f"{len(found)} nodes of {self._index.label} have the name '{name}'. Name the node by an output: "
                f"{listed(outputs, 5)}."
            )
        if found:
            return found[0]
        if name in self._index.makers:
            return self._index.makers[name]
        raise self._unknown(name, "node")

    def ends(self, names: Sequence[str]) -> list[str]:
        """The values that a part ends with: those of these names, and the outputs of nodes of these names.

        Raises:
            UsageError: There are none.
        """
        found: dict[str, None] = {}
        for name in names:
            if name in self._index.makers:
                found[name] = None
            elif name in self._nodes:
                found.update(dict.fromkeys(filter(None, self._index.nodes[self.node(name)].output)))
            elif self._index.is_given(name):
                raise UsageError(
                    f"'{name}' is {self._given(name)} of {self._index.label}, and no node gives it. End the part at "
                    "a value that a node gives."
                )
            else:
                raise self._unknown(name, "node or value")
        return list(found)

    def beginnings(self, names: Sequence[str]) -> tuple[list[str], set[int]]:
        """The values that a part begins with, and the nodes that it begins with, of which it reads the inputs.

        Raises:
            UsageError: There are none of these names.
        """
        values: dict[str, None] = {}
        nodes: set[int] = set()
        for name in names:
            if name in self._index.makers or self._index.is_given(name):
                values[name] = None
            elif name in self._nodes:
                nodes.add(self.node(name))
            else:
                raise self._unknown(name, "node or value")
        return list(values), nodes

    def _given(self, name: str) -> str:
        return "an initializer" if name in self._index.constants else "an input"

    def _unknown(self, name: str, what: str) -> UsageError:
        label = self._index.label
        for holder, inner in _inner(self._index.nodes):
            if name == inner.name or name in inner.output:
                return UsageError(
                    f"'{name}' is in a body of {described(holder)}, and a part has whole nodes of the main graph "
                    f"only. Extract that node: --node {holder.name or next(iter(holder.output), '')}."
                )
        for function in self._index.model.functions:
            if any(name == each.name or name in each.output for each in function.node):
                return UsageError(
                    f"'{name}' is in the function {function.domain}::{function.name} of {label}, and a part has whole "
                    "nodes of the main graph only. Extract a node that calls the function."
                )
        known = dict.fromkeys([*self._nodes, *self._index.makers, *self._index.inputs])
        near = difflib.get_close_matches(name, known, n=_MOST_NAMED, cutoff=0.5) if len(known) < 20_000 else []
        if not near:
            near = [each for each in known if name.lower() in each.lower()][:_MOST_NAMED]
        guess = f" The nearest names are: {', '.join(near)}." if near else ""
        return UsageError(f"{label} has no {what} '{name}'.{guess or ' Netron or onnx.load shows the names.'}")


def _inner(nodes: Sequence[onnx.NodeProto]) -> Iterator[tuple[onnx.NodeProto, onnx.NodeProto]]:
    """The nodes in bodies, each with the node of the main graph that holds it."""
    for holder in nodes:
        pending = list(bodies(holder))
        while pending:
            body = pending.pop()
            for node in body.node:
                yield holder, node
                pending.extend(bodies(node))
