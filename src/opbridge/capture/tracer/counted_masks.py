"""How many elements of a mask are true, for masks that are computed again.

    kept = [row[mask] for row, mask in zip(rows, masks)]
    places = [row[mask] for row, mask in zip(positions, masks)]

torch gives the number of true elements a symbol, and keeps it with the tensor that the mask is. `masks` are iterated
over twice here, and each part is another tensor the second time, whose symbol would be another one: what is computed of
both lists would not be seen to have the same size.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import torch
from torch.fx import Node

from opbridge.base.torch_private import torch_decisions

__all__ = ["CountedMasks"]


class CountedMasks:
    """The masks of one graph whose elements were counted.

    Two nodes hold the same if they are the same calls of operators of torch's, without random numbers, of the same
    arguments, and nothing was written to any tensor since the first of these calls.
    """

    def __init__(self) -> None:
        self._recorded: set[Node] = set()
        self._keys: dict[Node, Hashable] = {}
        self._numbers: dict[Hashable, int] = {}
        self._counts: dict[Hashable, Any] = {}

    def add(self, function: Any, node: Node) -> None:
        """Notes a new node, of which the arguments are known.

        Args:
            function: The operator.
            node: The node.
        """
        if _writes_values(function):
            for known in (self._recorded, self._keys, self._numbers, self._counts):
                known.clear()
        elif _is_told_by_arguments(function):
            self._recorded.add(node)

    def share(self, arguments: Any, fakes: Any) -> None:
        """Gives masks among the arguments of an operator the counts that are known of them.

        Args:
            arguments: The arguments, as the graph has them.
            fakes: The same ones, without values.
        """
        for node, fake in _masks(arguments, fakes):
            if torch_decisions.count_of(fake) is None:
                count = self._counts.get(self._key(node))
                if count is not None:
                    torch_decisions.give_count(fake, count)

    def note(self, arguments: Any, fakes: Any) -> None:
        """Notes the counts that the masks among the arguments of an operator have now.

        Args:
            arguments: The arguments, as the graph has them.
            fakes: The same ones, without values.
        """
        for node, fake in _masks(arguments, fakes):
            count = torch_decisions.count_of(fake)
            if count is not None:
                self._counts.setdefault(self._key(node), count)

    def _key(self, node: Node) -> Hashable:
        """What is the same for nodes that hold the same."""
        for each in self._without_key(node):
            form = (each.target, _form(each.args, self._keys), _form(each.kwargs, self._keys))
            self._keys[each] = self._numbers.setdefault(form, len(self._numbers))
        return self._keys.get(node, node)

    def _without_key(self, node: Node) -> list[Node]:
        """A node and what it is computed from, in their order, as far as they have no key yet."""
        found: dict[Node, None] = {}
        waiting = [node]
        while waiting:
            each = waiting.pop()
            if each in self._recorded and each not in self._keys and each not in found:
                found[each] = None
                waiting.extend(each.all_input_nodes)
        return sorted(found)


def _masks(arguments: Any, fakes: Any) -> Iterable[tuple[Node, torch.Tensor]]:
    if isinstance(fakes, torch.Tensor):
        if fakes.dtype == torch.bool and isinstance(arguments, Node):
            yield arguments, fakes
    elif isinstance(fakes, (list, tuple)):
        for argument, fake in zip(arguments, fakes, strict=True):
            yield from _masks(argument, fake)


def _writes_values(function: Any) -> bool:
    """Whether an operator writes to the elements of an argument; `detach_` does not, nor another shape in place."""
    schema = getattr(function, "_schema", None)
    return schema is not None and schema.is_mutable and torch.Tag.inplace_view not in function.tags


def _is_told_by_arguments(function: Any) -> bool:
    """Whether an operator gives the same for the same arguments, and does nothing else."""
    if function is operator.getitem:
        return True
    if getattr(function, "namespace", None) != "aten" or function._schema.is_mutable:
        return False
    return torch.Tag.nondeterministic_seeded not in function.tags


def _form(value: Any, keys: Mapping[Node, Hashable]) -> Hashable:
    if isinstance(value, Node):
        return keys.get(value, value)
    if isinstance(value, (list, tuple)):
        return tuple(_form(each, keys) for each in value)
    if isinstance(value, Mapping):
        return tuple((name, _form(each, keys)) for name, each in sorted(value.items()))
    if isinstance(value, (int, float, complex)):
        return type(value), repr(value)
    return value if isinstance(value, (str, torch.dtype, torch.device, type(None))) else ("object", id(value))
