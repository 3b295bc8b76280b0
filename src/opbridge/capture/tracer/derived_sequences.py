"""Sequences of a symbolic length that are made of others, by `reversed`, `zip` and `enumerate`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from opbridge.base.torch_private import torch_sizes
from opbridge.capture.tracer.list_rows import RowKind, parts_of
from opbridge.capture.tracer.sized_sequences import SizedSequence, Unmodified
from opbridge.capture.tracer.symbolic_loops import active_loops

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

    A list of rows of one kind is such a one too.

    Args:
        sequences: A sequence for each place in the rows.
        first: The number of the first row, which precedes what the sequences hold; None: rows have no number.
        kind: The kind of the rows; None: they are tuples.
    """

    is_indexed = True

    def __init__(self, sequences: tuple[SizedSequence, ...], first: Any = None, kind: RowKind | None = None) -> None:
        self.sequences, self.first = sequences, first
        self.kind = RowKind(tuple, len(sequences)) if kind is None else kind

    @property
    def has_modifiable_rows(self) -> bool:
        return self.kind.is_modifiable or any(each.has_modifiable_rows for each in self.sequences)

    def gone_over(self) -> list[Unmodified]:
        return [found for each in self.sequences for found in each.gone_over()]

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
        found = self.kind.row(elements)
        if self.has_modifiable_rows and (loops := active_loops()) is not None:
            loops.lists.rows.note(found)
        return found

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
            return same and piece.first is None and len(lengths) == width and piece.kind == self.kind
        return type(piece) is list and all(
            (parts := parts_of(each)) is not None and parts[0] == self.kind for each in piece
        )

    def tensor(self, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
        columns = [each.tensor(dtype, device) for each in self.sequences]
        return torch.stack(columns, 1)

    def elements(self) -> list[Any]:
        found = [self._row(each) for each in zip(*(each.elements() for each in self.sequences), strict=False)]
        return found if self.first is None else [(self.first + at, *each) for at, each in enumerate(found)]


def _column(piece: Zipped | list[Any], at: int) -> SizedSequence | list[Any]:
    """What the rows of a sequence or a plain list have at a place."""
    if isinstance(piece, Zipped):
        return piece.sequences[at]
    return [parts[1][at] for each in piece if (parts := parts_of(each)) is not None]
