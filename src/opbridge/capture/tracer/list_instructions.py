"""What the instructions of a function do with the lists that its variables hold."""

from __future__ import annotations

import dis
import functools
import itertools
from types import CodeType, FrameType

from opbridge.base.python_private.instructions import instruction_at

__all__ = ["elements_read", "is_added_in_place", "is_index"]

_STORING = ("STORE_FAST", "STORE_DEREF", "STORE_NAME", "STORE_GLOBAL")


def is_added_in_place(frame: FrameType) -> bool:
    """Whether the instruction that a frame runs is the `+=` of a variable."""
    return _added(frame.f_code, instruction_at(frame.f_code, frame.f_lasti).offset) is not None


def is_index(frame: FrameType) -> bool:
    """Whether the instruction that a frame runs reads or writes by an index, or deletes.

    Where a list of a symbolic length is asked for its length there, torch asks whether it stands for a tuple of few
    indices. It does not, which an error says.
    """
    return _indexes(frame.f_code, instruction_at(frame.f_code, frame.f_lasti).offset)


_INDEXING = ("BINARY_SUBSCR", "STORE_SUBSCR", "DELETE_SUBSCR")


@functools.cache
def elements_read(code: CodeType, name: str, *, from_begin: bool = False) -> int:
    """How far from the end a function reads single elements of what a variable holds: 2 for `found[-2]`.

    1 where it reads elements by other indices than constants from there, and 0 where it reads none.

    Args:
        code: The code of the function.
        name: The variable.
        from_begin: Whether it is counted from the begin instead: 2 for `found[1]`.
    """
    instructions = [each for each in dis.get_instructions(code) if each.positions is not None]
    begins = {_begin(each) for each in instructions if each.opname.startswith("LOAD_") and each.argval == name}
    found = 0
    for index, each in itertools.pairwise(instructions):
        is_read = each.opname in ("BINARY_SUBSCR", "BINARY_SLICE") or (each.opname, each.argrepr) == ("BINARY_OP", "[]")
        if is_read and _begin(each) in begins:
            is_constant = index.opname.startswith("LOAD_") and type(index.argval) is int
            found = max(found, (index.argval + 1 if from_begin else -index.argval) if is_constant else 1, 1)
    return found


def _begin(instruction: dis.Instruction) -> tuple[int | None, int | None]:
    """The line and the column that an instruction is compiled from."""
    positions = instruction.positions
    return (None, None) if positions is None else (positions.lineno, positions.col_offset)


@functools.cache
def _indexes(code: CodeType, offset: int) -> bool:
    (instruction,) = (each for each in dis.get_instructions(code) if each.offset == offset)
    return instruction.opname in _INDEXING or (instruction.opname, instruction.argrepr) == ("BINARY_OP", "[]")


@functools.cache
def _added(code: CodeType, offset: int) -> str | None:
    """The variable that an instruction adds something to in place."""
    instructions = list(dis.get_instructions(code))
    for each, following in itertools.pairwise(instructions):
        if each.offset == offset and each.opname == "BINARY_OP" and each.argrepr == "+=":
            return str(following.argval) if following.opname in _STORING else None
    return None
