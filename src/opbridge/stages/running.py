"""The stages of an export as they run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from opbridge.base.memory import peak_bytes
from opbridge.base.progress import Progress, Stage
from opbridge.base.slow_stages import LoggedStages
from opbridge.program import Spent

__all__ = ["Stages"]


class Stages:
    """The stages of one export as they run.

    Attributes:
        spent: What the stages took that have ended.

    Args:
        progress: Receives the stages; None: those that take long are logged.
    """

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress or LoggedStages()
        self.spent = Spent()

    @contextlib.contextmanager
    def running(self, name: str) -> Iterator[Stage]:
        """Within this context, the stage `name` runs."""
        start = time.perf_counter()
        with self._progress.stage(name) as stage:
            yield stage
        self.spent.seconds[name] = time.perf_counter() - start
        self.spent.peaks[name] = peak_bytes()
