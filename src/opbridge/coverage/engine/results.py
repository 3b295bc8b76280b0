"""What the results of every sweep are: a document, and the outcomes of what was measured."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

__all__ = ["PASSING", "SweepResults", "share"]

PASSING = ("pass", "built")
"""The outcomes of what does all that can be tried."""


@dataclass(frozen=True)
class SweepResults(abc.ABC):
    """The results of a sweep.

    Attributes:
        document: Everything, as plain data, which is what the file holds.
        path: The file; None where none was written.
    """

    OUTCOMES: ClassVar[Sequence[str]]
    """The outcomes that something measured may have."""

    document: Mapping[str, Any]
    path: Path | None = None

    @property
    @abc.abstractmethod
    def measured(self) -> Sequence[Mapping[str, Any]]:
        """One entry for each thing that was measured, with its outcome."""

    @property
    def ok(self) -> bool:
        """Whether everything that was tried passes, or is built where it cannot run."""
        return all(each["outcome"] in (*PASSING, "left out") for each in self.measured)

    def _counted(self, rows: Sequence[Mapping[str, Any]], outcomes: Sequence[str]) -> int:
        """How many entries have one of some outcomes: all but "left out" if none is given."""
        wanted = outcomes or tuple(name for name in self.OUTCOMES if name != "left out")
        return sum(each["outcome"] in wanted for each in rows)


def share(passed: int, tried: int) -> str:
    """A share of what was tried in per cent, for the end of a line; nothing where nothing was tried."""
    return f" ({100 * passed / tried:.1f} %)" if tried else ""
