"""What an object holds: the values of its attributes, in its dictionary and in slots."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["attributes", "is_of_python"]

_HEAP_TYPE = 1 << 9
"""The flag of a class that a `class` statement makes: what its objects hold are attributes."""


def attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of an object, in its dictionary and in slots, with their names."""
    held = getattr(value, "__dict__", None)
    if isinstance(held, dict):
        yield from list(held.items())
    for kind in type(value).__mro__:
        names = vars(kind).get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            try:
                yield name, getattr(value, name)
            except AttributeError:  # it has no value
                continue


def is_of_python(kind: type) -> bool:
    """Whether a `class` statement has made a class."""
    return bool(kind.__flags__ & _HEAP_TYPE)
