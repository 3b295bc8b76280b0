"""A strategy for a capture, and what it is chosen by."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from opbridge.capture.assumptions import Assumptions
from opbridge.capture.captured import Captured, Failed, Outcome, SizesContradicted
from opbridge.capture.one_capture import demands
from opbridge.capture.session import CaptureSession

__all__ = ["NoImprovement", "Progress", "Strategy", "demands_of"]


@dataclass(frozen=True, eq=False)
class Progress:
    """The best outcome of the strategies so far: what the condition of the next one is about.

    Attributes:
        session: The model.
        first: What the first execution assumes.
        outcome: The best outcome so far; None before the first strategy.
    """

    session: CaptureSession
    first: Assumptions
    outcome: Outcome | None = None

    @property
    def captured(self) -> Captured | None:
        """The capture so far."""
        return self.outcome if isinstance(self.outcome, Captured) else None

    @property
    def failed(self) -> Failed | None:
        """Why there is none."""
        return self.outcome if isinstance(self.outcome, Failed) else None

    @property
    def has_named_sizes(self) -> bool:
        """Whether captures for other sizes than the example's may be combined with that of the example.

        Not so where operators stay whole whose results are known for the example alone, and where the user gave further
        inputs in the place of dynamic dimensions.
        """
        shapes = self.first.shapes
        return bool(shapes.axes) and shapes.verify is None and not self.session.is_for_example

    @functools.cached_property
    def demands(self) -> list[Any]:
        """What the best outcome needs of the sizes; see `demands_of`."""
        return [] if self.outcome is None else demands_of(self.session, self.outcome)


def demands_of(session: CaptureSession, outcome: Outcome) -> list[Any]:
    """What an outcome needs of the sizes, as conditions with their lines."""
    if isinstance(outcome, Failed):
        return outcome.error.conditions if isinstance(outcome.error, SizesContradicted) else []
    graph = outcome.graph
    # The ranges of the graph are narrowed at the end, where it is the one that is taken.
    return demands(session, dataclasses.replace(outcome, graph=dataclasses.replace(graph, ranges=dict(graph.ranges))))


@dataclass(frozen=True)
class NoImprovement:
    """A strategy gives no better outcome than that so far.

    Attributes:
        error: What it ended with, where that is why.
    """

    error: Exception | None = None


@dataclass(frozen=True)
class Strategy:
    """A strategy for a capture.

    Attributes:
        name: What it is called in reports.
        applies: Whether it may improve on the progress so far.
        run: Gives a better outcome than that so far, if it has one. Raises CaptureError or UsageError where no strategy
            after it would help.
    """

    name: str
    applies: Callable[[Progress], bool]
    run: Callable[[Progress], Outcome | NoImprovement]
