"""Which rows of a parametrised test every run has, and which only some."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

__all__ = ["one_in", "slow_but_first"]


def one_in(count: int, rows: Iterable[Any]) -> list[Any]:
    """The rows, of which the first of each `count` in a row runs always and the others are marked thorough.

    Args:
        count: How many rows ask about the same code, by other models or sizes.
        rows: The values of the rows, or what `pytest.param` gives.
    """
    return [_marked(row, pytest.mark.thorough) if at % count else row for at, row in enumerate(_parameters(rows))]


def slow_but_first(rows: Iterable[Any]) -> list[Any]:
    """The rows, all but the first marked slow, of which `make test` runs half: for many that take a while together."""
    return [_marked(row, pytest.mark.slow) if at else row for at, row in enumerate(_parameters(rows))]


def _parameters(rows: Iterable[Any]) -> list[Any]:
    return [
        row if isinstance(row, type(pytest.param())) else pytest.param(*(row if isinstance(row, tuple) else (row,)))
        for row in rows
    ]


def _marked(row: Any, mark: pytest.MarkDecorator) -> Any:
    return row._replace(marks=(*row.marks, mark))
