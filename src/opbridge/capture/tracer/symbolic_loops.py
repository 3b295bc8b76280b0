"""Python loops whose number of iterations a size or data decides: each iteration asks whether there is another.

`for i in range(n)` asks `i < n` before each iteration, with an `i` that is read from a tensor which counts the
iterations. That is what `while i < n:` asks, so that the capture of decisions makes an ONNX Loop of it. `for row in x`
asks for the rows of `x` so.

The loop of a generator asks so too, in whatever goes over the generator, and a comprehension is such a one; see
`comprehensions`. One in a function whose source is not there stays as it is, and has the iterations of the example.

A list that each iteration appends to keeps its elements, of which a capture has as many as it has iterations. What
`torch.stack` and `torch.cat` make of the whole list, and its length, are those for any number of iterations. Everything
else that a model does with such a list depends on the number of iterations, so that captures of several numbers of
iterations differ.
"""

from __future__ import annotations

import contextlib
import contextvars
import inspect
import itertools
import sys
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, Protocol

import torch

from opbridge.base.python_private.comprehensions import is_in_comprehension
from opbridge.base.python_private.instructions import instruction_at
from opbridge.base.python_private.loops import end_of, loop_over
from opbridge.base.python_private.tracing import paused
from opbridge.base.torch_private import torch_sizes
from opbridge.base.torch_private.torch_branch_operators import FIRST_ITERATION
from opbridge.capture.tracer.append_only_lists import Iterations
from opbridge.capture.tracer.changed_rows import ChangedRows, ListGoneOver, changed_rows
from opbridge.capture.tracer.filling import filled_dict, filled_set
from opbridge.capture.tracer.followed_lists import FollowedLists
from opbridge.capture.tracer.loop_spans import LoopSpan
from opbridge.capture.tracer.loop_summaries import LoopSummary

__all__ = [
    "Counted",
    "Loops",
    "SymbolicLoop",
    "active_loops",
    "asking",
    "asks",
    "asks_for_range",
    "iterations_of",
    "knows_constants",
    "note_constant",
    "note_empty_tensor",
    "row_gone_over",
    "runs_over",
    "watching_unrolled_loops",
]

_NOT_FOLLOWED = frozenset({filled_set.__code__, filled_dict.__code__})
"""What goes over generators whose loops do not ask, as it fills no list."""


class Counted(Protocol):
    """What a loop goes over."""

    def has(self, index: Any) -> Any:
        """Whether there is an element of this index, as a bool that may be symbolic."""

    def at(self, index: Any) -> Any:
        """The element of an index."""

    @property
    def length(self) -> Any:
        """How many elements there are."""

    def elements(self) -> Sequence[Any]:
        """The elements, of which there are as many as in the example."""

    def is_of_data(self) -> bool:
        """Whether data decide how many elements there are."""

    def gone_over(self) -> Sequence[ListGoneOver]:
        """The lists of rows among what a loop over it goes over, where iterations may change their rows."""


class Loops:
    """The loops of one run.

    Args:
        of_sizes: Whether loops over sizes are meant, and not only those whose number of iterations data decide.
        learned: What earlier runs have shown; this one adds to it.

    Attributes:
        running: Those that run, the outermost first.
        asking: The one that asks whether there is a further iteration.
        lists: The lists and tuples that they may fill.
        made: What has been made since the last decision; see `made_once`.
        numbers_read: The numbers of an index in a tensor; see `made_once`.
        numbers: Numbers the loops.
        ranges: The loops over ranges of a known length, by their functions and first instructions.
        asked_of_data: Whether there was one whose number of iterations data decide.
        unrolled: The comprehensions, by their code and line, that have the iterations of the example, as they run as
            Python compiles them.
    """

    def __init__(self, *, of_sizes: bool, learned: LoopSummary) -> None:
        self.of_sizes, self.learned = of_sizes, learned
        self.running: list[Iterations] = []
        self.asking: SymbolicLoop | None = None
        self.lists = FollowedLists(learned)
        self.numbers = itertools.count()
        self.unrolled: list[tuple[CodeType, int]] = []
        self.ranges: set[tuple[CodeType, int]] = set()
        self.asked_of_data = False
        self.numbers_read: dict[tuple[int, int, int], tuple[Any, torch.Tensor, Any]] = {}
        self.made: dict[Hashable, tuple[Any, tuple[Any, ...]]] = {}

    def begin(self, loop: Iterations) -> None:
        """Notes that a loop runs, and that it does so no longer where it ran before."""
        self.running = [each for each in self.running if each.frame is not loop.frame or each.offset != loop.offset]
        self.running.append(loop)

    def end(self, loop: SymbolicLoop) -> None:
        """Notes that a loop has had its last iteration."""
        self.running.remove(loop)
        self.lists.end(loop)

    def forget_left(self) -> None:
        """Forgets the loops that a `break`, a `return` or an error has left."""
        self.running = [each for each in self.running if each.runs()]

    def is_in_later_iteration(self, asking: SymbolicLoop | None) -> bool:
        """Whether a loop that asks runs in another iteration than the first one of a loop around it."""
        return asking is not None and any(each.iteration for each in self.running if each is not asking)

    def counters(self) -> list[torch.Tensor]:
        """The numbers of iterations that the loops that run have had, the innermost first."""
        return [each.counter for each in reversed(self.running) if each.counter is not None]

    def gone_over(self) -> dict[str, Any]:
        """What the loops that run go over, which no variable need hold any more, by the number of the loop.

        A list that is extended is held by no variable either, until it has been.
        """
        held = ((each.counted, each.extended) for each in self.running if isinstance(each, SymbolicLoop))
        return {str(number): each[0] if each[1] is None else each for number, each in enumerate(held)}

    def offsets_in(self, frame: FrameType) -> dict[int, SymbolicLoop]:
        """The loops of a frame that run, by the offset of the instruction that begins an iteration."""
        running = [each for each in self.running if isinstance(each, SymbolicLoop)]
        found = {each.offset: each for each in running if each.frame is frame}
        return found | {outer.first: each for each in running for outer in each.span.outers() if outer.frame is frame}


_active: list[Loops] = []


@contextlib.contextmanager
def asking(loops: Loops | None) -> Iterator[None]:
    """Within this context, loops ask whether there is a further iteration."""
    if loops is None:
        yield
        return
    _active.append(loops)
    try:
        yield
    finally:
        _active.remove(loops)


_watching: contextvars.ContextVar[UnrolledLoops | None] = contextvars.ContextVar("watching", default=None)


@dataclass
class UnrolledLoops:
    """Whether an execution has unrolled a loop whose number of iterations is symbolic, so that it fixes this number."""

    any: bool = False


@contextlib.contextmanager
def watching_unrolled_loops() -> Iterator[UnrolledLoops]:
    """Tells whether such a loop was unrolled within this context."""
    watched = UnrolledLoops()
    token = _watching.set(watched)
    try:
        yield watched
    finally:
        _watching.reset(token)


def active_loops() -> Loops | None:
    """The loops of the run that is captured; None where loops do not ask."""
    return _active[-1] if _active else None


def asks(counted: Counted) -> bool:
    """Whether a loop over a sequence asks before each iteration."""
    return bool(_active) and (_active[-1].of_sizes or counted.is_of_data())


def iterations_of(counted: Counted, frame: FrameType | None) -> SymbolicLoop | None:
    """The iterations of a loop; None where a sequence is not gone over by a `for` statement, or need not ask.

    Args:
        counted: What the loop goes over.
        frame: The frame that asks for an iterator.
    """
    if frame is None or instruction_at(frame.f_code, frame.f_lasti).name != "GET_ITER":
        return None
    if asks(counted):
        return SymbolicLoop(_active[-1], counted, frame)
    watched = _watching.get()
    if watched is not None and not isinstance(torch_sizes.known_size(counted.length), int):
        watched.any = True
    return None


def extending(counted: Counted, frame: FrameType, held: list[Any]) -> SymbolicLoop | None:
    """The iterations that extend a list by a sequence, one element each; None where the sequence need not ask.

    Args:
        counted: The sequence.
        frame: The frame of the model that extends the list.
        held: The list.
    """
    return SymbolicLoop(_active[-1], counted, frame, held) if asks(counted) else None


class SymbolicLoop:
    """The iterations of a loop that runs.

    Attributes:
        is_counted: True: a sequence counts them.
        counted: What it goes over.
        span: Where it runs; until it has begun, the frame that asks for an iterator.
        number: Which loop of the run it is.
        iteration: How many iterations it has had.
        counter: The same, as a tensor.
        is_over: Whether it has had its last iteration.
        parts: For each iteration, the sizes of the parts of tensors that it was given, each with the sum of all of
            them.
        extended: Where a list is extended by what it goes over, the list.
    """

    is_counted = True

    def __init__(self, loops: Loops, counted: Counted, frame: FrameType, extended: list[Any] | None = None) -> None:
        self._loops, self.counted, self.extended = loops, counted, extended
        self.span = LoopSpan(frame)
        self._plain: Iterator[Any] | None = None
        self._index: Any = None
        self.number = next(loops.numbers)
        self.iteration = 0
        self.counter: torch.Tensor | None = None
        self.is_over = False
        self.parts: list[list[tuple[Any, Any]]] = []
        self._changed: list[ChangedRows] = []

    @property
    def frame(self) -> FrameType:
        """The frame that it runs in."""
        return self.span.frame

    @property
    def offset(self) -> int:
        """Where the instruction is that begins an iteration."""
        return self.span.first

    def __iter__(self) -> SymbolicLoop:
        return self

    def __next__(self) -> Any:
        if self._plain is None:
            with paused():
                return self._next(sys._getframe(1))
        return next(self._plain)

    def _next(self, frame: FrameType) -> Any:
        """The element that the loop of a frame goes on with."""
        if self.counter is None:
            if not self._begin(frame):
                self._plain = iter(self.counted.elements())
                return next(self._plain)
        else:
            self._end_iteration()
        assert self.counter is not None
        self._loops.lists.carry_last(self)
        index = self._index = self.counter.item()
        self._loops.asking = self
        try:
            goes_on = bool(self.counted.has(index))
        finally:
            self._loops.asking = None
        if not goes_on:
            self.is_over = True
            self._loops.end(self)
            for each in self._changed:
                each.end()
            raise StopIteration
        self.parts.append([])
        return self.counted.at(index)

    def row_of(self, held: Any, index: Any) -> Any:
        """The row that it has given the model in this iteration, where a list has it at an index; else None."""
        if not self._changed or not torch_sizes.is_equal(index, self._index):
            return None
        return next((row for each in self._changed if (row := each.row_of(held)) is not None), None)

    def _begin(self, frame: FrameType) -> bool:
        """Begins the loop; False where what goes over it holds more than the variables of the frame."""
        if self.extended is not None:
            at = instruction_at(self.frame.f_code, self.frame.f_lasti).offset
            self._begin_at(LoopSpan(self.frame, at, at + 2))
            return True
        if instruction_at(frame.f_code, frame.f_lasti).name != "FOR_ITER":
            return False
        outer = LoopSpan.around_generator(frame)
        if frame.f_code.co_flags & inspect.CO_GENERATOR:
            if outer is not None and any(each.frame.f_code in _NOT_FOLLOWED for each in (outer, *outer.outers())):
                return False
        elif is_in_comprehension(frame.f_code, frame.f_lasti):
            self._loops.unrolled.append((frame.f_code, frame.f_lineno))
            return False
        elif frame is not self.frame:
            return False
        self._begin_at(LoopSpan(frame, frame.f_lasti, end_of(frame.f_code, frame.f_lasti), outer))
        return True

    def _begin_at(self, span: LoopSpan) -> None:
        """Begins the loop, which runs there."""
        self.span = span
        self.counter = FIRST_ITERATION()
        loops = self._loops
        loops.begin(self)
        loops.asked_of_data |= self.counted.is_of_data()
        frames = [span.frame, *(each.frame for each in span.outers())]
        loops.lists.begin(self, frames, span.place(), loops.running)
        self._changed = changed_rows(self.counted.gone_over(), self, span.place(), loops.lists)

    def _end_iteration(self) -> None:
        assert self.counter is not None
        self.iteration += 1
        self.counter = self.counter + 1
        for each in self._changed:
            each.end_iteration()
        self._loops.lists.follow(self)

    def runs(self) -> bool:
        """Whether an iteration of it runs."""
        return self.span.runs()

    def extended_by(self) -> torch.Tensor | None:
        """The integers that it has extended a list by; None where it does something else, or is not over."""
        counted: Any = self.counted
        return None if self.extended is None or not self.is_over else counted.tensor(torch.int64)

    def count(self) -> Any:
        """How many iterations it has had, for any number of them."""
        return self.counted.length if self.is_over else self._index


def asks_for_range(frame: FrameType) -> bool:
    """Whether a loop over a range of a known length asks before each iteration.

    Args:
        frame: The frame that calls `range`.
    """
    first = loop_over(frame.f_code, instruction_at(frame.f_code, frame.f_lasti).offset) if _active else None
    if first is None:
        return False
    _active[-1].ranges.add((frame.f_code, first))
    return (frame.f_code, first) in _active[-1].learned.ranges


def knows_constants() -> bool:
    """Whether a number is known that is read now from what depends on weights alone; see `LoopSummary`."""
    if not _active or not _active[-1].running:
        return True
    return _active[-1].learned.knows_constants


def note_constant() -> None:
    """Notes that such a number was known."""
    if _active and _active[-1].running:
        _active[-1].learned.has_known_constants = True


def note_empty_tensor() -> None:
    """Notes that a tensor has been made of an empty list, whose elements would have told its dtype."""
    if _active:
        _active[-1].learned.has_empty_tensor = True


def row_gone_over(held: Any, index: Any) -> Any:
    """The row that the iteration of a loop has, where a list that the loop goes over has it at an index; else None."""
    loops = [each for each in _active[-1].running if isinstance(each, SymbolicLoop)] if _active else []
    return next((row for each in loops if (row := each.row_of(held, index)) is not None), None)


def runs_over(frame: FrameType) -> bool:
    """Whether a frame goes over a generator whose loop asks before each iteration."""
    loops = [each for each in _active[-1].running if isinstance(each, SymbolicLoop)] if _active else []
    return any(outer.frame is frame for each in loops for outer in each.span.outers())
