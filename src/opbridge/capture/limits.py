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
            raise UsageError(f"Invalid value max_captures={self.captures!r}; expected an integer of 1 or more.")
        if self.seconds is not None and not (isinstance(self.seconds, (int, float)) and self.seconds > 0):
            raise UsageError(
                f"Invalid value max_capture_seconds={self.seconds!r}; expected a positive number of seconds."
            )
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
            return f"its data-dependent control flow has more than {self.captures} paths"
        if made and self.seconds is not None and time.perf_counter() - self._start > self.seconds:
            return (
                f"its data-dependent control flow could not be captured within {self.seconds:g} s ({made} paths "
                "captured so far)"
            )
        return ""
