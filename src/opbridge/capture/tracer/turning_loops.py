"""Loops of Python's whose number of turns a size or data decide: each turn asks whether there is a further one.

`for i in range(n)` asks `i < n` before each turn, with an `i` that is read from a tensor which counts the turns. That
is what `while i < n:` asks, so that the capture of decisions makes an ONNX Loop of it. `for row in x` asks for the
rows of `x` so.

A list that each turn appends to keeps its elements, of which a capture has as many as it has turns. What `torch.stack`
and `torch.cat` make of the whole list, and its length, are those for any number of turns. Everything else that a model
does with such a list depends on the number of turns, so that captures of several numbers of turns differ.
"""

from __future__ import annotations

import contextlib
import dis
import itertools
import sys
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Protocol

import torch

from opbridge.base.torch_private import torch_sizes
from opbridge.base.torch_private.torch_decisions import FIRST_TURN, GATHERED

__all__ = ["Counted", "Growing", "Loops", "Turning", "asking", "asks", "gathered", "grown_length", "turns_of"]

_FOR_ITER = dis.opmap["FOR_ITER"]
_GET_ITER = dis.opmap["GET_ITER"]


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


@dataclass(eq=False)
class Growing:
    """A list that may grow in the turns of a loop.

    Attributes:
        held: The list.
        loop: The loop.
        first: How many elements it had before the loop.
        each: How many elements a turn appends; None while that is not known.
        known: The elements at the last turn.
        place: Which list of which loop it is, in any run.
        is_kept: Whether turns do nothing else with it than appending the same number of elements.
    """

    held: list[Any]
    loop: Turning
    first: int
    each: int | None = None
    known: list[Any] = field(default_factory=list)
    place: Hashable = None
    is_kept: bool = True

    def follow(self) -> None:
        """Looks at what a turn has done."""
        count = len(self.held) - len(self.known)
        is_same = len(self.held) >= len(self.known) and all(map(_is, self.held, self.known))
        if not is_same or (self.each is not None and count != self.each):
            self.is_kept = False
        self.each = count
        if self.is_kept:
            self.loop.growth[self.place] = count
        else:
            self.loop.growth.pop(self.place, None)
        self.known = list(self.held)

    def elements(self) -> list[Any]:
        """Its elements without those of turns that are over, where turns do nothing but append to it."""
        return self.held[: self.first] + self.held[len(self.known) :] if self.is_kept else self.held

    @property
    def has_grown(self) -> bool:
        """Whether turns have appended elements."""
        return self.is_kept and bool(self.each)

    @property
    def count(self) -> int:
        """How many elements a turn appends, as this run or an earlier one has shown; 0 where none has."""
        return self.loop.growth.get(self.place, 0) if self.each is None else self.each


class Loops:
    """The loops of one run.

    Args:
        of_sizes: Whether loops over sizes are meant, and not only those whose number of turns data decide.
        growth: How many elements a turn appends to a list, as far as earlier runs have shown; this one adds to it.

    Attributes:
        running: Those that run, the outermost first.
        asking: The one that asks whether there is a further turn.
        lists: The lists that may grow, by identity.
        asked_of_data: Whether there was one whose number of turns data decide.
    """

    def __init__(self, *, of_sizes: bool, growth: dict[Hashable, int]) -> None:
        self.of_sizes, self.growth = of_sizes, growth
        self.running: list[Turning] = []
        self.asking: Turning | None = None
        self.lists: dict[int, Growing] = {}
        self.numbers = itertools.count()
        self.asked_of_data = False

    def forget_left(self) -> None:
        """Forgets the loops that a `break`, a `return` or an error has left."""
        self.running = [each for each in self.running if each.runs()]

    def counters(self) -> list[torch.Tensor]:
        """The numbers of turns that the loops that run have had, the innermost first."""
        return [each.counter for each in reversed(self.running) if each.counter is not None]

    def offsets_in(self, frame: FrameType) -> dict[int, Turning]:
        """The loops of a frame that run, by the offset of the instruction that begins a turn."""
        return {each.offset: each for each in self.running if each.frame is frame}


_active: list[Loops] = []


@contextlib.contextmanager
def asking(loops: Loops | None) -> Iterator[None]:
    """Within this context, loops ask whether there is a further turn."""
    if loops is None:
        yield
        return
    _active.append(loops)
    try:
        yield
    finally:
        _active.remove(loops)


def asks(counted: Counted) -> bool:
    """Whether a loop over a sequence asks before each turn."""
    return bool(_active) and (_active[-1].of_sizes or counted.is_of_data())


def turns_of(counted: Counted, frame: FrameType | None) -> Iterator[Any] | None:
    """The turns of a loop; None where a sequence is not gone over by a `for` statement, or need not ask.

    Args:
        counted: What the loop goes over.
        frame: The frame that asks for an iterator.
    """
    if frame is None or not asks(counted):
        return None
    if frame.f_code.co_code[frame.f_lasti] != _GET_ITER:
        return None
    return Turning(_active[-1], counted, frame)


class Turning:
    """The turns of a loop that runs.

    Attributes:
        frame: The frame that it runs in.
        offset: Where the instruction is that begins a turn.
        number: Which loop of the run it is.
        turn: How many turns it has had.
        counter: The same, as a tensor.
    """

    def __init__(self, loops: Loops, counted: Counted, frame: FrameType) -> None:
        self._loops, self._counted, self.frame = loops, counted, frame
        self._plain: Iterator[Any] | None = None
        self._index: Any = None
        self.offset = self._last = -1
        self.number = next(loops.numbers)
        self.turn = 0
        self.counter: torch.Tensor | None = None
        self.is_over = False

    def __iter__(self) -> Turning:
        return self

    def __next__(self) -> Any:
        if self._plain is not None:
            return next(self._plain)
        if self.counter is None:
            if not self._begin(sys._getframe(1)):
                self._plain = iter(self._counted.elements())
                return next(self._plain)
        else:
            self._end_turn()
        assert self.counter is not None
        index = self._index = self.counter.item()
        self._loops.asking = self
        try:
            goes_on = bool(self._counted.has(index))
        finally:
            self._loops.asking = None
        if not goes_on:
            self.is_over = True
            self._loops.running.remove(self)
            raise StopIteration
        return self._counted.at(index)

    def _begin(self, frame: FrameType) -> bool:
        """Begins the loop; False where what goes over it holds more than the variables of the frame."""
        if frame is not self.frame or frame.f_code.co_code[frame.f_lasti] != _FOR_ITER or _is_comprehension(frame):
            return False
        self.offset = frame.f_lasti
        self.counter = FIRST_TURN()
        self._last = next(each.argval for each in dis.get_instructions(frame.f_code) if each.offset == self.offset)
        loops = self._loops
        loops.running = [each for each in loops.running if each.frame is not frame or each.offset != self.offset]
        loops.running.append(self)
        loops.asked_of_data |= self._counted.is_of_data()
        for place, each in enumerate(_lists(frame)):
            known = loops.lists.get(id(each))
            if known is None or (known.loop not in loops.running and not known.has_grown):
                loops.lists[id(each)] = Growing(
                    each, self, len(each), known=list(each), place=(frame.f_code, self.offset, place)
                )
        return True

    def _end_turn(self) -> None:
        assert self.counter is not None
        self.turn += 1
        self.counter = self.counter + 1
        for each in self._loops.lists.values():
            if each.loop is self:
                each.follow()

    @property
    def growth(self) -> dict[Hashable, int]:
        """How many elements a turn appends to a list, by its place."""
        return self._loops.growth

    def runs(self) -> bool:
        """Whether a turn of it runs."""
        return _runs(self.frame, sys._getframe(1)) and self.offset <= self.frame.f_lasti < self._last

    def most(self) -> Any:
        """How many turns it has if nothing else ends it."""
        return self._counted.length

    def count(self) -> Any:
        """How many turns it has had, for any number of them."""
        return self._counted.length if self.is_over else self._index


def grown_length(value: Any) -> Any:
    """The length of a list that has grown in a loop; None for any other value."""
    growing = _growing(value)
    if growing is None:
        return None
    now = len(growing.held) - len(growing.known)
    return growing.first + growing.count * growing.loop.count() + now


def gathered(value: Any) -> list[torch.Tensor] | None:
    """The elements of a list that has grown in a loop, as tensors to be joined along a new first dimension.

    None for any other value.
    """
    growing = _growing(value)
    if growing is None:
        return None
    elements = growing.known[growing.first :]
    template = elements or growing.held
    if not template:
        raise RuntimeError("a non-empty list of tensors is expected")  # as torch does, which logs it besides
    if not all(isinstance(each, torch.Tensor) for each in growing.held):
        return None
    some = template[-1]
    if any(each.dtype != some.dtype or not torch_sizes.is_same_shape(each.shape, some.shape) for each in elements):
        return None
    length, total = (growing.count * turns for turns in (growing.loop.count(), growing.loop.most()))
    # Before the first turn there are none; the operator needs one for the dtype.
    appended = GATHERED(elements or [some], length, total, list(some.shape), growing.count, growing.loop.number)
    others = [each.unsqueeze(0) for each in growing.held[: growing.first]]
    return [*others, appended, *(each.unsqueeze(0) for each in growing.held[len(growing.known) :])]


def _growing(value: Any) -> Growing | None:
    if not _active or type(value) is not list:
        return None
    found = _active[-1].lists.get(id(value))
    if found is None or not found.is_kept or not found.count or not all(map(_is, found.held, found.known)):
        return None
    return found


def _is(one: Any, other: Any) -> bool:
    return one is other


def _lists(frame: FrameType) -> Iterator[list[Any]]:
    """The lists that the variables of a frame hold."""
    for value in frame.f_locals.values():
        if type(value) is list:
            yield value
        elif type(value) is tuple:
            yield from (each for each in value if type(each) is list)
        elif type(value) is dict:
            yield from (each for each in value.values() if type(each) is list)


def _runs(frame: FrameType, within: FrameType) -> bool:
    """Whether a frame is another one, or called it."""
    each: FrameType | None = within
    while each is not None:
        if each is frame:
            return True
        each = each.f_back
    return False


def _is_comprehension(frame: FrameType) -> bool:
    """Whether a loop is that of a comprehension, whose result no variable holds until it is complete."""
    if frame.f_code.co_name in ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"):
        return True
    instructions = list(dis.get_instructions(frame.f_code))
    end = next(each.argval for each in instructions if each.offset == frame.f_lasti)
    return any(
        each.opname in ("LIST_APPEND", "SET_ADD", "MAP_ADD") and (each.arg or 0) >= 2
        for each in instructions
        if frame.f_lasti <= each.offset < end
    )
