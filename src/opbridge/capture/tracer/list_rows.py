"""Rows: elements of a list that hold several values each. Tuples, lists, dicts and objects are such ones.

A list of rows that a loop has filled is a list for each place in them, or key, or attribute. A row that is read from it
is made anew of these. So a row must hold the same as long as its list is read: `NotedRows` says whether that is so.
"""

from __future__ import annotations

import dataclasses
import enum
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge.base.python_private.attributes import attributes, is_of_python
from opbridge.capture.tracer.symbolic_list import is_list

__all__ = ["MOST_DEEP", "NotedRows", "RowKind", "attributes_of_object", "is_constant", "parts_of"]

MOST_DEEP = 8
"""In how many rows a value of a row may be."""

_CONSTANTS = (str, bool, float, type(None), enum.Enum, torch.dtype, torch.device)
_NO_ROWS = ("torch", "opbridge", "sympy")
"""The packages of which an object is a value by itself, such as a symbolic size."""


@dataclass(frozen=True)
class RowKind:
    """What rows have in common of which a list may be a list for each place.

    Attributes:
        type: Their class.
        width: How many values a row holds.
        context: The keys of a dict, or the names of an object's attributes.
    """

    type: type
    width: int
    context: Any = None

    @property
    def is_modifiable(self) -> bool:
        """Whether what a row holds may change."""
        return not issubclass(self.type, tuple)

    def row(self, parts: Sequence[Any]) -> Any:
        """The row that holds these values."""
        if issubclass(self.type, tuple):
            return getattr(self.type, "_make", self.type)(parts)
        if self.type is list:
            return list(parts)
        if self.type in pytree.SUPPORTED_NODES:
            return pytree.SUPPORTED_NODES[self.type].unflatten_fn(parts, self.context)
        made = object.__new__(self.type)
        for name, value in zip(self.context, parts, strict=True):
            object.__setattr__(made, name, value)
        return made


def parts_of(value: Any) -> tuple[RowKind, list[Any]] | None:
    """The kind of a row, and the values that it holds; None for what is no row."""
    kind: Any = type(value)
    if is_list(value):
        parts = list(list.__iter__(value))
        return (RowKind(list, len(parts)), parts) if parts else None
    if kind is tuple or (isinstance(value, tuple) and _is_named(kind)):
        return (RowKind(kind, len(value)), list(value)) if value else None
    if kind in pytree.SUPPORTED_NODES:
        parts, context = pytree.SUPPORTED_NODES[kind].flatten_fn(value)
        return (RowKind(kind, len(parts), context), list(parts)) if parts else None
    held = attributes_of_object(value)
    return (RowKind(kind, len(held), tuple(held)), list(held.values())) if held else None


def is_constant(value: Any) -> bool:
    """Whether a value is of a kind that no operator computes from tensors."""
    return isinstance(value, _CONSTANTS)


def _is_named(kind: type) -> bool:
    """Whether a class of tuples names their elements: a named tuple, or what an operator with several results gives."""
    return hasattr(kind, "_make") or kind.__module__ == torch.return_types.__name__


def attributes_of_object(value: Any) -> dict[str, Any]:
    """What an object of a class of Python's holds, by its names, where that is all that it is; none of any other."""
    kind = type(value)
    if isinstance(value, (torch.nn.Module, enum.Enum, type)) or kind.__module__.partition(".")[0] in _NO_ROWS:
        return {}
    if not all(base is object or is_of_python(base) for base in kind.__mro__):
        return {}
    has_slots = any(vars(base).get("__slots__") for base in kind.__mro__)
    if has_slots and (hasattr(value, "__dict__") or not dataclasses.is_dataclass(value)):
        return {}
    return {name: held for name, held in attributes(value) if not name.startswith("__")}


class NotedRows:
    """The rows of the lists that loops have filled in one execution, each with what it held when it was noted."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[Any, list[Any]]] = {}

    def note(self, value: Any) -> None:
        """Notes what a row holds, unless that is noted; any other value is not looked at."""
        if id(value) not in self._rows and any(kind.is_modifiable for _, kind in _rows_in(value)):
            self._rows[id(value)] = value, _leaves(value)

    def note_again(self, value: Any) -> None:
        """Notes what a row holds now, in the place of what is noted of it, and of rows in it."""
        for row, _ in _rows_in(value):
            self._rows.pop(id(row), None)
        self.note(value)

    def is_unchanged(self, row: Any) -> bool:
        """Whether a row holds what it held when it was noted; True for one that was not."""
        found = self._rows.get(id(row))
        return found is None or _is_same(found[1], _leaves(row))

    def are_unchanged(self) -> bool:
        """Whether all rows hold what they held when they were noted."""
        return all(_is_same(held, _leaves(row)) for row, held in self._rows.values())


def _rows_in(value: Any, depth: int = 0) -> Iterator[tuple[Any, RowKind]]:
    """A row, and the rows that it holds, each with its kind."""
    found = parts_of(value) if depth < MOST_DEEP else None
    if found is not None:
        yield value, found[0]
        for part in found[1]:
            yield from _rows_in(part, depth + 1)


def _leaves(value: Any, depth: int = 0) -> list[Any]:
    """What a row holds, with what rows in it hold."""
    found = parts_of(value) if depth < MOST_DEEP else None
    if found is None:
        return [value]
    kind, parts = found
    return [kind, *(leaf for part in parts for leaf in _leaves(part, depth + 1))]


def _is_same(held: Sequence[Any], now: Sequence[Any]) -> bool:
    return len(held) == len(now) and all(map(_is_same_leaf, held, now))


def _is_same_leaf(one: Any, other: Any) -> bool:
    is_plain = type(one) is type(other) and (isinstance(one, (int, RowKind)) or is_constant(one))
    return operator.is_(one, other) or (is_plain and bool(one == other))
