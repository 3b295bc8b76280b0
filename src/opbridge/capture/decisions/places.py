"""Where the model's Python is: the lines that run, and how often the loops around them have begun a turn."""

from __future__ import annotations

import contextlib
import dis
import functools
from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping
from types import CodeType, FrameType
from typing import Any, TypeVar

import torch

from opbridge.base.python_tracing import tracing
from opbridge.capture.decisions.changing_numbers import carry

__all__ = ["Turns", "frames_between", "is_of_others", "is_the_models", "place"]

_DIAGNOSING = {"dis", "importlib", "inspect", "linecache", "logging", "re", "tokenize", "traceback", "warnings"}
"""Parts of Python that torch runs at each operator, and that call nothing of a model's."""

_OTHERS = frozenset({"torch", "opbridge", "contextlib", "dataclasses", "functools", "sympy", "mpmath"} | _DIAGNOSING)

_MOST_CODE = 1 << 14
"""Of so many code objects something is known at once: each capture may bring its own."""

_Found = TypeVar("_Found")


class Turns:
    """Counts the turns of the `for` loops that run.

    The position in a sequence that a `for` loop goes over is held by the interpreter alone. Two places in a loop are
    the same only in the same turn.

    Args:
        returned: Called with the frame of a function that has such a loop, and with what it returns.
        numbers: The variables of functions that hold another number in each turn of a loop.
        begun: Called with the frame of each function that begins to run.
        wants_instructions: Whether `ran` is to be told of each instruction of a frame that has such a loop.
        ran: Called with the frame before each of these.

    Attributes:
        carried: The numbers of these, each with the tensor that it is read from, by their identity.
    """

    def __init__(
        self,
        returned: Callable[[FrameType, Any], None],
        numbers: Mapping[CodeType, Iterable[str]],
        begun: Callable[[FrameType], None] = lambda frame: None,
        wants_instructions: Callable[[FrameType], bool] = lambda frame: False,
        ran: Callable[[FrameType], None] = lambda frame: None,
    ) -> None:
        self._returned, self._begun = returned, begun
        # By identity, as Python hashes all that a code object holds: each with the code, which keeps its identity.
        self._numbers = {id(code): (code, tuple(names)) for code, names in numbers.items()}
        self._wants_instructions, self._instruction_ran = wants_instructions, ran
        self.carried: dict[int, tuple[Any, torch.Tensor]] = {}
        self._counts: dict[FrameType, Counter[int]] = {}

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Within this context, turns are counted."""
        try:
            with tracing(self._called):
                yield
        finally:
            self._counts.clear()

    def of(self, frame: FrameType, asking: Container[int] = ()) -> tuple[int, ...]:
        """The turn of each `for` loop that a frame is in, the outermost first.

        Args:
            frame: The frame.
            asking: The offsets of the loops that ask before each turn, and are at the same place in each.
        """
        counts: Counter[int] = self._counts.get(frame, Counter())
        return tuple(
            0 if first in asking else counts.get(line, 0)
            for first, last, line in _loops(frame.f_code)
            if first <= frame.f_lasti < last
        )

    def begin_turn(self, frame: FrameType, offset: int) -> None:
        """Begins a turn of a loop that asks: the loops in it begin anew."""
        counts = self._counts.get(frame)
        if counts is None:
            return
        loops = _loops(frame.f_code)
        begin, end, own = next((each for each in loops if each[0] == offset), (0, 0, 0))
        for first, _, line in loops:
            if begin < first < end and line != own:
                counts.pop(line, None)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        self._begun(frame)
        has_loops = _loops(frame.f_code) or id(frame.f_code) in self._numbers
        if not has_loops or not is_the_models(frame):
            return None
        frame.f_trace_opcodes = self._wants_instructions(frame)
        return self._ran

    def _ran(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self._counts.setdefault(frame, Counter())[frame.f_lineno] += 1
            if id(frame.f_code) in self._numbers:
                carry(frame, self._numbers[id(frame.f_code)][1], self.carried)
        elif event == "opcode":
            self._instruction_ran(frame)
        elif event == "return":
            self._counts.pop(frame, None)
            self._returned(frame, argument)
        return self._ran


def _by_code(function: Callable[[CodeType], _Found]) -> Callable[[CodeType], _Found]:
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


@_by_code
def _loops(code: CodeType) -> tuple[tuple[int, int, int], ...]:
    """The first and the last offset of each `for` loop's body, and the line that begins a turn."""
    return tuple(
        (each.offset, each.argval, each.positions.lineno or 0 if each.positions else 0)
        for each in dis.get_instructions(code)
        if each.opname == "FOR_ITER"
    )


def frames_between(innermost: FrameType | None, outermost: FrameType) -> Iterator[FrameType]:
    """The frames that run, the outermost first and without itself."""
    found = []
    frame = innermost
    while frame is not None and frame is not outermost:
        found.append(frame)
        frame = frame.f_back
    yield from reversed(found)


def is_the_models(frame: FrameType) -> bool:
    """Whether a frame runs the model's code, or one of torch's modules."""
    name = str(frame.f_globals.get("__name__"))
    if name == "torch.nn.modules.module":  # which calls modules, and their hooks
        return False
    return not is_of_others(name)


def is_of_others(name: str) -> bool:
    """Whether a module of Python's is not the model's, given its name; torch's layers count as the model's."""
    return not name.startswith("torch.nn.") and name.partition(".")[0] in _OTHERS


def place(
    frames: list[FrameType], turns: Turns, asking: Callable[[FrameType], Container[int]] = lambda frame: ()
) -> Hashable:
    """Where frames are.

    Args:
        frames: The frames.
        turns: The turns of their loops.
        asking: Gives the offsets of the loops in a frame that ask before each turn.

    In lines and columns: Python compiles the condition of a `while` twice, before the loop and at the end of a turn.
    """
    return tuple(
        (frame.f_code, _positions(frame.f_code)[frame.f_lasti // 2], turns.of(frame, asking(frame))) for frame in frames
    )


@_by_code
def _positions(code: CodeType) -> tuple[Hashable, ...]:
    """For each instruction, the lines and columns that it was compiled from, or its place in the code."""
    return tuple(
        position if position[0] is not None and position[2] is not None else index
        for index, position in enumerate(code.co_positions())
    )
