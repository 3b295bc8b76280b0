"""What is told of the stages of an export as they run: `progress=` of `opbridge.export`."""

from __future__ import annotations

import contextlib
from typing import Protocol

__all__ = ["Progress", "Stage"]


class Stage(Protocol):
    """A stage that is running."""

    def detail(self, text: str) -> None:
        """Says what the stage has found."""


class Progress(Protocol):
    """Receives the stages of an export as they run."""

    def stage(self, name: str) -> contextlib.AbstractContextManager[Stage]:
        """Enters the stage `name`, one of capture, plan, translate, repair, save, verify, cast."""
