"""Which local variables of a function are read again after a place in its code."""

from __future__ import annotations

import dis
import functools
from types import CodeType

__all__ = ["live_names"]

_READING = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_AND_CLEAR", "DELETE_FAST"})
_READING_CELLS = frozenset({"LOAD_DEREF", "LOAD_CLOSURE", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF", "DELETE_DEREF"})
_LEAVING = frozenset({"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"})
_WITHOUT_NEXT = _LEAVING | {"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"}
_JUMPS = frozenset(dis.hasjrel) | frozenset(dis.hasjabs)
_READING_ALL = frozenset({"locals", "vars", "eval", "exec", "super"})


def live_names(code: CodeType, offset: int) -> frozenset[str]:
    """The local variables that may be read after an instruction before they are written.

    Variables of functions around this one are always among them. One that it shares with an inner function is where it
    reads it, or makes such a function: a function that exists already is told from others by what it shares.

    Args:
        code: The code of the function.
        offset: Where the instruction is.
    """
    live = _live(code)
    while offset > 0 and offset not in live:
        offset -= 2  # a call of a function is left at the last of its cache entries
    return live.get(offset, frozenset(code.co_varnames + code.co_cellvars)) | frozenset(code.co_freevars)


@functools.cache
def _live(code: CodeType) -> dict[int, frozenset[str]]:
    """The variables that are live after each instruction."""
    instructions = list(dis.get_instructions(code))
    if _READING_ALL.intersection(code.co_names) or any(not _is_known(each) for each in instructions):
        return {}
    following: dict[int, list[int]] = {}
    for each, after in zip(instructions, [*instructions[1:], None], strict=True):
        found = [] if each.opname in _WITHOUT_NEXT else [after]
        following[each.offset] = [next_one.offset for next_one in found if next_one is not None]
        if each.opcode in _JUMPS:
            following[each.offset].append(each.argval)
    # Python has no public reader of a function's exception table, and the types know only of public names.
    for start, end, target, *_ in dis._parse_exception_table(code):  # type: ignore[attr-defined]
        for each in instructions:
            if start <= each.offset < end:
                following[each.offset].append(target)
    before = {each.offset: frozenset[str]() for each in instructions}
    after_each = dict(before)
    changed = True
    while changed:
        changed = False
        for each in reversed(instructions):
            found_after = frozenset[str]().union(*(before[place] for place in following[each.offset]))
            needed = found_after - {each.argval} if each.opname in ("STORE_FAST", "STORE_DEREF") else found_after
            needed = needed | {each.argval} if each.opname in _READING | _READING_CELLS else needed
            changed = changed or needed != before[each.offset]
            before[each.offset], after_each[each.offset] = needed, found_after
    return after_each


def _is_known(instruction: dis.Instruction) -> bool:
    """Whether it is known what an instruction does with local variables."""
    return "FAST" not in instruction.opname or instruction.opname in {*_READING, "STORE_FAST"}
