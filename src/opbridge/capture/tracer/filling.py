"""The loops that fill what comprehensions of a model make: a list, a set or a dict that a variable holds.

While a model is captured, `[f(x) for x in values]` in one of its functions calls `filled_list(f(x) for x in values)`;
see `comprehensions`. The frames of these functions count as the model's, so that a decision in an element shows what
the variable holds, as it does in a `for` statement that appends to a list. No function here does anything else, and
none handles an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["filled_dict", "filled_list", "filled_set"]


def filled_list(elements: Iterable[Any]) -> list[Any]:
    """A list of elements."""
    found = []
    for each in elements:
        found.append(each)
    return found


def filled_set(elements: Iterable[Any]) -> set[Any]:
    """A set of elements."""
    found = set()
    for each in elements:
        found.add(each)
    return found


def filled_dict(items: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """A dict of keys with their values."""
    found = {}
    for key, value in items:
        found[key] = value
    return found
