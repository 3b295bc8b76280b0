"""The integers of a tensor that are known, row by row, and what parts of it hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch

__all__ = ["Number", "Table", "each_of", "part", "rows"]

Number: TypeAlias = torch.SymInt | int
Table: TypeAlias = tuple[Any, ...]
"""Numbers, or tables of one length each."""


def part(table: Table, dim: int, index: Any) -> Table | Number | None:
    """What `torch.select` gives; None for an index that is no plain number.

    Args:
        table: The table.
        dim: The dimension, counted from the first one.
        index: The index.
    """
    if type(index) is not int:
        return None
    return table[index] if dim == 0 else tuple(part(row, dim - 1, index) for row in table)


def rows(table: Table, bounds: Sequence[Any]) -> Table | None:
    """Some of the rows; None where a bound, or the step, is no plain number.

    Args:
        table: The table.
        bounds: The begin, the end and the step of a slice, as far as they are given.
    """
    if any(type(each) is not int and each is not None for each in bounds):
        return None
    padded = [*bounds, None, None, None]
    return table[padded[0] : padded[1] : padded[2]]


def each_of(table: Table, compute: Callable[[Any], Any]) -> Table | None:
    """A table of what is computed of each number; None where that is None for one."""
    found = tuple(each_of(each, compute) if isinstance(each, tuple) else compute(each) for each in table)
    return None if None in found else found
