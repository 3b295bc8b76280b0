"""Python numbers that a loop changes, as in `count += 1`: they become tensors that the loop carries.

So do those in objects and dicts that variables hold, as in `state.steps += 1`.

A run shows that a variable holds another number when Python is at a decision again. In the runs after it, the number
that the variable holds where an iteration begins is written to a tensor and read from that: a number that data decide.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Hashable, Iterable
from types import CodeType, FrameType
from typing import Any

import torch

from opbridge.base.python_private.comprehensions import hidden_names
from opbridge.base.python_private.frames import variables
from opbridge.base.python_private.instructions import by_code, instruction_at, instructions
from opbridge.base.python_private.loops import Iteration, iterations
from opbridge.base.torch_private.torch_branch_operators import CARRIED
from opbridge.capture.control_flow.liveness import live_names
from opbridge.capture.tracer.list_rows import attributes_of_object
from opbridge.capture.tracer.loop_summaries import LoopSummary

__all__ = ["CarriedNumbers", "carried", "carry"]

_FEW = 4
_NUMBERS = (int, float, torch.SymInt, torch.SymFloat)


class CarriedNumbers:
    """Finds the variables that hold another number in each iteration of a loop.

    Args:
        learned: Where they are noted.
    """

    def __init__(self, learned: LoopSummary) -> None:
        self._learned = learned
        self._held: dict[Hashable, list[tuple[FrameType, dict[Hashable, Any]]]] = {}
        self._visits: Counter[Hashable] = Counter()

    def are_new(self, frames: Iterable[FrameType], place: Hashable, asks: bool) -> bool:
        """Whether there is one that has not been noted.

        Args:
            frames: The frames at a decision.
            place: Where they are.
            asks: Whether a loop asks by it whether there is a further iteration. Another loop may have a known number
                of iterations, and has to have more than some for that.
        """
        if not self._learned.carries_numbers:
            return False
        now = [(frame, _numbers(frame)) for frame in frames]
        before = self._held.get(place)
        self._held[place] = now
        self._visits[place] += 1
        if before is None or (not asks and self._visits[place] < _FEW):
            return False
        is_new = False
        for (frame, numbers), (other, earlier) in zip(now, before, strict=True):
            if frame is not other:
                return is_new  # the function was called again
            known = self._learned.numbers.get(frame.f_code, set())
            for name, number in numbers.items():
                if name in known or name not in earlier or _is_same(number, earlier[name]):
                    continue
                self._learned.numbers.setdefault(frame.f_code, set()).add(name)
                is_new = True
        return is_new


def _numbers(frame: FrameType) -> dict[Hashable, Any]:
    """The numbers that variables of a frame hold and that one iteration of the loop around it passes to the next.

    Those in an object or a dict that a variable holds have its name and their own.
    """
    held = variables(frame)
    names = _carried_names(frame.f_code, frame.f_lasti)
    found: dict[Hashable, Any] = {name: held[name] for name in names & held.keys() if _is_number(held[name])}
    for name in _passed_names(frame.f_code, frame.f_lasti) & held.keys():
        found |= {(name, key): value for key, value in _held_by(held[name]).items() if _is_number(value)}
    return found


def _held_by(value: Any) -> dict[Any, Any]:
    """What an object or a dict holds."""
    return value if type(value) is dict else attributes_of_object(value)


def _put(value: Any, name: Any, number: Any) -> None:
    """Gives an object or a dict another number."""
    if type(value) is dict:
        value[name] = number
    else:
        object.__setattr__(value, name, number)


def _is_number(value: Any) -> bool:
    return isinstance(value, _NUMBERS) and type(value) is not bool


def _is_same(one: Any, other: Any) -> bool:
    symbolic = (torch.SymInt, torch.SymFloat)
    if isinstance(one, symbolic) or isinstance(other, symbolic):
        return one is other
    return type(one) is type(other) and repr(one) == repr(other)


@functools.cache
def _carried_names(code: CodeType, offset: int) -> frozenset[str]:
    """The variables that an iteration of a loop around an instruction writes, and that a later one may read."""
    found: set[str] = set()
    for iteration in _around(code, offset):
        written = {
            each.value
            for each in instructions(code)
            if iteration.first <= each.offset <= iteration.last and each.name in ("STORE_FAST", "STORE_DEREF")
        }
        found |= written & live_names(code, iteration.last)
    return frozenset(found)


@functools.cache
def _passed_names(code: CodeType, offset: int) -> frozenset[str]:
    """The variables that a later iteration of a loop around an instruction may read as an earlier one has left them."""
    return frozenset(name for each in _around(code, offset) for name in live_names(code, each.last))


def _around(code: CodeType, offset: int) -> list[Iteration]:
    """The iterations of the loops around an instruction."""
    return [each for each in iterations(code) if each.first <= offset <= each.last + 20]


@by_code
def _heads(code: CodeType) -> frozenset[int]:
    """The lines that iterations of the loops of a function begin with."""
    return frozenset(each.line for each in iterations(code) if each.line is not None)


def carry(frame: FrameType, names: Iterable[Hashable], tensors: dict[int, tuple[Any, torch.Tensor]]) -> None:
    """Where an iteration of a loop begins, has the numbers of some variables read from tensors.

    It is called by a trace function, after which Python takes the variables from `f_locals`.

    Args:
        frame: The frame of the loop.
        names: The variables; for a number in an object or a dict, the variable and the name of the number.
        tensors: Gets each number, with the tensor that it is read from, by the identity of the number.
    """
    if frame.f_lineno not in _heads(frame.f_code) or hidden_names(frame.f_code, frame.f_lasti):
        return
    held, next_one = frame.f_locals, instruction_at(frame.f_code, frame.f_lasti)
    live = live_names(frame.f_code, frame.f_lasti) | {next_one.value}
    for name in names:
        variable, *key = name if isinstance(name, tuple) else (name,)
        if variable not in live or variable not in held:  # what nothing reads any more is not told from path to path
            continue
        of = _held_by(held[variable]) if key else held
        number = of.get(key[0] if key else variable)
        if not _is_number(number):
            continue
        tensor = CARRIED(number, isinstance(number, (float, torch.SymFloat)))
        read = tensor.item()
        _put(held[variable] if key else held, key[0] if key else variable, read)
        tensors[id(read)] = read, tensor


def carried(number: Any, floating: bool) -> torch.Tensor:
    """A number as a tensor."""
    return torch.full((), number, dtype=torch.float64 if floating else torch.int64)
