"""What is logged of a stage that takes long, where nobody shows the stages as they run."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator

__all__ = ["LoggedStage", "LoggedStages"]

SECONDS = 20.0
"""After how many seconds, and how often from then on, a line is logged."""

_LOGGER = logging.getLogger("opbridge")

_HINTS = {"capture": "To limit the time, pass max_capture_seconds= (--max-capture-seconds)."}


class LoggedStage:
    """A stage that is running.

    Args:
        name: Its name, "capture".
        seconds: How often a line is logged.
    """

    def __init__(self, name: str, seconds: float) -> None:
        self._name, self._seconds = name, seconds
        self._start = time.monotonic()
        self._detail = ""
        self._done = threading.Event()

    def detail(self, text: str) -> None:
        """Takes what the stage has found, or does now."""
        self._detail = text

    def watch(self) -> None:
        """Logs a line at a time until the stage ends."""
        while not self._done.wait(self._seconds):
            detail = f": {self._detail}" if self._detail else ""
            hint = f" {_HINTS[self._name]}" if self._name in _HINTS else ""
            _LOGGER.warning("%s has run for %.0f s%s.%s", self._name, time.monotonic() - self._start, detail, hint)

    def end(self) -> None:
        """Ends the stage."""
        self._done.set()


class LoggedStages:
    """The `progress=` of an export that shows nothing but the stages that take long, in the log of "opbridge".

    Args:
        seconds: After how many seconds, and how often from then on, a line is logged.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[LoggedStage]:
        """Within this context, a stage runs."""
        stage = LoggedStage(name, self._seconds)
        thread = threading.Thread(target=stage.watch, name=f"opbridge {name}", daemon=True)
        thread.start()
        try:
            yield stage
        finally:
            stage.end()
            thread.join()
