"""The loops of a function, and the lines that begin their iterations."""

from __future__ import annotations

import dis
import itertools
from dataclasses import dataclass
from types import CodeType

from opbridge.base.python_private.instructions import by_code, instructions

__all__ = ["ForLoop", "Iteration", "end_of", "for_loops", "has_for_loops", "iterations", "loop_over"]

_FOR_ITER = dis.opmap["FOR_ITER"]


@dataclass(frozen=True)
class Iteration:
    """The instructions of an iteration of a loop, up to one that begins the next iteration.

    Attributes:
        first: The first of them.
        last: The last of them.
        line: The line that an iteration begins with: that of the condition, where it ends with that.
        is_of_for: Whether a sequence counts the iterations.
    """

    first: int
    last: int
    line: int | None
    is_of_for: bool


@dataclass(frozen=True)
class ForLoop:
    """A loop whose iterations a sequence counts.

    Attributes:
        first: The instruction that begins an iteration.
        end: The one after the last.
        line: The line of the first.
    """

    first: int
    end: int
    line: int


@by_code
def iterations(code: CodeType) -> tuple[Iteration, ...]:
    """The iterations of a function's loops. A loop that goes on from several places has several."""
    found = instructions(code)
    by_offset = {each.offset: each for each in found}
    result = []
    for before, each in itertools.pairwise(found):
        first = by_offset.get(each.target) if each.target is not None and "BACKWARD" in each.name else None
        if first is not None:
            # A conditional jump leads backward in Python 3.11 alone; in later ones it leads over the one that does.
            is_condition = not each.name.startswith("JUMP_") or before.name.startswith("POP_JUMP_")
            line = each.line if is_condition else first.line
            result.append(Iteration(first.offset, each.offset, line, first.name == "FOR_ITER"))
    return tuple(result)


@by_code
def has_for_loops(code: CodeType) -> bool:
    """Whether there are any. It takes less time than finding them."""
    return _FOR_ITER in code.co_code[::2]


@by_code
def for_loops(code: CodeType) -> tuple[ForLoop, ...]:
    """The loops of a function whose iterations sequences count."""
    found = (each for each in instructions(code) if each.name == "FOR_ITER")
    return tuple(ForLoop(each.offset, each.target or 0, each.line or 0) for each in found)


def end_of(code: CodeType, offset: int) -> int:
    """The instruction after a loop, by the one that begins an iteration."""
    return next(each.end for each in for_loops(code) if each.first == offset)


def loop_over(code: CodeType, offset: int) -> int | None:
    """The instruction that begins an iteration of the `for` statement over what a call gives; None for another call.

    Args:
        code: The code of the function.
        offset: The instruction that calls.
    """
    return _loops_over_calls(code).get(offset)


@by_code
def _loops_over_calls(code: CodeType) -> dict[int, int]:
    found = instructions(code)
    triples = zip(found, found[1:], found[2:], strict=False)
    return {
        one.offset: three.offset for one, two, three in triples if (two.name, three.name) == ("GET_ITER", "FOR_ITER")
    }
