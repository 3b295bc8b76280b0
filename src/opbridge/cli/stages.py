"""The stages of an export, shown as they run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType

from rich.console import Console, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

__all__ = ["Stages"]


@dataclass
class Stage:
    """One stage, running or done."""

    name: str
    started: float
    detail_text: str = ""
    seconds: float | None = None
    failed: bool = False
    spinner: Spinner = field(default_factory=lambda: Spinner("dots", style="cyan"), repr=False)

    def detail(self, text: str) -> None:
        """Says what the stage found, or how far it is."""
        self.detail_text = text


class Stages:
    """The `progress=` of `opbridge.export` that draws the stages on a terminal while they run.

    A context manager; nothing is drawn before the first stage, and the lines stay when it ends.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._stages: list[Stage] = []
        self._live = Live(console=console, get_renderable=self._render, refresh_per_second=10)

    def __enter__(self) -> Stages:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    @contextmanager
    def stage(self, name: str) -> Iterator[Stage]:
        """Marks the stage as running inside the `with`, then as done or failed."""
        stage = Stage(name, time.perf_counter())
        self._stages.append(stage)
        self._live.start()
        try:
            yield stage
        except BaseException:
            stage.failed = True
            raise
        finally:
            stage.seconds = time.perf_counter() - stage.started

    def _render(self) -> RenderableType:
        grid = Table.grid(padding=(0, 1))
        grid.add_column(width=1)
        grid.add_column(min_width=9)
        grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        grid.add_column(justify="right", no_wrap=True)
        grid.expand = True
        for stage in self._stages:
            seconds = stage.seconds if stage.seconds is not None else time.perf_counter() - stage.started
            grid.add_row(self._mark(stage), stage.name, Text(stage.detail_text, "dim"), f"{seconds:.2f} s")
        return grid

    def _mark(self, stage: Stage) -> RenderableType:
        ascii_only = self._console.options.ascii_only
        if stage.failed:
            return Text("x" if ascii_only else "✗", "bold red")
        if stage.seconds is not None:
            return Text("+" if ascii_only else "✓", "bold green")
        return Text("-") if ascii_only else stage.spinner
