"""Which local variables of a function are read again after a place in its code."""

from __future__ import annotations

import itertools
from types import CodeType

from opbridge.base.python_private.instructions import Instruction, by_code, handlers, instruction_at, instructions

__all__ = ["live_names"]

_READING = frozenset({"LOAD_FAST", "DELETE_FAST", "LOAD_FAST_AND_CLEAR"})  # what a comprehension hides, it puts back
_READING_CELLS = frozenset({"LOAD_DEREF", "LOAD_CLOSURE", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF", "DELETE_DEREF"})
_WRITING = frozenset({"STORE_FAST", "STORE_DEREF"})
_READING_ALL = frozenset({"locals", "vars", "eval", "exec"})
_READING_FIRST = "super"
"""What reads the first argument of a function, where it is called without arguments."""
_ITERATOR = ".0"
"""What a comprehension or generator goes over, as which the stack has it too."""


def live_names(code: CodeType, offset: int) -> frozenset[str]:
    """The local variables that may be read after an instruction before they are written.

    Variables of functions around this one are always among them. One that it shares with an inner function is where it
    reads it, or makes such a function: a function that exists already is told from others by what it shares.

    Args:
        code: The code of the function.
        offset: Where the instruction is.
    """
    live = _live(code)
    found = _all_names(code) if live is None else live[instruction_at(code, offset).offset]
    return found | frozenset(code.co_freevars)


@by_code
def _all_names(code: CodeType) -> frozenset[str]:
    return frozenset((*code.co_varnames, *code.co_cellvars)) - {_ITERATOR}


@by_code
def _live(code: CodeType) -> dict[int, frozenset[str]] | None:
    """The variables that are live after each instruction; None where that is not known."""
    found = instructions(code)
    if _READING_ALL.intersection(code.co_names) or any(not _is_known(each) for each in found):
        return None
    following: dict[int, list[int]] = {each.offset: [] for each in found}
    for each, after in itertools.pairwise(found):
        if not each.leaves:
            following[each.offset].append(after.offset)
    for each in found:
        if each.target is not None:
            following[each.offset].append(each.target)
        following[each.offset] += [one.target for one in handlers(code) if one.start <= each.offset < one.end]
    before = {each.offset: frozenset[str]() for each in found}
    after_each = dict(before)
    changed = True
    while changed:
        changed = False
        for each in reversed(found):
            found_after = frozenset[str]().union(*(before[place] for place in following[each.offset]))
            needed = found_after - {each.value} if each.name in _WRITING else found_after
            needed = needed | _read(code, each)
            changed = changed or needed != before[each.offset]
            before[each.offset], after_each[each.offset] = needed, found_after
    return after_each


def _read(code: CodeType, instruction: Instruction) -> frozenset[str]:
    """The local variables that an instruction, or the function that it loads, may read."""
    if instruction.name in _READING | _READING_CELLS:
        return frozenset({instruction.value})
    is_first = instruction.name == "LOAD_GLOBAL" and instruction.value == _READING_FIRST
    return frozenset(code.co_varnames[:1]) - {_ITERATOR} if is_first and code.co_argcount else frozenset()


def _is_known(instruction: Instruction) -> bool:
    """Whether it is known what an instruction does with local variables."""
    return "FAST" not in instruction.name or instruction.name in _READING | {"STORE_FAST"}
