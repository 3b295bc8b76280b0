"""Helpers for tests of sweeps."""

from __future__ import annotations

__all__ = ["Interrupted"]


class Interrupted:
    """Is told of what a sweep has done, and interrupts it after some."""

    def __init__(self, after: int) -> None:
        self.after, self.first = after, None

    def __call__(self, done, total, tally):
        if self.first is None:
            self.first = done
        if done >= self.after:
            raise KeyboardInterrupt
