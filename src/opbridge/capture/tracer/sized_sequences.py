"""Python's sequences of a symbolic length, such as `range(n)`, which become tensors."""

from __future__ import annotations

import contextlib
import contextvars
import operator
import sys
import weakref
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from opbridge.base.torch_private import torch_sizes
from opbridge.base.torch_private.torch_decisions import NoSuchElement
from opbridge.capture.tracer.append_only_lists import elements_of
from opbridge.capture.tracer.list_instructions import is_added_in_place, is_index
from opbridge.capture.tracer.modifiable_sequences import ModifiableSequence
from opbridge.capture.tracer.symbolic_list import chained, is_list
from opbridge.capture.tracer.symbolic_loops import asks, extending, iterations_of
from opbridge.errors import CaptureError

__all__ = [
    "AskedRange",
    "Joined",
    "Range",
    "SizedSequence",
    "Unmodified",
    "is_asked",
    "is_kept",
    "keeping_lengths",
]


class SizedSequence(ModifiableSequence):
    """A sequence whose length is a symbolic size.

    It becomes a tensor where one is made of it, or where it is an index. Anything else needs its elements, and so fixes
    the size.
    """

    is_indexed = False
    """Whether an element is known by its index."""

    _counts_from_end = False
    """Whether the index of an element that is read from a tensor may be negative."""

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

    @property
    def has_modifiable_rows(self) -> bool:
        """Whether its elements hold several values each, which may be changed."""
        return False

    def gone_over(self) -> list[Unmodified]:
        """The lists of such elements that a loop over it goes over."""
        return []

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

    def pieces(self) -> list[Any]:
        """The sequences and plain lists that it is the sum of."""
        return [self]

    def chained(self, pieces: Sequence[Any]) -> SizedSequence | None:
        return None

    def iterated(self, held: Any, elements: Iterator[Any], frame: Any) -> Iterator[Any]:
        """What a `for` statement over a list goes over that has this form.

        Args:
            held: The list.
            elements: Its elements in this execution, for what else asks for an iterator.
            frame: The frame that asks.
        """
        iterations = iterations_of(Unmodified(held, self), frame) if self.is_indexed else None
        return elements if iterations is None else iterations

    def extending(self, held: list[Any], frame: Any) -> Iterator[Any]:
        """The elements by which a list is extended.

        Args:
            held: The list.
            frame: The frame of the model that extends it.
        """
        iterations = extending(self, frame, held) if self.is_indexed else None
        return iter(self.elements()) if iterations is None else iterations

    def is_of_data(self) -> bool:
        """Whether data decide the length."""
        return torch_sizes.is_of_data(self.length)

    def __len__(self) -> int:
        if is_index(sys._getframe(1)):
            raise TypeError("a list of a symbolic length is one index")
        return int(self.length)

    def __bool__(self) -> bool:
        return bool(self.length > 0)

    def __iter__(self) -> Iterator[Any]:
        iterations = iterations_of(self, sys._getframe(1)) if self.is_indexed else None
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
        if asks(self) and (is_list(other) or isinstance(other, SizedSequence)):
            return chained(self, other)
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
    """`range(start, stop, step)`, of which all may be symbolic.

    Args:
        start: The first number.
        stop: The limit.
        step: The difference of two numbers; where it is symbolic, it is positive.
    """

    def __init__(self, start: Any, stop: Any, step: Any) -> None:
        self.start, self.stop, self.step = start, stop, step
        self._is_rising = type(step) is not int or step > 0

    is_indexed = True

    def has(self, index: Any) -> Any:
        element = self.at(index)
        return element < self.stop if self._is_rising else element > self.stop

    def at(self, index: Any) -> Any:
        return self.start + index * self.step

    @property
    def length(self) -> Any:
        further = self.step - 1 if self._is_rising else self.step + 1
        length = (self.stop - self.start + further) // self.step
        return length if torch_sizes.is_at_most(0, length) else torch.sym_max(length, 0)

    def tensor(self, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
        numbers = torch.arange(self.length, device=device)
        return (numbers * self.step + self.start).to(dtype or torch.int64)

    def integers(self) -> torch.Tensor | None:
        return self.tensor()

    def elements(self) -> list[Any]:
        """The numbers, of which there are as many as in the example: nothing more is asked of the limits."""
        return [self.at(index) for index in range(int(self.length))]

    def __getitem__(self, index: Any) -> Any:
        length = self.length
        if isinstance(index, slice):
            return self._part(index, length)
        if not -length <= index < length:
            raise IndexError("range object index out of range")
        return self.start + (index if index >= 0 else length + index) * self.step

    def _part(self, index: slice, length: Any) -> Any:
        """The range of the numbers of a slice; a plain list where data decide the step or what it counts down from."""
        step = 1 if index.step is None else index.step
        if type(step) is not int or not step or (step < 0 and type(self.step) is not int):
            return self.elements()[index]
        if step > 0:
            begin = _within(0 if index.start is None else index.start, length)
            end = _within(length if index.stop is None else index.stop, length)
            return Range(self.start + begin * self.step, self.start + end * self.step, self.step * step)
        begin, count, _ = _limits(index, length)
        first = self.start + begin * self.step
        return Range(first, first + count * step * self.step, self.step * step)


class AskedRange(Range):
    """A range of a known length, whose loop asks before each iteration all the same."""

    def is_of_data(self) -> bool:
        return True


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

    def pieces(self) -> list[Any]:
        return [self.first, *self.rest.pieces()]

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


def is_asked(sequence: SizedSequence) -> bool:
    return isinstance(sequence.length, torch.SymInt) and asks(sequence)


_keeping: contextvars.ContextVar[bool] = contextvars.ContextVar("keeping", default=False)


@contextlib.contextmanager
def keeping_lengths() -> Iterator[None]:
    """Within this context, lists of a symbolic length keep it until a model asks for their elements one by one."""
    token = _keeping.set(True)
    try:
        yield
    finally:
        _keeping.reset(token)


def is_kept(sequence: SizedSequence) -> bool:
    """Whether a sequence takes the place of a list: its length is symbolic, and loops over it ask, or it is kept."""
    return isinstance(sequence.length, torch.SymInt) and (_keeping.get() or asks(sequence))


class Unmodified(SizedSequence):
    """A list that a loop has filled and another one goes over, as long as nothing modifies it.

    Args:
        held: The list.
        form: The sequence that it is.
    """

    is_indexed = True

    def __init__(self, held: list[Any] | tuple[Any, ...], form: SizedSequence) -> None:
        self.held, self.form = held, form
        _known[self] = _KnownList(elements_of(held))

    @property
    def row(self) -> Any:
        """The element that the last iteration of a loop was given."""
        return _known[self].row

    def gone_over(self) -> list[Unmodified]:
        return [self] if self.form.has_modifiable_rows else []

    @property
    def length(self) -> Any:
        return self.form.length

    def has(self, index: Any) -> Any:
        now, known = elements_of(self.held), _known[self].elements
        if len(now) != len(known) or not all(map(operator.is_, now, known)):
            raise CaptureError(
                "A list that was filled in a loop is modified while another loop iterates over it. Iterate over a "
                "copy: list(values)."
            )
        return self.form.has(index)

    def at(self, index: Any) -> Any:
        found = _known[self].row = self.form.at(index)
        return found

    def tensor(self, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
        return self.form.tensor(dtype, device)

    def elements(self) -> list[Any]:
        return elements_of(self.held)


@dataclass
class _KnownList:
    """What is known of a list that a loop goes over.

    Attributes:
        elements: Its elements in this execution.
        row: The element that the last iteration was given.
    """

    elements: list[Any]
    row: Any = None


# Not an attribute: the elements of all iterations would tell paths apart that differ in the number of iterations alone.
_known: weakref.WeakKeyDictionary[Unmodified, _KnownList] = weakref.WeakKeyDictionary()
