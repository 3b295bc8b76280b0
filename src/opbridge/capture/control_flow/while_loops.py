"""Loops without a sequence, such as `while`, in which lists grow: their iterations are known by their decisions.

A run shows that Python is at a decision again, in the same loop, and that a list or tuple has more elements. In the
runs after it, the decision begins an iteration of the loop: what the iterations append is looked at there, and they are
counted.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Hashable, Iterator, Sequence
from types import CodeType, FrameType
from typing import Any

import torch

from opbridge.base.python_private.instructions import by_code
from opbridge.base.python_private.loops import iterations
from opbridge.base.torch_private.torch_branch_operators import FIRST_ITERATION
from opbridge.capture.tracer.append_only_lists import elements_of, held_in
from opbridge.capture.tracer.loop_spans import runs_in
from opbridge.capture.tracer.symbolic_loops import Loops

__all__ = ["AskedAgain", "WhileLoops", "is_asked_in_loop"]

_Held = dict[Hashable, Sequence[Any]]


class AskedAgain:
    """The iterations of such a loop.

    Args:
        loops: The loops of the run.
        frame: The frame that it runs in.
        place: Where Python is when it asks.
        begin: The first instruction of the loop.
        last: The last one.
        counter: The number of iterations as a tensor.

    Attributes:
        frame: As given.
        place: As given.
        offset: The first instruction.
        number: Which loop of the run it is.
        iteration: How many iterations it has had.
        counter: The same, as a tensor.
        is_over: False: it is not known when it has had its last iteration.
        is_counted: False: no sequence counts the iterations.
        parts: Nothing for each iteration: no iteration is given a part of a tensor.
    """

    is_over = is_counted = False

    def __init__(
        self, loops: Loops, frame: FrameType, place: Hashable, begin: int, last: int, counter: torch.Tensor
    ) -> None:
        self.frame, self.place, self.offset, self._last, self.counter = frame, place, begin, last, counter
        self._entered = min(begin, frame.f_lasti)  # the condition of a `while` stands before it once more
        self._loops = loops
        self._count: tuple[torch.Tensor, Any] | None = None
        self.number = next(loops.numbers)
        self.iteration = 0
        self.parts: list[list[tuple[Any, Any]]] = [[]]

    def end_iteration(self, counter: torch.Tensor) -> None:
        """Notes that the decision is asked again.

        Args:
            counter: The number of iterations as a tensor.
        """
        self.iteration += 1
        self.counter = counter
        self.parts.append([])
        self._loops.lists.follow(self)

    def extended_by(self) -> None:
        """Nothing: it extends no list by a sequence."""

    def runs(self) -> bool:
        """Whether an iteration of it runs."""
        return runs_in(self.frame) and self._entered <= self.frame.f_lasti <= self._last

    def count(self) -> Any:
        """How many iterations it has had, for any number of them."""
        if self._count is None or self._count[0] is not self.counter:
            self._count = self.counter, self.counter.item()
            torch._check(self._count[1] >= 0)
        return self._count[1]


class WhileLoops:
    """Finds the loops of a run.

    Args:
        loops: Where those that run are noted, and what is learned of them.
    """

    def __init__(self, loops: Loops) -> None:
        self._loops, self._learned = loops, loops.learned
        self._visits: dict[Hashable, list[tuple[FrameType, _Held]]] = {}

    def are_new(self, frames: Sequence[FrameType], place: Any) -> bool:
        """Whether a decision shows a loop that has not been noted.

        Args:
            frames: The frames at the decision.
            place: Where they are.
        """
        key = _key(place)
        if not self._learned.carries_numbers or key in self._learned.asked_again:
            return False
        now = [(frame, self._held(frame)) for frame in frames]
        before = self._visits.get(place, [])
        self._visits[place] = now
        same = list(itertools.takewhile(lambda pair: pair[0][0] is pair[1][0], zip(before, now, strict=False)))
        growth: dict[Hashable, int] = {
            (key, number, name): count
            for number, ((_, earlier), (_, held)) in enumerate(same)
            for name, count in _grown(earlier, held)
        }
        if not growth:
            return False
        frame = same[-1][1][0]
        around = _loop_around(frame.f_code, frame.f_lasti)
        if around is None:
            return False
        self._learned.asked_again[key] = (len(same) - 1, *around)
        for place, count in growth.items():
            self._learned.of_list(place).growth = count
        return True

    def at(self, frames: Sequence[FrameType], place: Any, recorder: Any) -> AskedAgain | None:
        """The loop of which a decision begins an iteration; None where it begins none.

        Args:
            frames: The frames at the decision.
            place: Where they are.
            recorder: What records the graph.
        """
        key = _key(place)
        if key not in self._learned.asked_again:
            return None
        index, begin, last = self._learned.asked_again[key]
        frame, loops = frames[index], self._loops
        running = [each for each in loops.running if isinstance(each, AskedAgain)]
        loop = next((each for each in running if each.frame is frame and each.place == place), None)
        if loop is not None:
            loop.end_iteration(recorder.record(torch.ops.aten.add.Tensor, (loop.counter, 1), {}))
            return loop
        loop = AskedAgain(loops, frame, place, begin, last, recorder.record(FIRST_ITERATION, (), {}))
        loops.begin(loop)
        loops.lists.begin(loop, frames[: index + 1], key, loops.running)
        return loop

    def _held(self, frame: FrameType) -> _Held:
        """The elements of the lists and tuples of a frame, but for those that a loop is known to append to."""
        return {
            name: tuple(elements_of(held))
            for name, held in held_in(frame)
            if (known := self._loops.lists.growing(held)) is None or known.loop not in self._loops.running
        }


def is_asked_in_loop(frames: Sequence[FrameType]) -> bool:
    """Whether a decision of some frames may be asked in each iteration of a loop that no sequence counts."""
    return any(_is_in_loop(frame.f_code, frame.f_lasti) for frame in frames)


def _key(place: Any) -> Hashable:
    """A place without the iterations of `for` loops around it."""
    return tuple(each[:2] for each in place)


def _grown(before: _Held, now: _Held) -> Iterator[tuple[Hashable, int]]:
    """How many elements have been appended to the lists and tuples of a frame."""
    for name, held in now.items():
        earlier = before.get(name, held)
        if len(held) > len(earlier) and all(map(operator.is_, earlier, held)) and isinstance(held[-1], torch.Tensor):
            yield name, len(held) - len(earlier)


@by_code
def _while_loops(code: CodeType) -> tuple[tuple[int, int], ...]:
    """The first and the last instruction of each loop that no sequence counts, the innermost first."""
    found: dict[int, int] = {}
    for each in iterations(code):
        if not each.is_of_for:
            found[each.first] = max(each.last, found.get(each.first, 0))
    return tuple(sorted(found.items(), key=lambda each: each[1] - each[0]))


def _loop_around(code: CodeType, offset: int) -> tuple[int, int] | None:
    return next((each for each in _while_loops(code) if each[0] <= offset <= each[1]), None)


@functools.cache
def _is_in_loop(code: CodeType, offset: int) -> bool:
    positions = list(code.co_positions())
    return _loop_around(code, offset) is not None or any(
        positions[offset // 2] in positions[begin // 2 : last // 2 + 1] for begin, last in _while_loops(code)
    )
