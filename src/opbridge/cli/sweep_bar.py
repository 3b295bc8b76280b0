"""The bar of a sweep as it runs, and what is said of one that was interrupted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["LONGEST_MESSAGE", "Bar", "cut", "kept_results"]

LONGEST_MESSAGE = 150
_STYLES = {"pass": "green", "built": "green", "refused": "yellow", "left out": "dim"}


class Bar:
    """The `progress=` of a sweep, which draws a bar with the running tally; a context manager."""

    def __init__(self, console: Console, what: str, outcomes: Sequence[str]) -> None:
        """Args:
        console: Where it is drawn.
        what: What the sweep is called.
        outcomes: The outcomes of its tasks, the worst first.
        """
        self._outcomes = outcomes
        self._progress = Progress(
            TextColumn(what),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[tally]}"),
            console=console,
        )
        self._bar = self._progress.add_task(what, total=None, tally="")

    def __enter__(self) -> Bar:
        self._progress.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.__exit__(kind, error, trace)

    def __call__(self, done: int, total: int, tally: Mapping[str, int]) -> None:
        self._progress.update(self._bar, completed=done, total=total, tally=self._shown(tally))

    def _shown(self, tally: Mapping[str, int]) -> str:
        """The outcomes with their numbers, in colours, the best first."""
        return " ".join(
            f"[{_STYLES.get(name, 'bold red')}]{name} {tally[name]}[/]"
            for name in reversed(self._outcomes)
            if tally.get(name)
        )


def kept_results(output: Path | None) -> str:
    """Where the results of an interrupted sweep are kept."""
    if output is None:
        return "The results were not saved, because -o was not given."
    return f"The results so far are saved beside {output}. Run the same command again to continue."


def cut(message: str, longest: int | None = LONGEST_MESSAGE) -> str:
    """A message, cut where it is too long for a table on a terminal; None: nothing is cut."""
    return message if longest is None or len(message) <= longest else f"{message[:longest].rstrip()} ..."
