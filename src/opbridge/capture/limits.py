"""How much work the captures of a model that decides by data may take."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from opbridge.errors import UsageError

__all__ = ["CaptureLimits"]

_MOST_CAPTURES = 64


@dataclass
class CaptureLimits:
    """Limits on the captures of one model.

    Attributes:
        captures: The most captures.
        seconds: After how many seconds no further one is made; None: no limit.
        report: Called with how many captures there are, after each.

    Raises:
        UsageError: A limit is no positive number.
    """

    captures: int = _MOST_CAPTURES
    seconds: float | None = None
    report: Callable[[int], None] = lambda count: None

    def __post_init__(self) -> None:
        if type(self.captures) is not int or self.captures < 1:
            raise UsageError(f"max_captures={self.captures!r} is no number of captures; give 1 or more.")
        if self.seconds is not None and not (isinstance(self.seconds, (int, float)) and self.seconds > 0):
            raise UsageError(f"max_capture_seconds={self.seconds!r} is no duration; give a positive number of seconds.")
        self._start = time.perf_counter()
        self._made = 0

    def begin(self) -> None:
        """Begins to count the time."""
        self._start = time.perf_counter()

    def count(self) -> None:
        """Counts a capture."""
        self._made += 1
        self.report(self._made)

    def why_reached(self, made: int) -> str:
        """Why no further capture is made, as a clause about the model; empty where one may be.

        Args:
            made: How many captures there are of those that are to be merged.
        """
        if made >= self.captures:
            return f"it decides by data in more than {self.captures} ways"
        if made and self.seconds is not None and time.perf_counter() - self._start > self.seconds:
            return f"it decides by data, and the captures of its ways, {made} so far, take more than {self.seconds:g} s"
        return ""
