"""A small model that decides by data, the list of all, and the inputs that several of them take."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

__all__ = [
    "COUNTS",
    "DECIDING",
    "GROWING",
    "LEVELS",
    "MASKS",
    "ROWS",
    "SIGNS",
    "TURNS",
    "Deciding",
    "count",
    "deciding",
]

ROWS = 3


@dataclass(frozen=True)
class Deciding:
    """A model that decides by data.

    Attributes:
        model: The model, of one tensor.
        inputs: Inputs that take each of its ways.
        decisions: How many decisions the file has.
        dynamic: Whether the number of rows may vary.
        loops: How many loops the file has.
        rows: Whether a loop over the rows is unrolled where their number may not vary.
        no_rows: Whether it decides, beside these, whether there are rows, where their number may vary.
    """

    model: Any
    inputs: tuple[torch.Tensor, ...]
    decisions: int
    dynamic: bool = True
    loops: int = 0
    rows: bool = False
    no_rows: bool = False

    @property
    def name(self) -> str:
        return getattr(self.model, "__name__", type(self.model).__name__)


DECIDING: list[Deciding] = []

SIGNS = tuple(torch.tensor([[float(a), b, c, 0.25]] * ROWS) for a, b, c in itertools.product((-3, 0.5, 4), repeat=3))
GROWING = tuple(torch.full((ROWS, 4), start) for start in (0.01, 0.3, 1.0, 2.0, 7.0, 100.0))
LEVELS = tuple(torch.full((ROWS, 4), level) for level in (0.3, 1.2, 2.7, 3.4))
MASKS = (torch.ones(ROWS, 4), -torch.ones(ROWS, 4), torch.tensor([[1.0, -1, 2, -3]] * ROWS))

# As many turns as the first number of a row says: none, one, a few, and more than any capture has.
COUNTS = tuple(torch.tensor([[float(count), 0.5, -1, 0.25]] * ROWS) for count in (3, 0, 1, 2, 7, 20))
TURNS = tuple(torch.tensor([[float(count), 0.5, -1, 0.25]] * ROWS) for count in (3, 1, 2, 7, 20))


def count(x):
    """The number of turns that the first number of an input says."""
    return x[0, 0].long().item()


def deciding(
    decisions: int,
    inputs: tuple[torch.Tensor, ...] = SIGNS,
    *,
    dynamic: bool = True,
    loops: int = 0,
    rows: bool = False,
    no_rows: bool = False,
) -> Callable[[Any], Any]:
    def add(model: Any) -> Any:
        torch.manual_seed(0)
        made = model().eval() if isinstance(model, type) else model
        DECIDING.append(Deciding(made, inputs, decisions, dynamic, loops, rows, no_rows))
        return model

    return add
