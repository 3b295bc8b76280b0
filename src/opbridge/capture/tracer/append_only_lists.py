"""Lists and tuples that may grow in the iterations of a loop."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Protocol

import torch

from opbridge.base.python_private.frames import variables
from opbridge.base.torch_private import torch_sizes
from opbridge.capture.tracer.list_instructions import elements_read
from opbridge.capture.tracer.list_rows import attributes_of_object
from opbridge.capture.tracer.loop_summaries import ListSummary
from opbridge.capture.tracer.symbolic_list import is_list

__all__ = [
    "AppendOnlyList",
    "Iterations",
    "Variable",
    "elements_of",
    "held_in",
    "sum_of_parts",
]

_MOST_IN_OBJECT = 1024
"""A longer list in an object, such as a vocabulary, is not followed."""


class Iterations(Protocol):
    """The iterations of a loop.

    Attributes:
        frame: The frame that it runs in.
        offset: The instruction that begins an iteration.
        counter: The number of iterations, as a tensor.
        iteration: How many iterations it has had.
        number: Which loop of the run it is.
        is_over: Whether it has had its last iteration.
        parts: For each iteration, the sizes of the parts of tensors that it was given, each with the sum of all of
            them.
        is_counted: Whether a sequence counts its iterations.
    """

    is_counted: bool
    iteration: int
    number: int
    parts: list[list[tuple[Any, Any]]]

    @property
    def frame(self) -> FrameType: ...

    @property
    def offset(self) -> int: ...

    @property
    def is_over(self) -> bool: ...

    @property
    def counter(self) -> torch.Tensor | None: ...

    def runs(self) -> bool:
        """Whether an iteration of it runs."""

    def extended_by(self) -> torch.Tensor | None:
        """The integers that it has extended a list by; None where it does something else, or is not over."""

    def count(self) -> Any:
        """How many iterations it has had, for any number of them."""


@dataclass(frozen=True)
class Variable:
    """What holds a list.

    Attributes:
        frame: The frame of the variable.
        name: Its name; for a list in a container that a variable holds, with its place in that.
    """

    frame: FrameType
    name: Hashable


@dataclass(frozen=True, eq=False)
class LoopsWithin:
    """What the loops within the iterations of another one do with a list to which both append.

    Attributes:
        last: What is known of the list in the last one that has begun in the iteration.
        segments: What they have appended since the last iteration: the first element, and the one after the last.
        rows: Where there are such loops, what iterations have appended, as tensors with a row for each element.
    """

    last: AppendOnlyList | None = None
    segments: list[tuple[int, int, AppendOnlyList]] = field(default_factory=list)
    rows: list[torch.Tensor] = field(default_factory=list)


@dataclass(eq=False)
class AppendOnlyList:
    """A list or a tuple that may grow in the iterations of a loop.

    Attributes:
        held: The list, or a tuple that was made of it.
        loop: The loop.
        summary: What executions have shown of it.
        variable: Where a variable holds it, that: `outs += (x,)` has the variable hold another tuple.
        is_reversed: Whether iterations insert elements before the others: all that is said here of its elements is then
            of the list from its end to its begin.
        beginning: The elements that it had before the loop.
        known: The elements at the last iteration.
        each: How many elements an iteration appends; None while that is not known.
        ends: How many elements iterations had appended after each.
        is_kept: Whether iterations do nothing else with it than appending elements.
        inner: What loops within iterations do with it.
    """

    held: list[Any] | tuple[Any, ...]
    loop: Iterations
    summary: ListSummary
    variable: Variable | None = None
    is_reversed: bool = False
    beginning: list[Any] = field(default_factory=list)
    known: list[Any] = field(default_factory=list)
    each: int | None = None
    ends: list[int] = field(default_factory=list)
    is_kept: bool = True
    inner: LoopsWithin = field(default_factory=LoopsWithin)
    _rows: tuple[int, torch.Tensor] | None = None

    @classmethod
    def of(
        cls, held: list[Any] | tuple[Any, ...], loop: Iterations, summary: ListSummary, variable: Variable | None
    ) -> AppendOnlyList:
        """What a loop begins with."""
        found = cls(held, loop, summary, variable, summary.is_prepended)
        found.known, found.beginning = found.items, found.items
        return found

    @property
    def first(self) -> int:
        """How many elements it had before the loop."""
        return len(self.beginning)

    @property
    def items(self) -> list[Any]:
        """The elements that the list holds now."""
        return self._elements_of(self.held)

    def _elements_of(self, held: list[Any] | tuple[Any, ...]) -> list[Any]:
        found = elements_of(held)
        return found[::-1] if self.is_reversed else found

    def is_in_variable(self) -> bool:
        """Whether the variable holds another one, which begins with the elements at the last iteration; takes that."""
        if self.variable is None or not self.is_kept:
            return False
        held: Any = variables(self.variable.frame)
        now = held.get(self.variable.name)
        if type(now) is not type(self.held) or now is self.held:
            return False
        if len(now) < len(self.known) or not all(map(operator.is_, self._elements_of(now), self.known)):
            return False
        self.held = now
        return True

    def follow(self) -> list[Any]:
        """Looks at what an iteration has done.

        Returns:
            What the iteration has appended; see `pieces`.
        """
        self.is_in_variable()
        is_same = len(self.held) >= len(self.known) and all(map(operator.is_, self.items, self.known))
        if self.running() is not None or any(not each.is_kept for each in self.within()):  # it was left before its end
            is_same = False
        self.is_kept = self.is_kept and is_same
        pieces = list(self.pieces()) if is_same else []
        count = len(pieces) if is_same else len(self.held) - len(self.known)
        summary = self.summary
        if self.is_kept and (summary.growth not in (None, count) or self.each not in (None, count)):
            summary.varies = True
        summary.growth = count if self.is_kept and not summary.varies else None
        self.each = count
        self.known = self.items
        self.inner = LoopsWithin(rows=self.inner.rows)
        self.ends.append(len(self.held) - self.first)
        return pieces

    def replace_last(self, number: Any, levels: Iterable[AppendOnlyList]) -> None:
        """Puts another object in the place of the last element at the last iteration.

        Args:
            number: The object.
            levels: What is known of the list in the loops from the outermost one to this one.
        """
        at = len(self.known) - 1
        assert isinstance(self.held, list)
        list.__setitem__(self.held, len(self.held) - 1 - at if self.is_reversed else at, number)
        for each in levels:
            if at < len(each.known):
                each.known[at] = number

    def elements(self) -> list[Any]:
        """Its elements without those of iterations that are over, where iterations do nothing but append to it.

        Where there are some before the first iteration, the last ones of the iterations that are over are among them.
        """
        if not self.is_kept or any(not each.is_kept for each in self.within()):
            return self.items
        return [*self.beginning, *self._seen(self.shown)]

    @functools.cached_property
    def shown(self) -> int:
        """How many of the last elements of the iterations before an iteration may read."""
        variable = self.variable
        if not self.first or variable is None or not isinstance(variable.name, str):
            return min(self.first, 1)
        read = elements_read(variable.frame.f_code, variable.name, from_begin=self.is_reversed)
        last = self.beginning[-1] if type(self.beginning[-1]) is tuple else self.beginning[-1:]
        has_tensors = any(type(each) not in (int, torch.SymInt) for each in last)
        return min(self.first, max(read, 1) if has_tensors else read)

    def _seen(self, count: int) -> Iterator[Any]:
        at = len(self.known)
        yield from self.items[max(at - count, 0) : at]
        for begin, end, _ in self.inner.segments:
            yield from self.items[at:begin]
            yield from self.items[max(end - count, 0) : end]
            at = end
        inner = self.running()
        yield from self.items[at : None if inner is None else inner.first]
        if inner is not None:
            yield from inner._seen(count)

    def within(self) -> Iterator[AppendOnlyList]:
        """What is known of it in the loops within the iteration."""
        inner = self.running()
        for each in (*(each for _, _, each in self.inner.segments), *(() if inner is None else (inner,))):
            yield each
            yield from each.within()

    def running(self) -> AppendOnlyList | None:
        """What is known of it in an inner loop of the iteration that has not ended, where that appends to it."""
        inner = self.inner.last
        return inner if inner is not None and inner.nests and not inner.loop.is_over else None

    def pieces(self) -> Iterator[Any]:
        """What this iteration has appended: elements, and what is known of the lists in loops within the iteration."""
        at = len(self.known)
        for begin, end, inner in self.inner.segments:
            yield from self.items[at:begin]
            yield inner
            at = end
        inner_now = self.running()
        yield from self.items[at : None if inner_now is None else inner_now.first]

    @property
    def nests(self) -> bool:
        """Whether iterations have appended elements, as this run or an earlier one has shown."""
        return bool(self.count) or self.summary.varies

    def innermost(self, running: Collection[Iterations]) -> AppendOnlyList:
        """What is known of it in the innermost of the loops that run."""
        inner = self.inner.last
        return self if inner is None or inner.loop not in running else inner.innermost(running)

    def levels(self) -> Iterator[AppendOnlyList]:
        """What is known of it in its loop, and in the last one within."""
        yield self
        if self.inner.last is not None:
            yield from self.inner.last.levels()

    @property
    def has_grown(self) -> bool:
        """Whether iterations have appended elements, as far as iterations do nothing else with it."""
        return self.is_kept and self.nests

    @property
    def count(self) -> int:
        """How many elements an iteration appends, as this run or an earlier one has shown; 0 where none has."""
        return (self.summary.growth or 0) if self.each is None else self.each

    def rows(self, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        """What iterations have appended, as one tensor: the same one as long as no iteration has appended more.

        Args:
            make: Makes it.
        """
        if self._rows is None or self._rows[0] != len(self.ends):
            self._rows = len(self.ends), make()
        return self._rows[1]

    def tensors(self) -> list[torch.Tensor]:
        """The elements that iterations have appended."""
        return list(self.known[self.first :])


def elements_of(held: list[Any] | tuple[Any, ...]) -> list[Any]:
    """The elements that a list or a tuple holds in this execution."""
    return list(list.__iter__(held) if isinstance(held, list) else held)


def sum_of_parts(growing: AppendOnlyList, dim: int) -> Any:
    """The sum of the sizes of the elements in one dimension, where they are parts of a tensor; None: not known."""
    loop, count = growing.loop, growing.count
    elements = growing.tensors()
    if not loop.is_over or not elements or len(elements) != count * loop.iteration:
        return None
    totals: list[Any] = []
    for index, each in enumerate(elements):
        parts = loop.parts[index // count]
        total = next((total for size, total in parts if torch_sizes.is_equal(size, each.shape[dim])), None)
        if total is None or (totals and not torch_sizes.is_equal(total, totals[0])):
            return None
        totals.append(total)
    return totals[0] * count


def held_in(frame: FrameType) -> Iterator[tuple[Hashable, list[Any] | tuple[Any, ...]]]:
    """The lists and tuples that the variables of a frame hold, each with what tells it from the others.

    Those are the names of variables; a list in another container has no name of its own.
    """
    for name, value in variables(frame).items():
        if is_list(value) or type(value) is tuple:
            yield name, value
        if type(value) is tuple:
            yield from (((name, place), each) for place, each in enumerate(value) if is_list(each))
        elif type(value) is dict:
            yield from (((name, key), each) for key, each in value.items() if is_list(each))
        else:
            found = attributes_of_object(value).items()
            yield from (((name, key), each) for key, each in found if is_list(each) and len(each) < _MOST_IN_OBJECT)
