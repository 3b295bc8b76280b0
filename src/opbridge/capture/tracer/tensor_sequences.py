"""Sequences of a symbolic length whose elements are rows, parts or elements of one tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from opbridge.base.python_private.tracing import paused
from opbridge.base.torch_private import torch_sizes
from opbridge.capture.tracer.loop_filled_lists import gathered_numbers
from opbridge.capture.tracer.made_once import note_part, number_at, once
from opbridge.capture.tracer.padded_parts import padded
from opbridge.capture.tracer.sized_sequences import SizedSequence, is_asked, is_kept
from opbridge.capture.tracer.symbolic_list import sequence_of
from opbridge.capture.tracer.symbolic_loops import asks

__all__ = ["CUTTING", "INTEGERS", "Numbers", "Parts", "Rows", "chained_tensors", "cut"]

INTEGERS = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})


class _OfTensor(SizedSequence):
    """As many elements as a tensor has rows."""

    is_indexed = _counts_from_end = True

    def __init__(self, rows: torch.Tensor) -> None:
        self.rows = rows

    @property
    def length(self) -> Any:
        return self.rows.shape[0]

    def tensor(self, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
        return self.rows.to(dtype=dtype, device=device)


class Rows(_OfTensor):
    """The rows of a tensor."""

    def at(self, index: Any) -> Any:
        return torch.select(self.rows, 0, index)

    def rank(self) -> int | None:
        return self.rows.dim() - 1

    def joined(self, dim: int) -> torch.Tensor | None:
        if self.rows.dim() < 2:
            return None
        dim = dim % (self.rows.dim() - 1)
        return self.rows.movedim(0, dim).clone().flatten(dim, dim + 1)

    def stacked(self, dim: int) -> torch.Tensor | None:
        return self.rows.movedim(0, dim).clone()

    def padded(self, batch_first: bool, value: float, side: str) -> torch.Tensor | None:
        if self.rows.dim() < 2:
            return None
        return self.rows.clone() if batch_first else self.rows.transpose(0, 1).clone()

    def taken(self, places: torch.Tensor) -> SizedSequence | None:
        return Rows(self.rows[places])

    def chained(self, pieces: Sequence[Any]) -> SizedSequence | None:
        return chained_tensors(pieces)

    def elements(self) -> list[Any]:
        if asks(self):  # where no loop asks for the rows one by one, `unbind` gives a sequence again
            return [self.at(index) for index in range(int(self.length))]
        return list(self.rows.unbind(0))


class Numbers(_OfTensor):
    """`tensor.tolist()`."""

    def at(self, index: Any) -> Any:
        return number_at(self.rows, index) if self.rows.dim() == 1 else torch.select(self.rows, 0, index).tolist()

    def elements(self) -> list[Any]:
        return [each.tolist() for each in self.rows.unbind(0)]

    def taken(self, places: torch.Tensor) -> SizedSequence | None:
        return Numbers(self.rows[places])

    def chained(self, pieces: Sequence[Any]) -> SizedSequence | None:
        found = [_numbers_of(piece) for piece in pieces]
        return None if None in found or self.rows.dim() != 1 else Numbers(torch.cat(found))

    def integers(self) -> torch.Tensor | None:
        return self.rows if self.rows.dim() == 1 and self.rows.dtype in INTEGERS else None


def _numbers_of(piece: Any) -> torch.Tensor | None:
    """A sequence or a plain list of integers as a tensor; None where it is none."""
    if isinstance(piece, SizedSequence):
        return piece.integers()
    if all(type(each) in (int, torch.SymInt) for each in piece):
        return torch._refs.tensor(piece, dtype=torch.int64)
    return None


class Parts(SizedSequence):
    """`tensor.split(lengths, dim)`, with lengths of which there is a symbolic number.

    Args:
        whole: The tensor.
        lengths: The lengths.
        dim: The dimension that it is cut along.
        ends: Where the parts end, one of a length of its own before each; None: one part begins where another ends.
    """

    is_indexed = _counts_from_end = True
    _joined: torch.Tensor | None = None
    """The tensor, where the parts are all of it."""

    def __init__(self, whole: torch.Tensor, lengths: Numbers, dim: int, ends: torch.Tensor | None = None) -> None:
        self.whole, self.lengths, self.dim = whole, lengths, dim
        self._are_all = ends is None
        if ends is None:
            size = whole.shape[dim]
            ends, self._total = once("ends", (lengths.rows, size), lambda: _ends_of(lengths.rows, size))
        self._ends = ends

    @classmethod
    def of_list(cls, whole: torch.Tensor, sizes: torch.Tensor, dim: int) -> Parts:
        """Tensors that are all of another one, along a dimension, with their sizes in it."""
        found = cls(whole, Numbers(sizes), dim, sizes.cumsum(0))
        found._joined = whole
        return found

    @classmethod
    def at_places(cls, whole: torch.Tensor, places: torch.Tensor, dim: int) -> Parts:
        """`tensor.tensor_split(places, dim)`: the parts between places, which may count from the end."""
        size = whole.shape[dim]
        within = torch.where(places < 0, places + size, places).clamp(min=0).clamp(max=size)
        begins = torch.nn.functional.pad(within, (1, 0))
        ends = torch.maximum(torch.cat([within, within.new_full((1,), size)]), begins)
        return cls(whole, Numbers(ends - begins), dim, ends)

    @property
    def length(self) -> Any:
        return self.lengths.length

    def at(self, index: Any) -> Any:
        size, whole = self.lengths.at(index), self.whole.shape[self.dim]
        begin = once("begin", (self._ends, index, size, whole), lambda: self._begin_of(index, size, whole))
        if self._are_all:
            note_part(size, whole)
        return self.whole.narrow(self.dim, begin, size)

    def _begin_of(self, index: Any, size: Any, whole: Any) -> Any:
        begin = number_at(self._ends, index) - size
        with paused():
            for condition in (size >= 0, begin >= 0, begin + size <= whole):
                torch._check(condition)
        return begin

    def rank(self) -> int | None:
        return self.whole.dim()

    def joined(self, dim: int) -> torch.Tensor | None:
        if dim % self.whole.dim() != self.dim:
            return None
        if self._joined is not None:
            return self._joined.clone()
        if not self._are_all:
            return None
        total = self._total.item()
        torch._check(total == self.whole.shape[self.dim])
        return torch.cat([self.whole.narrow(self.dim, 0, total)], self.dim)

    def stacked(self, dim: int) -> torch.Tensor | None:
        whole = self.joined(self.dim)
        if whole is None:
            return None
        # Parts that are stacked have one size, else there is an error: it is the largest, which fits all of them.
        count, longest = self.lengths.length, self.lengths.rows.max().item()
        torch._check(longest >= 0)
        torch._check(count * longest == whole.shape[self.dim])
        first = whole.movedim(self.dim, 0)
        rows = first.reshape(count, longest, *first.shape[1:])
        return rows.movedim(1, self.dim + 1).movedim(0, dim)

    def padded(self, batch_first: bool, value: float, side: str) -> torch.Tensor | None:
        return None if self.dim else padded(self.whole, self.lengths.rows, self._ends, batch_first, value, side)

    def taken(self, places: torch.Tensor) -> SizedSequence | None:
        sizes = self.lengths.rows[places]
        begins = (self._ends - self.lengths.rows)[places] - (sizes.cumsum(0) - sizes)
        total = sizes.sum().item()
        torch._check(total >= 0)
        places = torch.arange(total) + begins.repeat_interleave(sizes, output_size=total)
        return Parts.of_list(self.whole.index_select(self.dim, places), sizes, self.dim)

    def chained(self, pieces: Sequence[Any]) -> SizedSequence | None:
        return chained_tensors(pieces)

    def tensor(self, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
        return torch.as_tensor(self.elements(), dtype=dtype, device=device)

    def elements(self) -> list[Any]:
        if not self._are_all:
            return [self.at(index) for index in range(int(self.length))]
        return list(self.whole.split(self.lengths.elements(), self.dim))


def _ends_of(lengths: torch.Tensor, size: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Where parts end that are all of a size, and the sum of their lengths.

    Where the lengths do not add up, this asks for an element that there is not: an error, as in torch.
    """
    is_wrong = (lengths < 0).any() | (lengths.sum() != size)
    nothing = lengths.new_zeros(1).index_select(0, is_wrong.long().reshape(1))
    return lengths.cumsum(0) + nothing, lengths.sum() + nothing[0]


def cut(function: Callable[..., Any], *args: Any, **settings: Any) -> SizedSequence | None:
    """What `split` and `unbind` give, where that has a symbolic length which it keeps.

    Args:
        function: The function of torch's.
        args: Its arguments.
        settings: Its keyword arguments.

    Returns:
        None where it gives something else.
    """
    if not args or not isinstance(args[0], torch.Tensor) or not args[0].dim():
        return None
    tensor, *others = args
    if function in _UNBINDING:
        dim = (*others, settings.get("dim", 0))[0]
        rows = Rows(tensor if dim == 0 else tensor.movedim(dim, 0))
        return rows if is_asked(rows) else None
    dim = (*others[1:], settings.get("dim", 0))[0] % tensor.dim()
    given = (*others[:1], *settings.values())
    if function in _SPLITTING_AT:
        given = tuple(Numbers(each) if isinstance(each, torch.Tensor) and each.dim() else each for each in given)
    given = tuple(_as_numbers(each) for each in given)
    lengths = next((each for each in given if isinstance(each, Numbers)), None)
    is_taken = is_kept
    if lengths is None and function in _SPLITTING:  # where no loop asks, there are as many parts as in the example
        lengths = _of_size(tensor.shape[dim], (*others, settings.get(_SIZE, settings.get("split_size")))[0])
        is_taken = is_asked
    if lengths is None or lengths.rows.dim() != 1 or not is_taken(lengths):
        return None
    return Parts.at_places(tensor, lengths.rows, dim) if function in _SPLITTING_AT else Parts(tensor, lengths, dim)


def _as_numbers(value: Any) -> Any:
    """A symbolic number of integers, or of integer tensors without dimensions; any other value as it is."""
    sequence = sequence_of(value)
    if sequence is None:
        numbers = gathered_numbers(value)
        return value if numbers is None else Numbers(numbers)
    is_of_integers = isinstance(sequence, Rows) and sequence.rows.dim() == 1 and sequence.rows.dtype in INTEGERS
    return Numbers(sequence.rows) if is_of_integers else sequence


def _of_size(whole: Any, size: Any) -> Numbers | None:
    """The lengths of the parts of a size, the last of which may be shorter; None where their number is known."""
    if not isinstance(whole, torch.SymInt) or type(size) not in (int, torch.SymInt) or not size > 0:
        return None
    count = torch.sym_max((whole + size - 1) // size, 1)
    return Numbers((whole - torch.arange(count) * size).clamp(max=size))


_SIZE = "split_size_or_sections"
_UNBINDING = frozenset({torch.unbind, torch.Tensor.unbind})
_SPLITTING = frozenset({torch.split, torch.Tensor.split, torch.split_with_sizes, torch.Tensor.split_with_sizes})
_SPLITTING_AT = frozenset({torch.tensor_split, torch.Tensor.tensor_split})
CUTTING = _UNBINDING | _SPLITTING | _SPLITTING_AT
"""The functions that `cut` is for."""


def chained_tensors(pieces: Sequence[Any]) -> SizedSequence | None:
    """The sum of sequences and plain lists of tensors.

    The elements are rows of one tensor where all have the same shape, and otherwise parts of one along the dimension in
    which they differ. None where they differ in more than one, or are no tensors.
    """
    pieces = [_with_rows(piece) for piece in pieces]
    shapes = [shape for piece in pieces if (shape := _shape_of(piece)) is not None]
    if not shapes or len({len(shape) for shape in shapes}) > 1 or any(map(_holds_others, pieces)):
        return None
    differing = {
        dim
        for shape in shapes
        for dim, size in enumerate(shape)
        if size is None or shapes[0][dim] is None or not torch_sizes.is_equal(size, shapes[0][dim])
    }
    if len(differing) > 1:
        return None
    if not differing:
        return Rows(torch.cat([_rows_of(piece) for piece in pieces if not _is_empty(piece)]))
    (dim,) = differing
    found = [_parts_of(piece, dim) for piece in pieces if not _is_empty(piece)]
    if None in found:
        return None
    wholes, sizes = zip(*found, strict=True)
    return Parts.of_list(torch.cat(wholes, dim), torch.cat(sizes), dim)


def _with_rows(piece: Any) -> Any:
    """A sequence of tensors of one shape as the rows of one; any other value as it is."""
    if isinstance(piece, Rows | Parts) or not isinstance(piece, SizedSequence):
        return piece
    rows = None if piece.rank() is None else piece.stacked(0)
    return piece if rows is None else Rows(rows)


def _is_empty(piece: Any) -> bool:
    return isinstance(piece, list) and not piece


def _holds_others(piece: Any) -> bool:
    if isinstance(piece, list):
        return not all(isinstance(each, torch.Tensor) for each in piece)
    return not isinstance(piece, Rows | Parts)


def _shape_of(piece: Any) -> list[Any] | None:
    """The shape of each element, None for a size in which they differ; None where there is none."""
    if isinstance(piece, Rows):
        return list(piece.rows.shape[1:])
    if isinstance(piece, Parts):
        return [None if dim == piece.dim else size for dim, size in enumerate(piece.whole.shape)]
    if not isinstance(piece, list) or not piece or not all(isinstance(each, torch.Tensor) for each in piece):
        return None
    if len({each.dim() for each in piece}) > 1:
        return None
    sizes = zip(*(each.shape for each in piece), strict=True)
    return [size[0] if all(torch_sizes.is_equal(each, size[0]) for each in size) else None for size in sizes]


def _rows_of(piece: Any) -> torch.Tensor:
    return torch.stack(piece) if isinstance(piece, list) else piece.rows


def _parts_of(piece: Any, dim: int) -> tuple[torch.Tensor, torch.Tensor] | None:
    """The elements joined along a dimension, and their sizes in it."""
    if isinstance(piece, list):
        sizes = torch._refs.tensor([each.shape[dim] for each in piece], dtype=torch.int64)
        return torch.cat(piece, dim), sizes
    if isinstance(piece, Rows):
        size = piece.rows.shape[dim + 1]
        whole = piece.joined(dim)
        return None if whole is None else (whole, torch.full((piece.length,), size, dtype=torch.int64))
    whole = piece.joined(dim)
    return None if whole is None else (whole, piece.lengths.rows)
