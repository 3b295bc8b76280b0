"""Names in users' translations that no operator of PyTorch has: misspelt ones are told with the nearest name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from opbridge.base.torch_private import torch_operators
from opbridge.errors import UsageError
from opbridge.translations.registry import Registry, operator_called

__all__ = ["notes", "refuse"]

_PYTHONS = ("_operator", "builtins", "math", "torch", "higher_order", "python")
"""Namespaces of what a graph calls beside PyTorch's operators."""


def refuse(table: Mapping[Any, Any] | None) -> None:
    """Refuses a `custom_translation_table` with a name that no operator has.

    Raises:
        UsageError: There is one.
    """
    for operator, near in _unknown(map(operator_called, table or ())):
        raise UsageError(
            f"custom_translation_table has a translation for the unknown operator '{operator}'.{_guess(near)} Correct "
            "the name, or import or load the library that defines the operator first."
        )


def notes(registry: Registry) -> tuple[str, ...]:
    """A note for each registered translation whose operator is not known, but one with a similar name is."""
    users = [name for name, found in registry.entries.items() if any(each.origin == "user" for each in found)]
    return tuple(
        f"the translation registered for '{operator}' is not used, because PyTorch has no operator of that name."
        f"{_guess(near)}"
        for operator, near in _unknown(users)
        if near  # otherwise the library that defines it may not be loaded, which is no mistake
    )


def _unknown(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The names that no operator has, each with the nearest one; "" where none is near."""
    for name in names:
        namespace, _, rest = name.partition("::")
        if namespace in _PYTHONS or torch_operators.operator_object(name) is not None:
            continue
        if "." not in rest and torch_operators.has_operator(name):
            continue  # a symbolic function for all overloads
        known = torch_operators.all_operators([namespace])
        yield name, next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.8)), "")


def _guess(near: str) -> str:
    return f" Did you mean '{near}'?" if near else ""
