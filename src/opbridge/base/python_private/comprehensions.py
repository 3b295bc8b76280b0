"""The comprehensions of a function, which Python 3.12 and later run in the function itself."""

from __future__ import annotations

from dataclasses import dataclass
from types import CodeType

from opbridge.base.python_private.instructions import Instruction, by_code, instruction_at, instructions

__all__ = ["Hidden", "fills_container", "hidden_at", "leaves_out", "list_of_iterations"]

_APPENDING = {"LIST_APPEND": 1, "SET_ADD": 1, "MAP_ADD": 2}
"""What an iteration of a comprehension ends with, and how many values it takes."""


@dataclass(frozen=True)
class Hidden:
    """A variable that the stack holds while a comprehension has one of the same name.

    Attributes:
        name: Its name in the code.
        place: Where the stack holds it.
        by: The instruction that has put it there.
    """

    name: str
    place: int
    by: Instruction


def hidden_at(code: CodeType, offset: int) -> tuple[Hidden, ...]:
    """The variables that comprehensions hide where a frame is, those of the outermost first; none outside of these.

    Args:
        code: The code of the frame.
        offset: Where it is.
    """
    known = _hiding(code)
    stack = instruction_at(code, offset).stack or () if known else ()
    return tuple(
        Hidden(each.value.partition(" ")[0], place, each)
        for place, put in enumerate(stack)
        if (each := known.get(put)) is not None
    )


def list_of_iterations(code: CodeType, offset: int) -> int | None:
    """Where the stack holds the list that a comprehension's loop appends to; None for any other loop.

    It is a comprehension with one loop, each iteration of which appends one element or none.

    Args:
        code: The code of the function that the loop runs in.
        offset: The instruction that begins an iteration.
    """
    loop = instruction_at(code, offset)
    stack, place = loop.stack or (), loop.before - 2
    if loop.name != "FOR_ITER" or place < 0:
        return None
    made = instruction_at(code, stack[place])
    appending = _appending(code, loop)
    is_list = made.name == "BUILD_LIST" and not made.argument
    # An element is on top of what the loop goes over, which is on top of the list: in no further loop.
    if not is_list or [(each.name, each.argument) for each in appending] != [("LIST_APPEND", 2)]:
        return None
    return place


def fills_container(code: CodeType, offset: int) -> bool:
    """Whether a loop is that of a comprehension, whose result no variable holds until it is complete.

    Args:
        code: The code of the function that the loop runs in.
        offset: The instruction that begins an iteration.
    """
    return bool(_appending(code, instruction_at(code, offset)))


def leaves_out(code: CodeType, offset: int) -> bool:
    """Whether a condition of such a comprehension may leave an element out.

    Args:
        code: The code of the function that the loop runs in.
        offset: The instruction that begins an iteration.
    """
    return list_of_iterations(code, offset) is not None and offset in _choosing(code)


@by_code
def _choosing(code: CodeType) -> frozenset[int]:
    """The loops of which an iteration may end without appending an element."""
    return frozenset(each.offset for each in instructions(code) if each.name == "FOR_ITER" and _chooses(code, each))


def _chooses(code: CodeType, loop: Instruction) -> bool:
    order = [each for each in instructions(code) if each.stack is not None and not each.handles]
    by_offset = {each.offset: index for index, each in enumerate(order)}
    appending = {each.offset for each in _appending(code, loop)}
    waiting, seen = [by_offset[loop.offset] + 1], set()
    while waiting:
        index = waiting.pop()
        if index in seen or order[index].offset in appending:
            continue
        seen.add(index)
        each = order[index]
        if each is loop:
            return True
        if each.target is not None:
            waiting.append(by_offset[each.target])
        if not each.leaves:
            waiting.append(index + 1)
    return False


@by_code
def _hiding(code: CodeType) -> dict[int, Instruction]:
    return {each.offset: each for each in instructions(code) if each.name == "HIDE_FAST"}


def _appending(code: CodeType, loop: Instruction) -> list[Instruction]:
    """What appends, in a loop, to a container that there was before it."""
    return [
        each
        for each in instructions(code)
        if each.name in _APPENDING
        and each.stack is not None
        and loop.offset < each.offset < (loop.target or 0)
        and each.before - _APPENDING[each.name] - each.argument < loop.before - 1
    ]
