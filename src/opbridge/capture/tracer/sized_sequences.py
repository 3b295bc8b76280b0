"""Python's sequences of a symbolic length: `range(n)` and `[value] * n`, which become tensors."""

from __future__ import annotations

import contextlib
import functools
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from opbridge.base.attributes import replacing
from opbridge.base.python_private.tracing import paused
from opbridge.base.torch_private import torch_proxies, torch_sizes
from opbridge.capture.tracer.arranging import ARRANGED, arranged
from opbridge.capture.tracer.extending_lists import is_added_in_place
from opbridge.capture.tracer.padded_parts import padded, padding_by
from opbridge.capture.tracer.symbolic_loops import (
    asks,
    gathered_list,
    gathered_numbers,
    iterations_of,
    note_part,
    number_at,
    once,
)

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

    def is_of_data(self) -> bool:
        """Whether data decide the length."""
        return torch_sizes.is_of_data(self.length)

    def __len__(self) -> int:
        if self._extends:  # a list asks for it in vain, as a hint
            self._extends = False
            raise TypeError
        return int(self.length)

    def __iter__(self) -> Iterator[Any]:
        iterations = iterations_of(self, sys._getframe(1)) if self.is_indexed else None
        self._extends = iterations is not None and iterations.extended is not None
        return iter(self.elements()) if iterations is None else iterations

    def __getitem__(self, index: Any) -> Any:
        if not self.is_indexed or type(index) is not int:
            return self.elements()[index]
        place = index if index >= 0 else self.length + index
        if place < 0 or not self.has(place):
            raise IndexError("list index out of range")
        return self.at(place)

    def __add__(self, other: Any) -> Any:
        return self.elements() + (other.elements() if isinstance(other, SizedSequence) else other)

    def __radd__(self, other: Any) -> Any:
        is_extended = is_added_in_place(sys._getframe(1))
        if is_extended and (self.is_of_data() or asks(self) or sys.getrefcount(other) > _HELD_ONCE):
            return NotImplemented  # the list itself is extended, which something else may hold too
        return Joined(other, self) if isinstance(other, list) else NotImplemented


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

    def elements(self) -> list[Any]:
        return self.values * int(self.times)


class Rows(SizedSequence):
    """The rows of a tensor."""

    is_indexed = True

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

    def elements(self) -> list[Any]:
        if asks(self):  # where no loop asks for the rows one by one, `unbind` gives a sequence again
            return [self.at(index) for index in range(int(self.length))]
        return list(self.rows.unbind(0))


class Listed(Rows):
    """`list(tensor)`."""


class Numbers(SizedSequence):
    """`tensor.tolist()`."""

    is_indexed = True

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

    def integers(self) -> torch.Tensor | None:
        return self.rows if self.rows.dim() == 1 and self.rows.dtype in _INTEGERS else None


class Parts(SizedSequence):
    """`tensor.split(lengths, dim)`, with lengths of which there is a symbolic number.

    Args:
        whole: The tensor.
        lengths: The lengths.
        dim: The dimension that it is cut along.
        ends: Where the parts end, one of a length of its own before each; None: one part begins where another ends.
    """

    is_indexed = True

    def __init__(self, whole: torch.Tensor, lengths: Numbers, dim: int, ends: torch.Tensor | None = None) -> None:
        self.whole, self.lengths, self.dim = whole, lengths, dim
        self._are_all = ends is None
        if ends is None:
            size = whole.shape[dim]
            ends, self._total = once("ends", (lengths.rows, size), lambda: _ends_of(lengths.rows, size))
        self._ends = ends

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
        if not self._are_all or dim % self.whole.dim() != self.dim:
            return None
        total = self._total.item()
        torch._check(total == self.whole.shape[self.dim])
        return torch.cat([self.whole.narrow(self.dim, 0, total)], self.dim)

    def padded(self, batch_first: bool, value: float, side: str) -> torch.Tensor | None:
        return None if self.dim else padded(self.whole, self.lengths.rows, self._ends, batch_first, value, side)

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
    """`reversed(sequence)`."""

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
    """`zip(...)` of sequences, and `enumerate(sequence)`, which counts from a number besides."""

    is_indexed = True

    def __init__(self, sequences: tuple[SizedSequence, ...], first: Any = None) -> None:
        self.sequences, self.first = sequences, first

    @property
    def length(self) -> Any:
        return functools.reduce(torch.sym_min, (each.length for each in self.sequences))

    def has(self, index: Any) -> Any:
        for each in self.sequences:
            each.has(index)  # which may refuse to be gone over
        return super().has(index)

    def at(self, index: Any) -> Any:
        found = tuple(each.at(index) for each in self.sequences)
        return found if self.first is None else (self.first + index, *found)

    def tensor(self, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
        return torch.as_tensor(self.elements(), dtype=dtype, device=device)

    def elements(self) -> list[Any]:
        found = list(zip(*(each.elements() for each in self.sequences), strict=False))
        return found if self.first is None else [(self.first + at, *each) for at, each in enumerate(found)]


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
            if type(other) is list and not tensor.dim() and tensor.dtype in _INTEGERS:
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
    if isinstance(sequences, SizedSequence):
        return sequences.padded(batch_first, value, side)
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
        elif args and isinstance(args[0], SizedSequence) and "out" not in settings:
            dim = (*args[1:], settings.get("dim", settings.get("axis", 0)))[0]
            found = _of_elements(name, args[0], dim)
            args = args if found is not None else (args[0].elements(), *args[1:])
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
            if isinstance(other, list):
                return Repeated(list(other), torch.sym_max(size, 0))
            return original(size, other)

        return multiplied

    kind: Any = torch.SymInt
    with replacing((kind, "__mul__", following(kind.__mul__)), (kind, "__rmul__", following(kind.__rmul__))):
        yield
