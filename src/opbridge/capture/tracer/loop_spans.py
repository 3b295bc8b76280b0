"""Where loops run: the frame of a loop, and its instructions there."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from types import FrameType

from opbridge.base.python_private.instructions import instruction_at
from opbridge.base.python_private.loops import end_of

__all__ = ["LoopSpan", "runs_in"]


@dataclass(frozen=True)
class LoopSpan:
    """Where a loop runs.

    Attributes:
        frame: The frame that it runs in.
        first: The instruction that begins an iteration; -1 where the loop has not begun.
        end: The instruction after the loop.
        outer: Where it is the loop of a generator, what goes over that.
    """

    frame: FrameType
    first: int = -1
    end: int = -1
    outer: LoopSpan | None = None

    @classmethod
    def around(cls, frame: FrameType) -> LoopSpan:
        """What goes over a generator, by the frame that does: a loop, or one instruction, such as a call of `list`."""
        at = instruction_at(frame.f_code, frame.f_lasti)
        end = end_of(frame.f_code, at.offset) if at.name == "FOR_ITER" else at.offset + 1
        return cls(frame, at.offset, end, cls.around_generator(frame))

    @classmethod
    def around_generator(cls, frame: FrameType) -> LoopSpan | None:
        """What goes over a generator, by the frame of the generator; None for any other frame."""
        is_generator = frame.f_code.co_flags & inspect.CO_GENERATOR
        return cls.around(frame.f_back) if is_generator and frame.f_back is not None else None

    def outers(self) -> Iterator[LoopSpan]:
        """What goes over the generator that it is the loop of, the innermost first: that may be a generator too."""
        outer = self.outer
        while outer is not None:
            yield outer
            outer = outer.outer

    def place(self) -> Hashable:
        """Which loop it is, in any execution; for the loop of a generator, with what goes over that, and for whom."""
        spans = [self, *self.outers()]
        found: list[Hashable] = [(each.frame.f_code, each.first) for each in spans]
        caller = spans[-1].frame.f_back if len(spans) > 1 else None
        while caller is not None and str(caller.f_globals.get("__name__")).startswith("opbridge."):
            caller = caller.f_back
        if caller is not None:
            found.append((caller.f_code, caller.f_lasti))
        return tuple(found)

    def runs(self) -> bool:
        """Whether an iteration of it runs."""
        spans = [self, *self.outers()]
        return all(each._is_current() for each in spans) and runs_in(spans[-1].frame)

    def _is_current(self) -> bool:
        """Whether the frame is at an instruction of the loop."""
        return self.first <= instruction_at(self.frame.f_code, self.frame.f_lasti).offset < self.end


def runs_in(frame: FrameType) -> bool:
    """Whether what asks runs in a frame, or in what that has called."""
    each: FrameType | None = sys._getframe(1)
    while each is not None:
        if each is frame:
            return True
        each = each.f_back
    return False
