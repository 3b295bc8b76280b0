"""The instructions of a function, in one form for all releases of CPython.

What differs between releases, and is the same here:

- An instruction for two variables at once (3.13) is two instructions, the second at an odd offset.
- A variable that may have no value (3.12), and a constant that is returned (3.12), are loaded as any other.
- What a jump leads to is an instruction, and not the prefix of one.
- The value that `and` and `or` decide by is copied before it is asked for its truth (3.12). What asks takes both.
"""

from __future__ import annotations

import dis
import functools
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any, TypeVar

__all__ = ["Handler", "Instruction", "by_code", "handlers", "instruction_at", "instructions"]

_MOST_CODE = 1 << 14
"""Of so many code objects something is known at once: each capture may bring its own."""

_TWO_VARIABLES = re.compile(r"(LOAD|STORE)_FAST_(LOAD|STORE)_FAST")
_LEAVING = frozenset({"RETURN_VALUE", "RERAISE", "RAISE_VARARGS"})
_TAKEN = {
    "BINARY_SUBSCR": 2,
    "BINARY_SLICE": 3,
    "BINARY_OP": 2,
    "COMPARE_OP": 2,
    "CONTAINS_OP": 2,
    "STORE_SUBSCR": 3,
    "STORE_SLICE": 4,
    "BEFORE_WITH": 1,
}
_TAKING_ONE = ("UNARY_", "TO_BOOL", "POP_JUMP_", "JUMP_IF_", "LOAD_ATTR", "LOAD_METHOD", "GET_ITER", "RETURN_VALUE")
_CALL_TAKES_ARGUMENTS = "PRECALL" not in dis.opmap
"""Whether that is what `dis` says: in Python 3.11 it is the instruction before a call which takes its arguments."""

# `dis` has no public name for what an instruction of an operator does; it is the same in Python 3.11 to 3.14.
ADDING_IN_PLACE = bytes(
    (dis.opmap["BINARY_OP"], [name for name, _ in dis._nb_ops].index("NB_INPLACE_ADD"))  # type: ignore[attr-defined]
)
"""The instruction of `x += y`, and its argument."""

_OTHER = -1
"""The place on the stack of what no instruction has put there: an error that is handled."""

_Found = TypeVar("_Found")


@dataclass(frozen=True)
class Instruction:
    """An instruction.

    Attributes:
        name: What it does.
        offset: Where it is.
        begin: Where what comes before it for the size of its argument begins.
        argument: Its argument as a number; 0 where it has none.
        value: What that stands for: the name of a variable, a constant.
        target: The instruction that it may jump to.
        line: The line that it was compiled from.
        effect: How many values the stack holds more after it, where it does not jump.
        effect_of_jump: The same where it jumps.
        stack: What the stack holds before it, each value as the offset of an instruction that has put it there, the
            lowest first; None where no run comes to it.
        handles: Whether it runs after an error only.
        takes_copy: Whether it takes a copy of a value and asks for its truth, after which the value itself is taken.
    """

    name: str
    offset: int
    begin: int
    argument: int
    value: Any
    target: int | None
    line: int | None
    effect: int
    effect_of_jump: int = 0
    stack: tuple[int, ...] | None = None
    handles: bool = False
    takes_copy: bool = False

    @property
    def before(self) -> int:
        """How many values the stack holds before it."""
        return len(self.stack or ())

    @property
    def after(self) -> int:
        """How many it holds after it, where it does not jump."""
        return self.before + self.effect

    @property
    def leaves(self) -> bool:
        """Whether the next instruction does not run after it."""
        return self.name in _LEAVING or self.name.startswith(("JUMP_FORWARD", "JUMP_BACKWARD"))

    @property
    def taken(self) -> int:
        """How many values it takes from the stack, or fewer."""
        if self.name == "CALL":
            return 2 + (self.argument if _CALL_TAKES_ARGUMENTS else 0)
        if self.name == "CALL_KW":
            return 3 + self.argument
        if self.name == "CALL_FUNCTION_EX":
            return 3 + (self.argument & 1)
        return _TAKEN.get(self.name, int(self.name.startswith(_TAKING_ONE))) + self.takes_copy


@dataclass(frozen=True)
class Handler:
    """What handles the errors of some instructions.

    Attributes:
        start: The first of them.
        end: The one after the last of them.
        target: The first one of the handler.
        kept: How many values of the stack it keeps.
        has_place: Whether it finds the place of the error on the stack, under the error.
    """

    start: int
    end: int
    target: int
    kept: int
    has_place: bool


def by_code(function: Callable[[CodeType], _Found]) -> Callable[[CodeType], _Found]:
    """A function of a code object that is computed once for each. Python hashes all that a code object holds."""
    known: dict[int, tuple[CodeType, _Found]] = {}

    @functools.wraps(function)
    def found(code: CodeType) -> _Found:
        if id(code) not in known:
            if len(known) >= _MOST_CODE:
                known.clear()
            known[id(code)] = code, function(code)  # which keeps its identity
        return known[id(code)][1]

    return found


@by_code
def instructions(code: CodeType) -> tuple[Instruction, ...]:
    """The instructions of a function in order, those that no run comes to among them."""
    plain = list(_plain(code))
    stacks = _stacks(plain, handlers(code))
    found: list[Instruction] = []
    for each in plain:
        stack, handles = stacks.get(each.offset, (None, False))
        new = replace(each, stack=stack, handles=handles)
        asks = new.name == "TO_BOOL" or new.name.startswith("POP_JUMP_")
        before = found[-1] if asks and found else None
        if before is not None and before.name == "COPY" and before.argument == 1:
            new = replace(new, takes_copy=True)
        elif before is not None and before.name == "TO_BOOL":
            new = replace(new, takes_copy=before.takes_copy)
        found.append(new)
    return tuple(found)


def instruction_at(code: CodeType, offset: int) -> Instruction:
    """The instruction that runs.

    Args:
        code: The code of a frame.
        offset: Where the frame is, which may be behind the instruction while that calls a function.
    """
    known, offset = _by_offset(code), max(offset, 0)  # before its first instruction, a frame is at -1
    while offset not in known:
        offset -= 2
    return known[offset]


@by_code
def handlers(code: CodeType) -> tuple[Handler, ...]:
    """What handles the errors of a function's instructions."""
    # Python has no public reader of a function's exception table, and the types know only of public names.
    table = dis._parse_exception_table(code)  # type: ignore[attr-defined]
    return tuple(Handler(each.start, each.end, each.target, each.depth, each.lasti) for each in table)


@by_code
def _by_offset(code: CodeType) -> dict[int, Instruction]:
    return {place: each for each in instructions(code) for place in range(each.begin, each.offset + 1)}


def _plain(code: CodeType) -> Iterator[Instruction]:
    """The instructions, without what the stack holds."""
    cells = {*code.co_cellvars, *code.co_freevars}
    begin: int | None = None
    begins: dict[int, int] = {}
    found: list[Instruction] = []
    for each in dis.get_instructions(code):
        begin = each.offset if begin is None else begin
        if each.opname in ("CACHE", "EXTENDED_ARG"):
            begin = None if each.opname == "CACHE" else begin
            continue
        begins[begin] = each.offset
        line = each.positions.lineno if each.positions else None
        argument = each.arg if each.opcode >= dis.HAVE_ARGUMENT else None
        jumps = each.opcode in dis.hasjrel or each.opcode in dis.hasjabs
        effect, of_jump = (dis.stack_effect(each.opcode, argument, jump=jump) for jump in (False, True))
        target = int(each.argval) if jumps else None
        one = Instruction(each.opname, each.offset, begin, each.arg or 0, each.argval, target, line, effect, of_jump)
        begin = None
        if pair := _TWO_VARIABLES.fullmatch(each.opname):
            for number, (kind, name) in enumerate(zip(pair.groups(), each.argval, strict=True)):
                place = each.offset + number
                effect = 1 if kind == "LOAD" else -1
                found.append(replace(one, name=f"{kind}_FAST", offset=place, begin=place, value=name, effect=effect))
        elif each.opname == "RETURN_CONST":
            place = each.offset + 1
            found.append(replace(one, name="LOAD_CONST", effect=1))
            found.append(
                replace(one, name="RETURN_VALUE", offset=place, begin=place, argument=0, value=None, effect=-1)
            )
        else:
            found.append(replace(one, name="LOAD_FAST") if each.opname == "LOAD_FAST_CHECK" else one)
    for one in found:
        if one.name == "LOAD_FAST" and one.value in cells:  # for a function that shares the variable
            one = replace(one, name="LOAD_CLOSURE")
        yield one if one.target is None else replace(one, target=begins.get(one.target, one.target))


def _stacks(plain: list[Instruction], handled: tuple[Handler, ...]) -> dict[int, tuple[tuple[int, ...], bool]]:
    """What the stack holds before each instruction, and whether that runs after an error only."""
    by_offset = {each.offset: each for each in plain}
    following = {one.offset: two.offset for one, two in itertools.pairwise(plain)}
    found: dict[int, tuple[tuple[int, ...], bool]] = {plain[0].offset: ((), False)}
    waiting = [plain[0].offset]
    rest = list(handled)
    while waiting or rest:
        while waiting:
            each = by_offset[waiting.pop()]
            stack, handles = found[each.offset]
            reached = [] if each.leaves or each.offset not in following else [(following[each.offset], each.effect)]
            if each.target is not None:
                reached.append((each.target, each.effect_of_jump))
            for offset, effect in reached:
                if offset not in found and offset in by_offset:
                    found[offset] = _after(each, stack, effect), handles
                    waiting.append(offset)
        for handler in rest:
            inside = [place for place in found if handler.start <= place < handler.end]
            if inside:
                rest.remove(handler)
                if handler.target not in found:
                    kept = found[min(inside)][0][: handler.kept]
                    found[handler.target] = (*kept, *(_OTHER,) * (1 + handler.has_place)), True
                    waiting.append(handler.target)
                break
        else:
            if not waiting:
                break
    return found


def _after(each: Instruction, stack: tuple[int, ...], effect: int) -> tuple[int, ...]:
    """What the stack holds after an instruction."""
    if each.name == "SWAP" and each.argument <= len(stack):
        changed = list(stack)
        changed[-1], changed[-each.argument] = changed[-each.argument], changed[-1]
        return tuple(changed)
    if effect >= 0:
        return (*stack, *(each.offset,) * effect)
    return stack[:effect]
