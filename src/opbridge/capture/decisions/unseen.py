"""What Python holds at a decision beside what its variables show.

Two ways that join at a decision do the same after it where variables are all that Python holds there. The stack of the
interpreter holds more: the values of an expression that is being evaluated, and what the `for` loops go over.
"""

from __future__ import annotations

import dis
import functools
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

import torch

from opbridge.base.torch_private.torch_decisions import numbers_of, symbols_of

__all__ = ["Pending", "handles_errors", "indexing_names", "known_of", "pending"]

_LOADING = frozenset({"LOAD_FAST", "LOAD_CONST", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_CLOSURE", "PUSH_NULL"})
_LOADING_VARIABLES = ("LOAD_FAST", "LOAD_DEREF")
_LOADING_WRITTEN = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL", "LOAD_DEREF")
_PURE = _LOADING | {"LOAD_ATTR", "LOAD_METHOD", "GET_ITER", "BEFORE_WITH"}
_CALLING = frozenset({"PRECALL", "CALL", "KW_NAMES"})
_COMPUTING = _CALLING | {"BINARY_SUBSCR", "BUILD_SLICE"}
_CALLED = frozenset({"enumerate", "zip", "range", "reversed", "len"})
_NOT_PUSHING = ("STORE_", "DELETE_", "POP_", "JUMP_", "FOR_ITER", "NOP", "RESUME", "CACHE")
_TAKEN = {"BINARY_SUBSCR": 2, "BINARY_OP": 2, "COMPARE_OP": 2, "CONTAINS_OP": 2, "STORE_SUBSCR": 3, "BEFORE_WITH": 1}
_TAKING_ONE = ("UNARY_", "POP_JUMP_", "JUMP_IF_", "LOAD_ATTR", "LOAD_METHOD", "GET_ITER", "RETURN_VALUE")


_CALL_TAKES_ARGUMENTS = "PRECALL" not in dis.opmap
"""Whether that is what `dis` says: in Python 3.11 it is the instruction before a call which takes its arguments."""


@dataclass(frozen=True)
class _Instruction:
    """An instruction, and how much the stack holds before it and after it where it does not jump."""

    name: str
    offset: int
    value: Any
    target: int | None
    before: int
    after: int


@dataclass(frozen=True)
class Pending:
    """What the interpreter's stack holds beside what an instruction takes from it.

    Attributes:
        names: The variables that it was loaded from, each with whether it has to be a tensor: the stack holds what a
            method of it has given.
        written: The attributes, global variables and variables shared with inner functions that it was loaded from,
            which others may have written to since.
    """

    names: Mapping[str, bool]
    written: frozenset[str]


def pending(code: CodeType, offset: int) -> Pending | None:
    """What the interpreter's stack holds; None where it may hold anything else than what was loaded from variables.

    Args:
        code: The code of a frame.
        offset: The instruction that runs in it.
    """
    return _pending(code).get(offset)


def indexing_names(code: CodeType) -> frozenset[str]:
    """The variables of a function that are used as an index."""
    return _indexing(code)


def handles_errors(frames: Iterable[FrameType]) -> bool:
    """Whether one of some frames does something about an error, beside leaving the block of a `with` statement."""
    return any(frame.f_lasti in _handled(frame.f_code) for frame in frames)


def known_of(leaves: Iterable[Any], asked: frozenset[Any]) -> tuple[Any, ...] | None:
    """The sizes of values of the graph that are known; None where answers have said something about one of them.

    Args:
        leaves: The values.
        asked: The symbols that decisions have asked for.
    """
    found = []
    for leaf in leaves:
        sizes = leaf.shape if isinstance(leaf, torch.Tensor) else (leaf,)
        found.append(tuple(size if isinstance(size, (int, float)) else str(size) for size in map(_known, sizes)))
        if any(not asked.isdisjoint(symbols_of(number)) for number in numbers_of(leaf)):
            return None
    return tuple(found)


def _known(size: Any) -> Any:
    """A size that is known; None for any other."""
    if isinstance(size, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return None if symbols_of(size) else str(size)
    return size


@functools.cache
def _pending(code: CodeType) -> dict[int, Pending]:
    instructions = _measured(code)
    found: dict[int, Pending] = {}
    for place, each in enumerate(instructions):
        names = _loaded(instructions, place, each.before - _taken(each))
        if names is not None:
            following = instructions[place + 1].offset if place + 1 < len(instructions) else each.offset + 2
            for offset in range(each.offset, following, 2):  # a call is left at the last of its cache entries
                found[offset] = names
    return found


def _taken(each: _Instruction) -> int:
    """How many values an instruction takes from the stack, or fewer."""
    if each.name == "CALL":
        return 2 + (int(each.value or 0) if _CALL_TAKES_ARGUMENTS else 0)
    if each.name == "CALL_FUNCTION_EX":
        return 3 + (int(each.value or 0) & 1)
    return _TAKEN.get(each.name, int(each.name.startswith(_TAKING_ONE)))


def _measured(code: CodeType) -> list[_Instruction]:
    """The instructions that run without an error, in order."""
    instructions = list(dis.get_instructions(code))
    following = {one.offset: two.offset for one, two in itertools.pairwise(instructions)}
    by_offset = {each.offset: each for each in instructions}
    before = {0: 0}
    waiting = [0]
    found = []
    while waiting:
        each = by_offset[waiting.pop()]
        depth = before[each.offset]
        jumps = each.opcode in dis.hasjrel or each.opcode in dis.hasjabs
        argument = each.arg if each.opcode >= dis.HAVE_ARGUMENT else None
        after = depth + dis.stack_effect(each.opcode, argument, jump=False)
        target = each.argval if jumps else None
        found.append(_Instruction(each.opname, each.offset, each.argval, target, depth, after))
        ends = each.opname in ("RETURN_VALUE", "RERAISE", "RAISE_VARARGS") or each.opname.startswith(
            ("JUMP_FORWARD", "JUMP_BACKWARD")
        )
        reached = {} if ends or each.offset not in following else {following[each.offset]: after}
        if target is not None:
            reached[target] = depth + dis.stack_effect(each.opcode, argument, jump=True)
        for offset, height in reached.items():
            if offset not in before:
                before[offset] = height
                waiting.append(offset)
    return sorted(found, key=lambda each: each.offset)


def _loaded(instructions: list[_Instruction], place: int, count: int) -> Pending | None:
    """What the lowest values on the stack were loaded from before an instruction."""
    names: set[str] = set()
    written: set[str] = set()
    tensors: set[str] = set()
    for level in range(count):
        begin = next((i for i in range(place - 1, -1, -1) if instructions[i].before <= level), None)
        if begin is None:
            return None
        pushing = [
            i
            for i in range(begin, place)
            if (instructions[i].after == level + 1 or instructions[i].before <= level < instructions[i].after)
            and not instructions[i].name.startswith(_NOT_PUSHING)
        ]
        if not pushing:
            return None
        made = instructions[begin : pushing[-1] + 1]
        last = instructions[pushing[-1]]
        end = instructions[place].offset
        if last.name == "GET_ITER":  # the loop may write to the variable in a later turn
            end = max(
                (each.target or 0) for each in instructions if each.name == "FOR_ITER" and each.before == last.after
            )
        computed = {each.name for each in made} - _PURE
        if not computed <= _COMPUTING:
            return None
        loaded = {each.value for each in made if each.name in _LOADING_VARIABLES}
        written.update(each.value for each in made if each.name in _LOADING_WRITTEN and each.value not in _CALLED)
        if computed and made[0].name in _LOADING_VARIABLES:
            tensors.add(made[0].value)  # of a tensor, methods and indices give values of the graph
            if any(each.name == "LOAD_GLOBAL" for each in made):
                return None
        elif computed and any(
            each.name not in _LOADING | _CALLING | {"GET_ITER"}
            or (each.name == "LOAD_GLOBAL" and each.value not in _CALLED)
            for each in made
        ):
            return None
        first = instructions[begin].offset
        if any(
            (each.target is not None and each.offset < first < each.target <= instructions[place].offset)
            or (each.name in ("STORE_FAST", "STORE_DEREF") and each.value in loaded and first <= each.offset < end)
            for each in instructions
        ):
            return None
        names |= loaded
    return Pending({name: name in tensors for name in names}, frozenset(written))


@functools.cache
def _indexing(code: CodeType) -> frozenset[str]:
    instructions = [each for each in dis.get_instructions(code) if each.opname != "CACHE"]
    pairs = itertools.pairwise(instructions)
    return frozenset(
        one.argval for one, two in pairs if one.opname == "LOAD_FAST" and two.opname in ("BINARY_SUBSCR", "BINARY_OP")
    )


@functools.cache
def _handled(code: CodeType) -> frozenset[int]:
    """The places in a function at which an error does not leave it, or not at once."""
    names = {each.offset: each.opname for each in dis.get_instructions(code)}
    order = list(names)
    found: set[int] = set()
    # Python has no public reader of a function's exception table, and the types know only of public names.
    for start, end, target, *_ in dis._parse_exception_table(code):  # type: ignore[attr-defined]
        after = order.index(target) + 1
        if names.get(order[after] if after < len(order) else -1) != "WITH_EXCEPT_START":
            found.update(range(start, end, 2))
    return frozenset(found)
