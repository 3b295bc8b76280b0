"""What a command found, before it is printed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

__all__ = ["Answer", "Interrupted"]


class Interrupted(Exception):
    """The command was interrupted; the message says what it leaves behind."""


@dataclass
class Answer:
    """What a command found.

    Attributes:
        document: The answer as plain data, for `--json`.
        show: Shows it to a person.
        ok: Whether the answer is yes; no is exit status 1.
        faults: Exceptions that opbridge's own translations raised; with any, the exit status is 3.
    """

    document: dict[str, Any]
    show: Callable[[Console], None]
    ok: bool = True
    faults: Sequence[BaseException] = ()

    @property
    def status(self) -> int:
        """The exit status."""
        return 3 if self.faults else 0 if self.ok else 1
