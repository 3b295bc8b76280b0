"""What Python holds at a decision beside what its variables show.

Two paths that join at a decision do the same after it where variables are all that Python holds there. The stack of the
interpreter holds more: the values of an expression that is being evaluated, and what the `for` loops go over.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

import torch

from opbridge.base.python_private.instructions import Instruction, by_code, handlers, instruction_at, instructions
from opbridge.base.torch_private.torch_decisions import numbers_of, symbols_of

__all__ = ["OperandStackSources", "handles_errors", "indexing_names", "known_of", "operand_stack_sources"]

_LOADING = frozenset({"LOAD_FAST", "LOAD_CONST", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_CLOSURE", "PUSH_NULL"})
_LOADING_VARIABLES = ("LOAD_FAST", "LOAD_DEREF")
_LOADING_WRITTEN = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL", "LOAD_DEREF")
_PURE = _LOADING | {"LOAD_ATTR", "LOAD_METHOD", "GET_ITER", "BEFORE_WITH"}
_CALLING = frozenset({"PRECALL", "CALL", "CALL_KW", "KW_NAMES"})
_COMPUTING = _CALLING | {"BINARY_SUBSCR", "BINARY_SLICE", "BUILD_SLICE"}
_CALLED = frozenset({"enumerate", "zip", "range", "reversed", "len"})
_NOT_PUSHING = ("STORE_", "DELETE_", "POP_", "JUMP_", "FOR_ITER", "END_FOR", "NOP", "RESUME")
_ITERATOR = ".0"
"""What a generator goes over. The place of the frame tells in which iteration it is."""
_INDEXING = ("BINARY_SUBSCR", "BINARY_OP")
_CLEANING = frozenset({"SWAP", "POP_TOP", "STORE_FAST"})


@dataclass(frozen=True)
class OperandStackSources:
    """What the interpreter's stack holds beside what an instruction takes from it.

    Attributes:
        names: The variables that it was loaded from, each with whether it has to be a tensor: the stack holds what a
            method of it has given.
        written: The attributes, global variables and variables shared with inner functions that it was loaded from,
            which others may have written to since.
    """

    names: Mapping[str, bool]
    written: frozenset[str]


def operand_stack_sources(code: CodeType, offset: int) -> OperandStackSources | None:
    """What the interpreter's stack holds; None where it may hold anything else than what was loaded from variables.

    Args:
        code: The code of a frame.
        offset: The instruction that runs in it.
    """
    return _pending(code).get(instruction_at(code, offset).offset)


def indexing_names(code: CodeType) -> frozenset[str]:
    """The variables of a function that are used as an index."""
    return _indexing(code)


def handles_errors(frames: Iterable[FrameType]) -> bool:
    """Whether one of some frames does something about an error, beside leaving the block of a `with` statement."""
    return any(_is_handled(frame.f_code, frame.f_lasti) for frame in frames)


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


@by_code
def _pending(code: CodeType) -> dict[int, OperandStackSources]:
    run = [each for each in instructions(code) if each.stack is not None and not each.handles]
    found: dict[int, OperandStackSources] = {}
    for place, each in enumerate(run):
        names = _loaded(run, place, each.before - each.taken)
        if names is not None:
            found[each.offset] = names
    return found


def _loaded(instructions: list[Instruction], place: int, count: int) -> OperandStackSources | None:
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
        if last.name == "GET_ITER":  # the loop may write to the variable in a later iteration
            ends = ((each.target or 0) for each in instructions if _goes_on(each, last.after))
            end = max(ends, default=end)
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
        names |= loaded - {_ITERATOR}
    return OperandStackSources({name: name in tensors for name in names}, frozenset(written))


def _goes_on(each: Instruction, height: int) -> bool:
    """Whether an instruction begins the iterations of a loop whose iterator is the topmost of so many values."""
    return each.name == "FOR_ITER" and each.before == height


@by_code
def _indexing(code: CodeType) -> frozenset[str]:
    pairs = itertools.pairwise(instructions(code))
    return frozenset(one.value for one, two in pairs if one.name == "LOAD_FAST" and two.name in _INDEXING)


def _is_handled(code: CodeType, offset: int) -> bool:
    """Whether an error at a place does not leave a function, or not at once."""
    return any(start <= offset < end for start, end in _handled(code))


@by_code
def _handled(code: CodeType) -> tuple[tuple[int, int], ...]:
    """The first place of each part of a function that a handler is for, and the one after its last."""
    found = instructions(code)
    places = {each.offset: place for place, each in enumerate(found)}
    return tuple((each.start, each.end) for each in handlers(code) if not _only_leaves([*found[places[each.target] :]]))


def _only_leaves(handler: list[Instruction]) -> bool:
    """Whether a handler leaves the block of a `with` statement, or does what Python adds to a function, alone."""
    if [each.name for each in handler[1:2]] == ["WITH_EXCEPT_START"]:
        return True
    if [each.name for each in handler[:2]] == ["CALL_INTRINSIC_1", "RERAISE"]:  # of a generator
        return True
    first = next(each for each in handler if each.name not in _CLEANING)
    return first.name == "RERAISE"
