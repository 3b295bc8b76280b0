"""Loops of Python's whose number of turns a size or data decide: each turn asks whether there is a further one.

`for i in range(n)` asks `i < n` before each turn, with an `i` that is read from a tensor which counts the turns. That
is what `while i < n:` asks, so that the capture of decisions makes an ONNX Loop of it. `for row in x` asks for the
rows of `x` so.

The loop of a comprehension asks so too, and that of a generator, in whatever goes over the generator.

A list that each turn appends to keeps its elements, of which a capture has as many as it has turns. What `torch.stack`
and `torch.cat` make of the whole list, and its length, are those for any number of turns. Everything else that a model
does with such a list depends on the number of turns, so that captures of several numbers of turns differ.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import itertools
import operator
import sys
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, Protocol

import torch

from opbridge.base.python_private.comprehensions import fills_container, leaves_out
from opbridge.base.python_private.instructions import instruction_at
from opbridge.base.python_private.loops import end_of
from opbridge.base.python_private.stacks import list_being_filled
from opbridge.base.torch_private import torch_overrides, torch_sizes
from opbridge.base.torch_private.torch_decisions import FIRST_TURN, GATHERED, GATHERED_ALONG
from opbridge.capture.tracer.growing_lists import Growing, Turns, held_in, sum_of_parts

__all__ = [
    "Counted",
    "Growing",
    "Learned",
    "Loops",
    "Turning",
    "asking",
    "asks",
    "copied",
    "gathered",
    "grown_length",
    "note_part",
    "number_at",
    "runs_in",
    "turns_of",
]

_OWN_FRAME = "<listcomp>"
"""The function that a comprehension is, before Python 3.12."""


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


@dataclass
class Identities:
    """Which identities matter to what a model does: by these, its ways are told apart.

    Attributes:
        shares: Whether it may matter which tensors share values, as a run has written to one in place.
        compares_objects: Whether the model's code asks whether two values are the same object.
    """

    shares: bool = False
    compares_objects: bool = False


@dataclass
class Learned:
    """What the runs of a model have shown of its loops, so that the next ones know it from the begin.

    Attributes:
        growth: How many elements a turn appends to a list, by the place of the list.
        varying: The lists that turns append other numbers of elements to, by the same.
        kinds: The dtype and the sizes of an element of a list, where the sizes are known, by the same.
        differing: The dimension in which the elements of a list differ, by the same.
        numbers: The variables of a function that hold another number in each turn of a loop.
        asked_again: The loops that no sequence counts, by the place of their first decision: in which of the frames
            there they run, and their first and last instruction.
        first_answer: What a decision is answered that no run has come to yet.
        carries_numbers: Whether such variables and such loops are looked for.
        identities: Which identities matter; all captures of a model share it.
        tells_more: Whether ways join only where the layouts of tensors are the same, and which of them share values.
    """

    growth: dict[Hashable, int] = field(default_factory=dict)
    varying: set[Hashable] = field(default_factory=set)
    kinds: dict[Hashable, tuple[torch.dtype, list[int]]] = field(default_factory=dict)
    differing: dict[Hashable, int] = field(default_factory=dict)
    numbers: dict[CodeType, set[str]] = field(default_factory=dict)
    asked_again: dict[Hashable, tuple[int, int, int]] = field(default_factory=dict)
    first_answer: bool = False
    carries_numbers: bool = True
    identities: Identities = field(default_factory=Identities)
    tells_more: bool = False


class Loops:
    """The loops of one run.

    Args:
        of_sizes: Whether loops over sizes are meant, and not only those whose number of turns data decide.
        learned: What earlier runs have shown; this one adds to it.

    Attributes:
        running: Those that run, the outermost first.
        asking: The one that asks whether there is a further turn.
        lists: The lists and tuples that may grow, by identity; see `growing`.
        asked_of_data: Whether there was one whose number of turns data decide.
        lacks_elements: Whether a list was empty that some turns append to, before a run has shown what.
    """

    def __init__(self, *, of_sizes: bool, learned: Learned) -> None:
        self.of_sizes, self.learned = of_sizes, learned
        self.running: list[Turns] = []
        self.asking: Turning | None = None
        self.lists: dict[int, Growing] = {}
        self._named: list[Growing] = []
        self.numbers = itertools.count()
        self.asked_of_data = self.lacks_elements = False
        self.numbers_read: dict[tuple[int, int, int], tuple[Any, torch.Tensor, Any]] = {}

    def begin(self, loop: Turns) -> None:
        """Notes that a loop runs, and that it does so no longer where it ran before."""
        self.running = [each for each in self.running if each.frame is not loop.frame or each.offset != loop.offset]
        self.running.append(loop)

    def end(self, turning: Turning) -> None:
        """Notes that a loop has had its last turn."""
        self.running.remove(turning)
        value = turning.filled
        if value is None:
            return
        place = (turning.frame.f_code, turning.offset, "result")
        if turning.chooses:
            turning.varying.add(place)
        elif value and len(value) == turning.turn:
            turning.growth[place] = 1
        ends = turning.appended
        self.lists[id(value)] = Growing(
            value, turning, 0, known=list(value), place=place, each=1 if value else None, ends=ends
        )

    def forget_left(self) -> None:
        """Forgets the loops that a `break`, a `return` or an error has left."""
        self.running = [each for each in self.running if each.runs()]

    def growing(self, held: Any) -> Growing | None:
        """What is known of a list or tuple that may grow; None for any other."""
        found = self.lists.get(id(held))
        if found is not None and found.held is held:
            return found
        for each in self._named:
            if each.is_in_variable():
                self.lists[id(each.held)] = each
        found = self.lists.get(id(held))
        return found if found is not None and found.held is held else None

    def follow_lists(self, loop: Turns, frames: Iterable[FrameType], place: Hashable) -> None:
        """Looks from now on at what the turns of a loop append to lists and tuples.

        Args:
            loop: The loop.
            frames: Whose variables hold them.
            place: Which loop it is, in any run.
        """
        for number, frame in enumerate(frames):
            for name, held in held_in(frame):
                known = self.growing(held) if held or type(held) is list else None
                if known is None or (known.loop not in self.running and not known.has_grown):
                    new = Growing.of(held, loop, (place, number, name), frame, name)
                    self._named.append(new)
                    if held or type(held) is list:  # there is one empty tuple
                        self.lists[id(held)] = new

    def follow(self, loop: Turns) -> None:
        """Looks at what a turn of a loop has appended."""
        for each in {id(each): each for each in (*self.lists.values(), *self._named)}.values():
            if each.loop is loop:
                each.follow()
                self.lists[id(each.held)] = each

    def counters(self) -> list[torch.Tensor]:
        """The numbers of turns that the loops that run have had, the innermost first."""
        return [each.counter for each in reversed(self.running) if each.counter is not None]

    def gone_over(self) -> dict[str, Counted]:
        """What the loops that run go over, which no variable need hold any more, by the number of the loop."""
        counted = (each.counted for each in self.running if isinstance(each, Turning))
        return {str(number): each for number, each in enumerate(counted)}

    def offsets_in(self, frame: FrameType) -> dict[int, Turning]:
        """The loops of a frame that run, by the offset of the instruction that begins a turn."""
        running = [each for each in self.running if isinstance(each, Turning)]
        found = {each.offset: each for each in running if each.frame is frame}
        return found | {each.outer_offset: each for each in running if each.outer is frame}


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
    if instruction_at(frame.f_code, frame.f_lasti).name != "GET_ITER":
        return None
    return Turning(_active[-1], counted, frame)


class Turning:
    """The turns of a loop that runs.

    Attributes:
        counted: What it goes over.
        frame: The frame that it runs in.
        offset: Where the instruction is that begins a turn.
        number: Which loop of the run it is.
        turn: How many turns it has had.
        counter: The same, as a tensor.
        outer: Where it is the loop of a generator, the frame that goes over that.
        outer_offset: Where the instruction is that does so.
        parts: For each turn, the sizes of the parts of tensors that it was given, each with the sum of all of them.
        filled: Where it is the loop of a comprehension, the list that it makes.
        chooses: Whether a condition of that may leave an element out.
        appended: How many elements it has after each turn.
    """

    def __init__(self, loops: Loops, counted: Counted, frame: FrameType) -> None:
        self._loops, self.counted, self.frame = loops, counted, frame
        self._plain: Iterator[Any] | None = None
        self._index: Any = None
        self.offset = self._last = -1
        self.number = next(loops.numbers)
        self.turn = 0
        self.counter: torch.Tensor | None = None
        self.is_over = False
        self.outer: FrameType | None = None
        self.outer_offset = -1
        self.parts: list[list[tuple[Any, Any]]] = []
        self.filled: list[Any] | None = None
        self.chooses = False
        self.appended: list[int] = []

    def __iter__(self) -> Turning:
        return self

    def __next__(self) -> Any:
        if self._plain is not None:
            return next(self._plain)
        if self.counter is None:
            if not self._begin(sys._getframe(1)):
                self._plain = iter(self.counted.elements())
                return next(self._plain)
        else:
            self._end_turn()
        assert self.counter is not None
        index = self._index = self.counter.item()
        self._loops.asking = self
        try:
            goes_on = bool(self.counted.has(index))
        finally:
            self._loops.asking = None
        if not goes_on:
            self.is_over = True
            self._loops.end(self)
            raise StopIteration
        self.parts.append([])
        return self.counted.at(index)

    def _begin(self, frame: FrameType) -> bool:
        """Begins the loop; False where what goes over it holds more than the variables of the frame."""
        if instruction_at(frame.f_code, frame.f_lasti).name != "FOR_ITER":
            return False
        if frame.f_code.co_flags & inspect.CO_GENERATOR:
            self.outer = outer = frame.f_back
            self.outer_offset = -1 if outer is None else instruction_at(outer.f_code, outer.f_lasti).offset
        elif frame is not self.frame and (frame.f_code.co_name != _OWN_FRAME or frame.f_back is not self.frame):
            return False
        elif fills_container(frame.f_code, frame.f_lasti):
            self.filled = list_being_filled(frame, self)
            if self.filled is None:
                return False
        self.frame = frame
        self.offset = frame.f_lasti
        self.counter = FIRST_TURN()
        self.chooses = leaves_out(frame.f_code, self.offset)
        self._last = end_of(frame.f_code, self.offset)
        loops = self._loops
        loops.begin(self)
        loops.asked_of_data |= self.counted.is_of_data()
        loops.follow_lists(self, [frame] if self.outer is None else [frame, self.outer], (frame.f_code, self.offset))
        return True

    def _end_turn(self) -> None:
        assert self.counter is not None
        self.turn += 1
        self.counter = self.counter + 1
        self.appended.append(len(self.filled) if self.filled is not None else self.turn)
        self._loops.follow(self)

    @property
    def varying(self) -> set[Hashable]:
        """The lists that turns append other numbers of elements to, as runs have shown."""
        return self._loops.learned.varying

    @property
    def growth(self) -> dict[Hashable, int]:
        """How many elements a turn appends to a list, as runs have shown."""
        return self._loops.learned.growth

    def runs(self) -> bool:
        """Whether a turn of it runs."""
        if not self.offset <= self.frame.f_lasti < self._last:
            return False
        outer = self.outer
        if outer is None:
            return runs_in(self.frame)
        asking = instruction_at(outer.f_code, self.outer_offset)
        end = end_of(outer.f_code, asking.offset) if asking.name == "FOR_ITER" else asking.offset + 1
        return runs_in(outer) and asking.offset <= instruction_at(outer.f_code, outer.f_lasti).offset < end

    def count(self) -> Any:
        """How many turns it has had, for any number of them."""
        return self.counted.length if self.is_over else self._index


def grown_length(value: Any) -> Any:
    """The length of a list that has grown in a loop; None for any other value."""
    growing = _growing(value)
    if growing is None:
        return None
    now = len(growing.held) - len(growing.known)
    if growing.varies:
        rows = _rows(growing, None)
        return None if rows is None else growing.first + rows[0].shape[0] + now
    return growing.first + growing.count * growing.loop.count() + now


def copied(value: Any, copy: Any) -> Any:
    """A copy of a list, or a tuple of its elements, which has grown as the list has."""
    growing = _growing(value)
    if growing is not None:
        _active[-1].lists[id(copy)] = dataclasses.replace(growing, held=copy, frame=None)
    return copy


def gathered(value: Any, dim: int | None) -> tuple[list[torch.Tensor], int | None] | None:
    """The elements of a list that has grown in a loop, as tensors to be joined.

    Args:
        value: The list. For any other value there are none.
        dim: The dimension along which they are to be concatenated; None: they are to be stacked.

    Returns:
        The tensors, and the dimension along which they are to be concatenated; None for a new first one. None where
        there are none.
    """
    growing = _growing(value)
    if growing is None:
        return None
    found = _rows(growing, dim)
    if found is None:
        return None
    appended, dim = found
    first, now = list(growing.held[: growing.first]), list(growing.held[len(growing.known) :])
    if dim is not None:
        return [*first, appended, *now], dim
    return [*(each.unsqueeze(0) for each in first), appended, *(each.unsqueeze(0) for each in now)], None


def _rows(growing: Growing, dim: int | None) -> tuple[torch.Tensor, int | None] | None:
    """What turns have appended, as one tensor, and the dimension that it is concatenated along; see `gathered`."""
    elements = growing.tensors()
    template = elements or growing.held
    kinds = _active[-1].learned.kinds
    if not template and growing.varies and growing.place in kinds:
        dtype, shape = kinds[growing.place]
        with torch_overrides.without_modes():  # no turn has appended one
            template = [torch.zeros(shape, dtype=dtype)]
    if not template:
        _active[-1].lacks_elements = growing.varies
        raise RuntimeError("a non-empty list of tensors is expected")  # as torch does, which logs it besides
    if not all(isinstance(each, torch.Tensor) for each in growing.held):
        return None
    some, loop = template[-1], growing.loop
    if any(each.dtype != some.dtype or each.dim() != some.dim() for each in elements):
        return None
    sizes = list(some.shape)
    if elements and all(isinstance(each, int) for each in sizes):
        kinds[growing.place] = some.dtype, sizes
    differing = {
        index
        for each in elements
        for index, size in enumerate(each.shape)
        if not torch_sizes.is_equal(size, sizes[index])
    }
    along = _active[-1].learned.differing
    if dim is not None and differing == {dim % some.dim()}:
        along[growing.place] = dim % some.dim()
    elif differing:
        return None
    # Before the first turn there are none; the operator needs one for the dtype.
    if growing.place in along:
        if dim is None or along[growing.place] != dim % some.dim():
            return None
        dim = dim % some.dim()
        sizes[dim] = 0
        total = None if growing.varies else sum_of_parts(growing, dim)
        return GATHERED_ALONG(elements or [some], total, sizes, growing.ends, loop.number, dim), dim
    if growing.varies:
        return growing.rows(
            lambda: GATHERED_ALONG(elements or [some], None, sizes, growing.ends, loop.number, None)
        ), None
    length = growing.count * loop.count()
    return GATHERED(elements or [some], length, sizes, growing.ends, loop.number), None


def number_at(numbers: torch.Tensor, index: Any) -> Any:
    """The number of an index in a tensor of one dimension: one number, however often it is asked for."""
    if not _active:
        return torch.select(numbers, 0, index).item()
    known = _active[-1].numbers_read
    key = id(numbers), numbers._version, id(index)
    if key not in known:
        known[key] = torch.select(numbers, 0, index).item(), numbers, index
    return known[key][0]


def note_part(size: Any, total: Any) -> None:
    """Notes the size of a part of a tensor that a turn is given, and the sum of the sizes of all parts."""
    if _active and _active[-1].running:
        _active[-1].running[-1].parts[-1].append((size, total))


def _growing(value: Any) -> Growing | None:
    if not _active or type(value) not in (list, tuple):
        return None
    found = _active[-1].growing(value)
    if found is None or not found.is_kept or not all(map(operator.is_, found.held, found.known)):
        return None
    return found if found.count or found.varies else None


def runs_in(frame: FrameType) -> bool:
    """Whether what asks runs in a frame, or in what that has called."""
    each: FrameType | None = sys._getframe(1)
    while each is not None:
        if each is frame:
            return True
        each = each.f_back
    return False
