"""What an operator that writes to its arguments gives: its results, and the new values of these arguments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch.fx import Node

__all__ = ["Results", "result_at", "results_of", "writes"]


@dataclass(frozen=True)
class Results:
    """The results of an operator that writes to its arguments.

    These are what it returns, and then each argument that it writes to and does not return, in the order of its schema.
    A translation gives them in this order; where there is only one, it stands for itself.

    Attributes:
        values: What torch says of each result: a tensor without data, or a list of them; None for an argument that is
            not given.
        returned: How many the operator returns.
        paths: For each node that is written to, the indices by which its new value is found among the results, such as
            (1,), or (1, 0) in a list; () for the only result.
    """

    values: tuple[Any, ...]
    returned: int
    paths: dict[Node, tuple[int, ...]]

    @property
    def value(self) -> Any:
        """All of them as a node's `val` describes results: the only one by itself."""
        return self.values[0] if len(self.values) == 1 else list(self.values)


def results_of(node: Node) -> Results:
    """The results of a node whose operator writes to its arguments."""
    schema, described = node.target._schema, node.meta.get("val")
    count = len(schema.returns)
    values = [] if count == 0 else [described] if count == 1 else list(described)
    positions = {frozenset(each.alias_info.before_set): at for at, each in enumerate(schema.returns) if each.alias_info}
    places: list[tuple[int, Any]] = []
    for argument, given in writes(node):
        at = positions.get(frozenset(argument.alias_info.before_set))
        if at is None:
            at = len(values)
            values.append(_described(given))
        places.append((at, given))
    paths: dict[Node, tuple[int, ...]] = {}
    for at, given in places:
        place = () if len(values) == 1 else (at,)
        listed = enumerate(given) if isinstance(given, (list, tuple)) else ()
        paths |= {each: (*place, index) for index, each in listed if isinstance(each, Node)}
        if isinstance(given, Node):
            paths[given] = place
    return Results(tuple(values), count, paths)


def result_at(results: Any, path: tuple[int, ...]) -> Any:
    """One of the results of a node, as `Results.paths` says where it is."""
    for index in path:
        results = results[index]
    return results


def writes(node: Node) -> Iterator[tuple[Any, Any]]:
    """The arguments of a node's schema that it writes to, each with what is given for it."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.is_mutable or schema.name == "aten::detach_":  # which changes no value
        return
    for position, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield argument, node.args[position] if position < len(node.args) else node.kwargs.get(argument.name)


def _described(given: Any) -> Any:
    if isinstance(given, (list, tuple)):
        return [_described(each) for each in given]
    return given.meta.get("val") if isinstance(given, Node) else None
