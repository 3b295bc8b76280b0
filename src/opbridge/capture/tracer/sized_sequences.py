"""Python's sequences of a symbolic length: `range(n)` and `[value] * n`, which become tensors."""

from __future__ import annotations

import contextlib
import functools
import operator
import sys
import weakref
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from opbridge.base.attributes import replacing
from opbridge.base.python_private.tracing import paused
from opbridge.base.torch_private import torch_proxies, torch_sizes
from opbridge.base.torch_private.torch_decisions import NoSuchElement
from opbridge.capture.tracer.append_only_lists import elements_of
from opbridge.capture.tracer.arranging import ARRANGED, arranged
from opbridge.capture.tracer.extending_lists import is_added_in_place
from opbridge.capture.tracer.padded_parts import padded, padding_by
from opbridge.capture.tracer.symbolic_list import SymbolicList, is_list, sequence_of
from opbridge.capture.tracer.symbolic_loops import (
    asks,
    gathered_list,
    gathered_numbers,
    iterations_of,
    lacks_elements,
    note_part,
    number_at,
    once,
)
from opbridge.errors import CaptureError

__all__ = [
    "CUTTING",
    "Joined",
    "Listed",
    "Numbers",
    "Parts",
    "Range",
    "Repeated",
    "Reversed",
    "Rows",
    "SizedSequence",
    "Zipped",
    "cut",
    "iterating_tensors",
    "repeating_lists",
    "taking_sequences",
]


class SizedSequence(Sequence[Any]):
    """A sequence whose length is a symbolic size.

    It becomes a tensor where one is made of it, or where it is an index. Anything else needs its elements, and so fixes
    the size.
    """

    is_indexed = False
    """Whether an element is known by its index."""

    _counts_from_end = False
    """Whether the index of an element that is read from a tensor may be negative."""

    _extends = False
    """Whether a list is about to be extended by it."""

    @property
    @abstractmethod
    def length(self) -> Any:
        """The length, which may be symbolic."""

    @abstractmethod
    def tensor(self, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
        """The elements as a tensor of one or more dimensions."""

    @abstractmethod
    def elements(self) -> list[Any]:
        """The elements, of which there are as many as in the example."""

    def has(self, index: Any) -> Any:
        """Whether there is an element of this index, as a bool that may be symbolic."""
        return index < self.length

    def at(self, index: Any) -> Any:
        """The element of an index that is 0 or more, and may be symbolic."""
        return self.elements()[index]

    def joined(self, dim: int) -> torch.Tensor | None:
        """What `torch.cat` gives for the elements; None where that is not known without them."""
        return None

    def stacked(self, dim: int) -> torch.Tensor | None:
        """What `torch.stack` gives for the elements; None where that is not known without them."""
        return None

    def rank(self) -> int | None:
        """How many dimensions each element has, where all are tensors; None where that is not known."""
        return None

    def padded(self, batch_first: bool, value: float, side: str) -> torch.Tensor | None:
        """What `pad_sequence` gives for the elements; None where that is not known without them."""
        return None

    def integers(self) -> torch.Tensor | None:
        """The elements, as a tensor of one dimension; None where they are no integers."""
        return None

    def taken(self, places: torch.Tensor) -> SizedSequence | None:
        """The sequence of the elements at some places, which there are; None where that is not known without them."""
        return None

    def chained(self, pieces: Sequence[Any]) -> SizedSequence | None:
        """The sum of sequences and plain lists, of which this is one; None where that is not known without elements."""
        return None

    def with_inserted(self, index: int, value: Any) -> SizedSequence | None:
        """The sequence with a further element before one."""
        return self.chained([self[:index], [value], self[index:]])

    def with_element(self, index: Any, value: Any) -> SizedSequence | None:
        """The sequence with another element at an index."""
        if isinstance(index, slice):
            return None
        after = [] if type(index) is int and index == -1 else self[index + 1 :]
        return self.chained([self[:index], [value], after])

    def without(self, index: Any) -> SizedSequence | None:
        """The sequence without the element at an index."""
        if isinstance(index, slice):
            return None
        if type(index) is int and index in (0, -1):
            return self[1:] if index == 0 else self[:-1]
        return self.chained([self[:index], self[index + 1 :]])

    def iterated(self, held: Any, elements: Iterator[Any], frame: Any) -> Iterator[Any]:
        """What a `for` statement over a list goes over that has this form.

        Args:
            held: The list.
            elements: Its elements in this execution, for what else asks for an iterator.
            frame: The frame that asks.
        """
        iterations = iterations_of(Unmodified(held, self), frame) if self.is_indexed else None
        return elements if iterations is None else iterations

    def append(self, *values: Any) -> None:
        """What modifies a list.

        Raises:
            CaptureError: Always.
        """
        raise CaptureError(
            "A sequence whose length depends on the inputs is modified. Make a list of it by a comprehension, "
            "[each for each in values], which may be modified after it."
        )

    extend = insert = pop = remove = clear = sort = reverse = append

    def is_of_data(self) -> bool:
        """Whether data decide the length."""
        return torch_sizes.is_of_data(self.length)

    def __len__(self) -> int:
        if self._extends:  # a list asks for it in vain, as a hint
            self._extends = False
            raise TypeError
        return int(self.length)

    def __bool__(self) -> bool:
        return bool(self.length > 0)

    def __iter__(self) -> Iterator[Any]:
        iterations = iterations_of(self, sys._getframe(1)) if self.is_indexed else None
        self._extends = iterations is not None and iterations.extended is not None
        return iter(self.elements()) if iterations is None else iterations

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, torch.Tensor):
            index = index.item()
        if isinstance(index, slice):
            taken = self._slice(index) if self.is_indexed else None
            return self.elements()[index] if taken is None else taken
        if not self.is_indexed or type(index) not in (int, torch.SymInt):
            return self.elements()[index]
        if torch_sizes.is_of_data(index):  # where there is no such element, the file raises an error
            return self.at(index if self._counts_from_end else torch.sym_ite(index < 0, index + self.length, index))
        place = index if index >= 0 else self.length + index
        if place < 0 or not self.has(place):
            raise NoSuchElement("list index out of range")
        return self.at(place)

    def _slice(self, index: slice) -> SizedSequence | None:
        begin, count, step = _limits(index, self.length)
        return None if step is None else self.taken(torch.arange(count) * step + begin)

    def __add__(self, other: Any) -> Any:
        return self.elements() + (other.elements() if isinstance(other, SizedSequence) else other)

    def __radd__(self, other: Any) -> Any:
        is_extended = is_added_in_place(sys._getframe(1))
        if is_extended and (self.is_of_data() or asks(self) or sys.getrefcount(other) > _HELD_ONCE):
            return NotImplemented  # the list itself is extended, which something else may hold too
        return Joined(other, self) if isinstance(other, list) else NotImplemented


def _limits(index: slice, length: Any) -> tuple[Any, Any, int | None]:
    """The first place of a slice, how many elements it has, and the step; None where data decide the step."""
    step = 1 if index.step is None else index.step
    if type(step) is not int or not step:
        return 0, 0, None
    if step > 0:
        begin = _within(0 if index.start is None else index.start, length)
        end = _within(length if index.stop is None else index.stop, length)
        return begin, torch.sym_max((end - begin + step - 1) // step, 0), step
    begin = _within(length if index.start is None else _following(index.start), length) - 1
    end = -1 if index.stop is None else _within(_following(index.stop), length) - 1
    return begin, torch.sym_max((begin - end - step - 1) // -step, 0), step


def _following(index: Any) -> Any:
    """The place after one, where -1 is the last; the length stands for what comes after that."""
    return sys.maxsize if type(index) is int and index == -1 else index + 1


class _CountsHolders:
    """Counts what holds a list to which it is added in place."""

    def __radd__(self, other: Any) -> int:
        return sys.getrefcount(other)


def _held_once() -> int:
    held: Any = []
    held += _CountsHolders()
    return int(held)


_HELD_ONCE = _held_once()
"""What `sys.getrefcount` gives in `__radd__` for a list that one variable holds, which releases of Python differ in."""


class Range(SizedSequence):
    """`range(start, stop, step)`, of which the first two may be symbolic."""

    def __init__(self, start: Any, stop: Any, step: int) -> None:
        self.start, self.stop, self.step = start, stop, step

    is_indexed = True

    def has(self, index: Any) -> Any:
        element = self.at(index)
        return element < self.stop if self.step > 0 else element > self.stop

    def at(self, index: Any) -> Any:
        return self.start + index * self.step

    @property
    def length(self) -> Any:
        further = self.step - 1 if self.step > 0 else self.step + 1
        return torch.sym_max((self.stop - self.start + further) // self.step, 0)

    def tensor(self, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
        numbers = torch.arange(self.length, device=device)
        return (numbers * self.step + self.start).to(dtype or torch.int64)

    def elements(self) -> list[Any]:
        return list(range(int(self.start), int(self.stop), self.step))

    def __getitem__(self, index: Any) -> Any:
        length = self.length
        if isinstance(index, slice):
            step = 1 if index.step is None else index.step
            if type(step) is not int or step < 1:
                return self.elements()[index]
            begin = _within(0 if index.start is None else index.start, length)
            end = _within(length if index.stop is None else index.stop, length)
            return Range(self.start + begin * self.step, self.start + end * self.step, self.step * step)
        if not -length <= index < length:
            raise IndexError("range object index out of range")
        return self.start + (index if index >= 0 else length + index) * self.step


def _within(index: Any, length: Any) -> Any:
    """A limit of a slice, from 0 to the length."""
    if type(index) is int and index == sys.maxsize:
        return length
    if type(index) is int:
        return torch.sym_min(index, length) if index >= 0 else torch.sym_max(length + index, 0)
    return torch.sym_max(torch.sym_min(index, length), 0)


class Joined(SizedSequence):
    """`[...] + sequence`, a list before a sequence of a symbolic length."""

    def __init__(self, first: list[Any], rest: SizedSequence) -> None:
        self.first, self.rest = first, rest

    @property
    def length(self) -> Any:
        return len(self.first) + self.rest.length

    def tensor(self, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
        parts = torch._refs.tensor(self.first, dtype=dtype, device=device), self.rest.tensor(dtype, device)
        return torch.cat(parts)

    def elements(self) -> list[Any]:
        return self.first + self.rest.elements()

    def __getitem__(self, index: Any) -> Any:
        count = len(self.first)
        if type(index) is int:
            if index >= 0:
                return self.first[index] if index < count else self.rest[index - count]
            if self.rest.length >= -index:
                return self.rest[index]
        elif type(index.start) is int and index.start >= count and (index.stop is None or index.stop < 0):
            return self.rest[slice(index.start - count, index.stop, index.step)]
        return self.elements()[index]


class Repeated(SizedSequence):
    """`[value] * times`, with a symbolic number of times."""

    def __init__(self, values: list[Any], times: Any) -> None:
        self.values, self.times = values, times
        self.is_indexed = len(values) == 1

    def at(self, index: Any) -> Any:
        return self.values[0] if self.is_indexed else super().at(index)

    @property
    def length(self) -> Any:
        return self.times * len(self.values)

    def tensor(self, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
        once = torch._refs.tensor(self.values, dtype=dtype, device=device)
        return once.repeat(self.times, *(1 for _ in range(once.dim() - 1)))

    def rank(self) -> int | None:
        ranks = {each.dim() if isinstance(each, torch.Tensor) else None for each in self.values}
        return ranks.pop() if len(ranks) == 1 else None

    def joined(self, dim: int) -> torch.Tensor | None:
        rank = self.rank()
        if not rank:
            return None
        once = torch.cat(self.values, dim)
        return once.repeat([self.times if axis == dim % rank else 1 for axis in range(rank)])

    def stacked(self, dim: int) -> torch.Tensor | None:
        if self.rank() is None:
            return None
        once = torch.stack(self.values)
        return once.repeat([self.times, *(1 for _ in once.shape[1:])]).movedim(0, dim)

    def taken(self, places: torch.Tensor) -> SizedSequence | None:
        return Repeated(self.values, places.shape[0]) if self.is_indexed else None

    def elements(self) -> list[Any]:
        return self.values * int(self.times)


class Rows(SizedSequence):
    """The rows of a tensor."""

    is_indexed = _counts_from_end = True

    def __init__(self, rows: torch.Tensor) -> None:
        self.rows = rows

    @property
    def length(self) -> Any:
        return self.rows.shape[0]

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

    def tensor(self, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
        return self.rows.to(dtype=dtype, device=device)

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


class Listed(Rows):
    """`list(tensor)`."""


class Numbers(SizedSequence):
    """`tensor.tolist()`."""

    is_indexed = _counts_from_end = True

    def __init__(self, rows: torch.Tensor) -> None:
        self.rows = rows

    @property
    def length(self) -> Any:
        return self.rows.shape[0]

    def at(self, index: Any) -> Any:
        return number_at(self.rows, index) if self.rows.dim() == 1 else torch.select(self.rows, 0, index).tolist()

    def tensor(self, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
        return self.rows.to(dtype=dtype, device=device)

    def elements(self) -> list[Any]:
        return [each.tolist() for each in self.rows.unbind(0)]

    def taken(self, places: torch.Tensor) -> SizedSequence | None:
        return Numbers(self.rows[places])

    def chained(self, pieces: Sequence[Any]) -> SizedSequence | None:
        found = [_numbers_of(piece) for piece in pieces]
        return None if None in found or self.rows.dim() != 1 else Numbers(torch.cat(found))

    def integers(self) -> torch.Tensor | None:
        return self.rows if self.rows.dim() == 1 and self.rows.dtype in _INTEGERS else None


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
    """What `split` and `unbind` give, where that has a symbolic length, and loops over it ask for it.

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
        return rows if _is_asked(rows) else None
    dim = (*others[1:], settings.get("dim", 0))[0] % tensor.dim()
    given = (*others[:1], *settings.values())
    if function in _SPLITTING_AT:
        given = tuple(Numbers(each) if isinstance(each, torch.Tensor) and each.dim() else each for each in given)
    given = tuple(sequence if (sequence := sequence_of(each)) is not None else each for each in given)
    given = tuple(Numbers(numbers) if (numbers := gathered_numbers(each)) is not None else each for each in given)
    lengths = next((each for each in given if isinstance(each, Numbers)), None)
    if lengths is None and function in _SPLITTING:
        lengths = _of_size(tensor.shape[dim], (*others, settings.get(_SIZE, settings.get("split_size")))[0])
    if lengths is None or lengths.rows.dim() != 1 or not _is_asked(lengths):
        return None
    return Parts.at_places(tensor, lengths.rows, dim) if function in _SPLITTING_AT else Parts(tensor, lengths, dim)


def _of_size(whole: Any, size: Any) -> Numbers | None:
    """The lengths of the parts of a size, the last of which may be shorter; None where their number is known."""
    if type(size) is not int or size < 1 or not isinstance(whole, torch.SymInt):
        return None
    count = torch.sym_max((whole + size - 1) // size, 1)
    return Numbers((whole - torch.arange(count) * size).clamp(max=size))


_SIZE = "split_size_or_sections"
_UNBINDING = frozenset({torch.unbind, torch.Tensor.unbind})
_SPLITTING = frozenset({torch.split, torch.Tensor.split, torch.split_with_sizes, torch.Tensor.split_with_sizes})
_SPLITTING_AT = frozenset({torch.tensor_split, torch.Tensor.tensor_split})
CUTTING = _UNBINDING | _SPLITTING | _SPLITTING_AT
"""The functions that `cut` is for."""


def _is_asked(sequence: SizedSequence) -> bool:
    return isinstance(sequence.length, torch.SymInt) and asks(sequence)


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
        found = self.kind(each.at(index) for each in self.sequences)
        return found if self.first is None else (self.first + index, *found)

    def taken(self, places: torch.Tensor) -> SizedSequence | None:
        found = tuple(each.taken(places) for each in self.sequences)
        return None if None in found or self.first is not None else Zipped(found, kind=self.kind)  # type: ignore[arg-type]

    def tensor(self, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
        columns = [each.tensor(dtype, device) for each in self.sequences]
        return torch.stack(columns, 1)

    def elements(self) -> list[Any]:
        found = [self.kind(each) for each in zip(*(each.elements() for each in self.sequences), strict=False)]
        return found if self.first is None else [(self.first + at, *each) for at, each in enumerate(found)]


class Unmodified(SizedSequence):
    """A list that a loop has filled and another one goes over, as long as nothing modifies it.

    Args:
        held: The list.
        form: The sequence that it is.
    """

    is_indexed = True

    def __init__(self, held: list[Any] | tuple[Any, ...], form: SizedSequence) -> None:
        self.held, self.form = held, form
        _known[self] = elements_of(held)

    @property
    def length(self) -> Any:
        return self.form.length

    def has(self, index: Any) -> Any:
        now, known = elements_of(self.held), _known[self]
        if len(now) != len(known) or not all(map(operator.is_, now, known)):
            raise CaptureError(
                "A list that was filled in a loop is modified while another loop iterates over it. Iterate over a "
                "copy: list(values)."
            )
        return self.form.has(index)

    def at(self, index: Any) -> Any:
        return self.form.at(index)

    def tensor(self, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
        return self.form.tensor(dtype, device)

    def elements(self) -> list[Any]:
        return elements_of(self.held)


# Not an attribute: the elements of all iterations would tell paths apart that differ in the number of iterations alone.
_known: weakref.WeakKeyDictionary[Unmodified, list[Any]] = weakref.WeakKeyDictionary()


def chained_tensors(pieces: Sequence[Any]) -> SizedSequence | None:
    """The sum of sequences and plain lists of tensors.

    The elements are rows of one tensor where all have the same shape, and otherwise parts of one along the dimension in
    which they differ. None where they differ in more than one, or are no tensors.
    """
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


@contextlib.contextmanager
def iterating_tensors() -> Iterator[None]:
    """Within this context, a loop over the rows of a tensor, whose number is symbolic, asks before each iteration.

    So does one over its numbers. A list times a tensor is one of a symbolic length.
    """
    kind: Any = torch.Tensor
    original = kind.__iter__

    def iterated(tensor: torch.Tensor) -> Iterator[Any]:
        if tensor.dim() and isinstance(tensor.shape[0], torch.SymInt):
            iterations = iterations_of(Rows(tensor), sys._getframe(1))
            if iterations is not None:
                return iterations
        found: Iterator[Any] = original(tensor)
        return found

    fake: Any = torch_proxies.FakeTensor
    as_numbers = fake.tolist

    def listed(tensor: torch.Tensor) -> Any:
        found = Numbers(tensor) if tensor.dim() else None
        return as_numbers(tensor) if found is None or not _is_asked(found) else found

    def following(original: Callable[..., Any]) -> Callable[..., Any]:
        def multiplied(tensor: torch.Tensor, other: Any) -> Any:
            if (is_list(other) or type(other) is tuple) and not tensor.dim() and tensor.dtype in _INTEGERS:
                return Repeated(list(other), torch.sym_max(tensor.item(), 0))
            return original(tensor, other)

        return multiplied

    replaced = [(kind, "__iter__", iterated), (fake, "tolist", listed)]
    replaced += [(kind, name, following(getattr(kind, name))) for name in ("__mul__", "__rmul__")]
    with replacing(*replaced):
        yield


@contextlib.contextmanager
def taking_sequences() -> Iterator[None]:
    """Within this context, functions that take a list take a sequence of a symbolic length."""
    with replacing(*map(_taking_sequences, _OF_C)), padding_by(_pad):
        yield


def _pad(sequences: Any, batch_first: bool, value: float, side: str) -> torch.Tensor | None:
    """What `pad_sequence` gives where the number of sequences is symbolic; None elsewhere, or where that is unknown."""
    if (sequence := sequence_of(sequences)) is not None:
        return sequence.padded(batch_first, value, side)
    if type(sequences) not in (list, tuple) or not all(isinstance(each, torch.Tensor) for each in sequences):
        return None
    found = gathered_list(sequences)
    if found is None:
        return None
    whole, sizes, dim = found
    if sizes is not None:
        return padded(whole, sizes, sizes.cumsum(0), batch_first, value, side) if dim == 0 else None
    return None if whole.dim() < 2 else whole.clone() if batch_first else whole.transpose(0, 1).clone()


_INTEGERS = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})


_OF_C: tuple[tuple[Any, str], ...] = (
    (torch, "cat"),
    (torch, "concat"),
    (torch, "concatenate"),
    (torch, "stack"),
    *((torch, name) for name in ARRANGED),
    (torch, "split_with_sizes"),
    (torch, "tensor_split"),
    (torch.Tensor, "split_with_sizes"),
    (torch.Tensor, "tensor_split"),
)
"""Functions that take no sequence but a list and a tuple, and say so before any mode sees the call."""


def _taking_sequences(place: tuple[Any, str]) -> tuple[Any, str, Callable[..., Any]]:
    """One of these functions, which takes sequences of a symbolic length."""
    owner, name = place
    original = getattr(owner, name)

    @functools.wraps(original)
    def function(*args: Any, **settings: Any) -> Any:
        found = None
        if original in CUTTING:
            found = cut(original, *args, **settings)
        elif args and type(args[0]) is SymbolicList and lacks_elements(args[0]):
            args = ([], *args[1:])  # PyTorch raises an error, so that this is no path of the model
        elif args and "out" not in settings and (sequence := sequence_of(args[0])) is not None:
            dim = (*args[1:], settings.get("dim", settings.get("axis", 0)))[0]
            found = _of_elements(name, sequence, dim)
            args = args if found is not None else (sequence.elements(), *args[1:])
        return original(*args, **settings) if found is None else found

    return owner, name, function


def _of_elements(name: str, sequence: SizedSequence, dim: int) -> torch.Tensor | None:
    """What a function that joins tensors gives for the elements; None where that is not known without them."""
    if name == "stack":
        return sequence.stacked(dim)
    return arranged(name, sequence) if name in ARRANGED else sequence.joined(dim)


@contextlib.contextmanager
def repeating_lists() -> Iterator[None]:
    """Within this context, a list times a symbolic size is a list of a symbolic length."""

    def following(original: Callable[..., Any]) -> Any:
        def multiplied(size: torch.SymInt, other: Any) -> Any:
            if is_list(other) or type(other) is tuple:
                return Repeated(list(other), torch.sym_max(size, 0))
            return original(size, other)

        return multiplied

    kind: Any = torch.SymInt
    with replacing((kind, "__mul__", following(kind.__mul__)), (kind, "__rmul__", following(kind.__rmul__))):
        yield
