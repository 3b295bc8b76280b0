"""Where loops run: the frame of a loop, and its instructions there."""

from __future__ import annotations

import sys
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
        return cls(frame, at.offset, end_of(frame.f_code, at.offset) if at.name == "FOR_ITER" else at.offset + 1)

    def runs(self) -> bool:
        """Whether an iteration of it runs."""
        if not self._is_current():
            return False
        outer = self.outer
        if outer is None:
            return runs_in(self.frame)
        return runs_in(outer.frame) and outer._is_current()

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
