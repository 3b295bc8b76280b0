"""Where the model's Python is: the lines that run, and how often the loops around them have begun an iteration."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping
from types import CodeType, FrameType
from typing import Any

import torch

from opbridge.base.python_private.comprehensions import hidden_names
from opbridge.base.python_private.instructions import by_code
from opbridge.base.python_private.loops import for_loops, has_for_loops
from opbridge.base.python_private.tracing import tracing
from opbridge.capture.control_flow.carried_numbers import carry
from opbridge.capture.tracer import filling, iterating

__all__ = ["IterationCounter", "frames_between", "is_of_others", "is_the_models", "program_point"]

_DIAGNOSING = {
    "dis",
    "importlib",
    "inspect",
    "linecache",
    "logging",
    "re",
    "tokenize",
    "traceback",
    "typing",
    "typing_extensions",
    "warnings",
}
"""What torch runs at an operator, of Python and a package that is like a part of it; it calls nothing of a model's."""

_OTHERS = frozenset(
    {"torch", "opbridge", "contextlib", "dataclasses", "functools", "sympy", "mpmath", "triton"} | _DIAGNOSING
)


class IterationCounter:
    """Counts the iterations of the `for` loops that run.

    The position in a sequence that a `for` loop goes over is held by the interpreter alone. Two places in a loop are
    the same only in the same iteration.

    Args:
        numbers: The variables of functions that hold another number in each iteration of a loop.
        begun: Called with the frame of each function that begins to run. Returns whether it knows all of that
            function now, and need not be called with it again.

    Attributes:
        carried: The numbers of these, each with the tensor that it is read from, by their identity.
    """

    def __init__(
        self,
        numbers: Mapping[CodeType, Iterable[Hashable]],
        begun: Callable[[FrameType], bool] = lambda frame: True,
    ) -> None:
        self._begun = begun
        # By identity, as Python hashes all that a code object holds: each with the code, which keeps its identity.
        self._numbers = {id(code): (code, tuple(sorted(names, key=str))) for code, names in numbers.items()}
        self.carried: dict[int, tuple[Any, torch.Tensor]] = {}
        self._counts: dict[FrameType, Counter[int]] = {}
        self._ignored: dict[int, CodeType] = {}  # by identity too

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Within this context, iterations are counted."""
        try:
            with tracing(self._called):
                yield
        finally:
            self._counts.clear()

    def of(self, frame: FrameType, asking: Container[int] = ()) -> tuple[int, ...]:
        """The iteration of each `for` loop that a frame is in, the outermost first.

        Args:
            frame: The frame.
            asking: The offsets of the loops that ask before each iteration, and are at the same place in each.
        """
        counts: Counter[int] = self._counts.get(frame, Counter())
        return tuple(
            0 if loop.first in asking else counts.get(loop.line, 0)
            for loop in for_loops(frame.f_code)
            if loop.first <= frame.f_lasti < loop.end
        )

    def begin_iteration(self, frame: FrameType, offset: int) -> None:
        """Begins an iteration of a loop that asks: the loops in it begin anew."""
        counts = self._counts.get(frame)
        if counts is None:
            return
        loops = for_loops(frame.f_code)
        own = next((each for each in loops if each.first == offset), None)
        for each in loops:
            if own is not None and own.first < each.first < own.end and each.line != own.line:
                counts.pop(each.line, None)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if id(code) in self._ignored:  # as hundreds of calls are at each operator
            return None
        is_known = self._begun(frame)
        if (has_for_loops(code) or id(code) in self._numbers) and is_the_models(frame):
            return self._ran
        if is_known:
            self._ignored[id(code)] = code
        return None

    def _ran(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self._count(frame)
            if id(frame.f_code) in self._numbers:
                carry(frame, self._numbers[id(frame.f_code)][1], self.carried)
        elif event == "return":
            self._counts.pop(frame, None)
        return self._ran

    def _count(self, frame: FrameType) -> None:
        """Counts a line that begins, which may begin an iteration."""
        counts = self._counts.setdefault(frame, Counter())
        if not hidden_names(frame.f_code, frame.f_lasti):  # whose loop may be on the line of one around it
            counts[frame.f_lineno] += 1


def frames_between(innermost: FrameType | None, outermost: FrameType) -> Iterator[FrameType]:
    """The frames that run, the outermost first and without itself."""
    found = []
    frame = innermost
    while frame is not None and frame is not outermost:
        found.append(frame)
        frame = frame.f_back
    yield from reversed(found)


def is_the_models(frame: FrameType) -> bool:
    """Whether a frame runs the model's code, or one of torch's modules, or of a function of Python's here."""
    name = str(frame.f_globals.get("__name__"))
    if name in (filling.__name__, iterating.__name__):
        return True
    if name == "torch.nn.modules.module":  # which calls modules, and their hooks
        return False
    return not is_of_others(name)


def is_of_others(name: str) -> bool:
    """Whether a module of Python's is not the model's, given its name; torch's layers count as the model's."""
    return not name.startswith("torch.nn.") and name.partition(".")[0] in _OTHERS


def program_point(
    frames: list[FrameType],
    iterations: IterationCounter,
    asking: Callable[[FrameType], Container[int]] = lambda frame: (),
) -> Hashable:
    """Where frames are.

    Args:
        frames: The frames.
        iterations: The iterations of their loops.
        asking: Gives the offsets of the loops in a frame that ask before each iteration.

    In lines and columns: Python compiles the condition of a `while` twice, before the loop and at the end of an
    iteration.
    """
    return tuple(
        (frame.f_code, _positions(frame.f_code)[frame.f_lasti // 2], iterations.of(frame, asking(frame)))
        for frame in frames
    )


@by_code
def _positions(code: CodeType) -> tuple[Hashable, ...]:
    """For each instruction, the lines and columns that it was compiled from, or its place in the code."""
    return tuple(
        position if position[0] is not None and position[2] is not None else index
        for index, position in enumerate(code.co_positions())
    )
