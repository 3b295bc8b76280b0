"""Sequences of a symbolic length that are made of others, by `reversed`, `zip` and `enumerate`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from opbridge.base.torch_private import torch_sizes
from opbridge.capture.tracer.sized_sequences import SizedSequence

__all__ = ["Reversed", "Zipped"]


class Reversed(SizedSequence):
    """`reversed(sequence)`, of which the elements are known by their indices alone."""

    is_indexed = True

    def __init__(self, of: SizedSequence) -> None:
        self.of = of

    @property
    def length(self) -> Any:
        return self.of.length

    def at(self, index: Any) -> Any:
        return self.of.at(self.of.length - 1 - index)

    def tensor(self, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
        return self.of.tensor(dtype, device).flip(0)

    def elements(self) -> list[Any]:
        return self.of.elements()[::-1]


class Zipped(SizedSequence):
    """`zip(...)` of sequences, and `enumerate(sequence)`, which counts from a number besides.

    A list of tuples, or of lists of one length, is such a one too.
    """

    is_indexed = True

    def __init__(self, sequences: tuple[SizedSequence, ...], first: Any = None, kind: type = tuple) -> None:
        self.sequences, self.first, self.kind = sequences, first, kind

    @property
    def length(self) -> Any:
        return functools.reduce(torch.sym_min, (each.length for each in self.sequences))

    def has(self, index: Any) -> Any:
        for each in self.sequences:
            each.has(index)  # which may refuse to be gone over
        return super().has(index)

    def at(self, index: Any) -> Any:
        found = self._row([each.at(index) for each in self.sequences])
        return found if self.first is None else (self.first + index, *found)

    def _row(self, elements: Sequence[Any]) -> Any:
        return getattr(self.kind, "_make", self.kind)(elements)

    def taken(self, places: torch.Tensor) -> SizedSequence | None:
        found = tuple(taken for each in self.sequences if (taken := each.taken(places)) is not None)
        return None if len(found) < len(self.sequences) or self.first is not None else Zipped(found, kind=self.kind)

    def chained(self, pieces: Sequence[Any]) -> SizedSequence | None:
        if not all(map(self._is_like, pieces)):
            return None
        found = []
        for at, column in enumerate(self.sequences):
            whole = column.chained([_column(piece, at) for piece in pieces])
            if whole is None:
                return None
            found.append(whole)
        return Zipped(tuple(found), kind=self.kind)

    def _is_like(self, piece: Any) -> bool:
        """Whether the elements of a sequence or a plain list are such tuples, of which each column has as many."""
        width = len(self.sequences)
        if isinstance(piece, Zipped):
            lengths = [each.length for each in piece.sequences]
            same = all(torch_sizes.is_equal(each, lengths[0]) for each in lengths)
            return same and piece.first is None and len(lengths) == width and piece.kind is self.kind
        return type(piece) is list and all(
            isinstance(each, tuple | list) and (type(each), len(each)) == (self.kind, width) for each in piece
        )

    def tensor(self, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
        columns = [each.tensor(dtype, device) for each in self.sequences]
        return torch.stack(columns, 1)

    def elements(self) -> list[Any]:
        found = [self._row(each) for each in zip(*(each.elements() for each in self.sequences), strict=False)]
        return found if self.first is None else [(self.first + at, *each) for at, each in enumerate(found)]


def _column(piece: Zipped | list[Any], at: int) -> SizedSequence | list[Any]:
    """What the elements of a sequence or a plain list of tuples have at a place."""
    return piece.sequences[at] if isinstance(piece, Zipped) else [each[at] for each in piece]
