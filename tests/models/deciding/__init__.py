"""Small models that decide by data, each with inputs that take every way, in a file for each topic."""

from __future__ import annotations

from models.deciding import branches, comprehensions, counted_loops, numbers, rows, while_loops
from models.deciding.model import DECIDING, Deciding

__all__ = [
    "DECIDING",
    "Deciding",
    "branches",
    "comprehensions",
    "counted_loops",
    "numbers",
    "rows",
    "while_loops",
]
