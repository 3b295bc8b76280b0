"""Attributes that have other values for a time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

__all__ = ["replacing"]


@contextlib.contextmanager
def replacing(*replacements: tuple[Any, str, Any]) -> Iterator[None]:
    """Within this context, attributes have other values.

    Args:
        *replacements: For each, the object, the name of its attribute, and the value. It has the attribute already.
    """
    kept = [(owner, name, getattr(owner, name)) for owner, name, _ in replacements]
    for each in replacements:
        setattr(*each)
    try:
        yield
    finally:
        for each in kept:
            setattr(*each)
