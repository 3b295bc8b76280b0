"""How much work the captures of one model may take."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from opbridge.base.wording import counted

__all__ = ["MOST_CAPTURES", "CaptureLimits", "OutOfTime"]

MOST_CAPTURES = 64
"""The most captures of one model, unless the user says otherwise."""


class OutOfTime(Exception):
    """A further capture was not begun, as the time limit is reached."""


@dataclass
class CaptureLimits:
    """Limits on the captures of one model.

    Attributes:
        captures: The most captures, of those that become branches of one graph.
        seconds: After how many seconds no further one is made; None: no limit.
        report: Called with what is done now, "2 paths captured", before and after each.
    """

    captures: int = MOST_CAPTURES
    seconds: float | None = None
    report: Callable[[str], None] = lambda text: None

    def __post_init__(self) -> None:
        self._start = time.perf_counter()
        self._begun = self._made = 0
        self.is_out_of_time = False

    def begin(self) -> None:
        """Begins the first capture, from which on the time counts."""
        self._start = time.perf_counter()
        self._begun = self._made = 0
        self.is_out_of_time = False

    @property
    def executions(self) -> int:
        """How many executions of the model have begun."""
        return self._begun

    @property
    def is_again(self) -> bool:
        """Whether the execution of the model that has begun is not the first."""
        return self._begun > 1

    def begin_one(self, what: str, *, is_limited: bool = True) -> None:
        """Begins one execution of the model.

        Args:
            what: What it is for, "a larger example".
            is_limited: Whether it is left out if the time limit is reached.

        Raises:
            OutOfTime: There was one before, and the time limit is reached.
        """
        if self._begun and is_limited and self._is_late():
            self.is_out_of_time = True
            raise OutOfTime(f"the time limit of {self.seconds:g} s is reached")
        self._begun += 1
        if self._begun > 1:
            paths = f", {counted(self._made, 'path')} captured" if self._made else ""
            self.report(f"execution {self._begun} of the model ({what}){paths}")

    def count(self) -> None:
        """Counts a capture that becomes a branch."""
        self._made += 1
        self.report(f"{counted(self._made, 'path')} captured")

    def why_reached(self, made: int, least: int = 0) -> str:
        """Why no further capture is made, as a clause about the model; empty where one may be.

        Args:
            made: How many captures there are of those that are to be merged.
            least: How many there will be at least.
        """
        if made >= self.captures or least > self.captures:
            return f"its data-dependent control flow has more than {self.captures} paths"
        if made and self._is_late():
            self.is_out_of_time = True
            return (
                f"its data-dependent control flow could not be captured within {self.seconds:g} s "
                f"({counted(made, 'path')} captured so far)"
            )
        return ""

    def _is_late(self) -> bool:
        return self.seconds is not None and time.perf_counter() - self._start > self.seconds
