"""Truth values that are asked for within `and` and `or`, and that the rest of the expression makes no use of.

`n > 1 and mask is None and causal` is False whatever n is, where the rest of it is. Python asks in order, and so asks
for what does not matter.
"""

from __future__ import annotations

import itertools
import re
from types import FrameType
from typing import Any

from opbridge.base.python_private.frames import variables
from opbridge.base.python_private.instructions import Instruction, by_code, instruction_at, instructions

__all__ = ["answer_without_effect"]

_JUMP = re.compile(r"(?:POP_JUMP_|JUMP_)(?:FORWARD_)?IF_(TRUE|FALSE|NONE|NOT_NONE)(_OR_POP)?")
_MOST_STEPS = 32
_UNKNOWN = object()


def answer_without_effect(frame: FrameType) -> bool | None:
    """The answer after which an expression goes on, where it comes to the same as with the other one.

    What follows in it are variables, constants, `is`, `not`, `and` and `or` alone.

    Args:
        frame: The frame whose instruction asks for a truth value.

    Returns:
        The answer; None where the answer matters, or that is not known.
    """
    asks = instruction_at(frame.f_code, frame.f_lasti)
    if asks.name != "TO_BOOL" and not _JUMP.fullmatch(asks.name):
        return None
    following = _following(frame.f_code)
    jump = following[asks.offset] if asks.name == "TO_BOOL" and asks.offset in following else asks
    form = _JUMP.fullmatch(jump.name)
    if form is None or form[1] not in ("TRUE", "FALSE") or jump.target is None or jump.target < jump.offset:
        return None
    of_other = form[1] == "TRUE"  # the answer with which Python jumps
    keeps_value = bool(form[2]) or jump.takes_copy
    expected = [of_other] if keeps_value else []
    stack: list[Any] = [_UNKNOWN] if jump.takes_copy else []
    held: dict[str, Any] | None = None
    step = following.get(jump.offset)
    for _ in range(_MOST_STEPS):
        if step is None:
            return None
        if step.offset == jump.target:
            is_same = len(stack) == len(expected) and all(a is b for a, b in zip(stack, expected, strict=True))
            return not of_other if is_same else None
        if step.name in ("LOAD_FAST", "LOAD_DEREF") and held is None:
            held = variables(frame)
        found = _after(step, stack, held or {})
        if found is None:
            return None
        jumps = found and step.target is not None
        step = instruction_at(frame.f_code, step.target or 0) if jumps else following.get(step.offset)
    return None


def _after(step: Instruction, stack: list[Any], held: dict[str, Any]) -> bool | None:
    """Runs an instruction on a stack, and says whether it jumps; None where it is none that is known."""
    if step.name in ("LOAD_FAST", "LOAD_DEREF") and step.value in held:
        stack.append(held[step.value])
    elif step.name == "LOAD_CONST":
        stack.append(step.value)
    elif step.name == "POP_TOP" and stack:
        stack.pop()
    elif step.name == "COPY" and step.argument == 1 and stack:
        stack.append(stack[-1])
    elif step.name == "IS_OP" and len(stack) > 1:
        other, one = stack.pop(), stack.pop()
        if one is _UNKNOWN or other is _UNKNOWN:
            return None
        stack.append((one is other) != bool(step.argument))
    elif step.name in ("UNARY_NOT", "TO_BOOL") and stack and _is_plain(stack[-1]):
        stack.append(bool(stack.pop()) != (step.name == "UNARY_NOT"))
    elif (form := _JUMP.fullmatch(step.name)) and stack and stack[-1] is not _UNKNOWN:
        return _jumps(form, stack)
    elif step.name != "NOP":
        return None
    return False


def _jumps(form: re.Match[str], stack: list[Any]) -> bool | None:
    asked = stack.pop()
    if form[1] in ("NONE", "NOT_NONE"):
        return (asked is None) == (form[1] == "NONE")
    if not _is_plain(asked):
        return None
    jumps = bool(asked) == (form[1] == "TRUE")
    if jumps and form[2]:
        stack.append(asked)
    return jumps


def _is_plain(value: Any) -> bool:
    return value is None or type(value) in (bool, int, str)


@by_code
def _following(code: Any) -> dict[int, Instruction]:
    """The instruction after each one."""
    found = instructions(code)
    return {one.offset: two for one, two in itertools.pairwise(found)}
