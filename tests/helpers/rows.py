"""Which rows of a parametrised test `make test` runs, and which are left to `--thorough`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

__all__ = ["one_in"]


def one_in(count: int, rows: Iterable[Any]) -> list[Any]:
    """The rows, of which the first of each `count` in a row runs always and the others are marked thorough.

    Args:
        count: How many rows ask about the same code, by other models or sizes.
        rows: The values of the rows, or what `pytest.param` gives.
    """
    found = [
        row if isinstance(row, type(pytest.param())) else pytest.param(*(row if isinstance(row, tuple) else (row,)))
        for row in rows
    ]
    return [
        row._replace(marks=(*row.marks, pytest.mark.thorough)) if at % count else row for at, row in enumerate(found)
    ]
