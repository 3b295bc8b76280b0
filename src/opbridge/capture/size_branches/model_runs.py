"""Runs of a model on inputs of other sizes than the example's, with what is known of them already."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from opbridge.capture import other_branches
from opbridge.capture.dynamic_shapes import Axis, Shapes
from opbridge.capture.guards.trial_sizes import Sizes
from opbridge.capture.parts_of_sizes import with_lengths_adding_up
from opbridge.graph.captured_graph import CapturedGraph

__all__ = ["Agreeing", "ModelRuns"]

Agreeing: TypeAlias = Callable[[CapturedGraph | None, list[Any]], bool | None]
"""Whether a capture gives what the model gives on leaves; None where the model raises an error. Without a capture,
whether the model runs."""

_MOST_TIMES = 64


class ModelRuns:
    """A model on inputs of other sizes.

    Attributes:
        axes: The dimensions that may have any size, by their symbols.
    """

    def __init__(
        self,
        leaves: Sequence[Any],
        shapes: Shapes,
        axes: Mapping[str, Axis],
        agrees: Agreeing,
        most_times: int = _MOST_TIMES,
    ) -> None:
        """Args:
        leaves: The leaves of `(args, kwargs)`.
        shapes: The dynamic shapes of the example.
        axes: The dimensions that may have any size, by their symbols.
        agrees: Compares a capture with the model.
        most_times: How many times as many elements as the example inputs may have.
        """
        self.axes = axes
        self._leaves, self._shapes, self._agrees, self._most_times = leaves, shapes, agrees, most_times
        self._run: dict[tuple[tuple[str, int], ...], bool] = {}

    def resized(self, sizes: Sizes) -> tuple[Shapes, list[Any]] | None:
        """The shapes and the inputs of some sizes; None where there are too many elements.

        None too where a size that follows from others would be negative, as `12 * frames - 48` is for one frame.
        """
        shapes = other_branches.with_sizes(self._shapes, {self.axes[each].place: sizes[each] for each in self.axes})
        if any(axis.size < 0 for axis in shapes.axes.values()):
            return None
        if not other_branches.are_few(self._leaves, shapes, self._shapes, self._most_times):
            return None
        return shapes, other_branches.of_sizes(self._leaves, shapes)

    def may_run(self, sizes: Sizes) -> bool:
        """Whether the model runs for sizes. It is run once for the same ones."""
        key = tuple(sorted(sizes.items()))
        if key not in self._run:
            self.compare(None, sizes)
        return self._run[key]

    def compare(self, graph: CapturedGraph | None, sizes: Sizes) -> bool | None:
        """Whether a capture gives what the model gives for sizes; None where the model does not run for them.

        Without a capture, whether the model runs.
        """
        found = self.resized(sizes)
        agrees = None if found is None else self._agreement(graph, found[1])
        self._run[tuple(sorted(sizes.items()))] = agrees is not None
        return agrees

    def _agreement(self, graph: CapturedGraph | None, leaves: list[Any]) -> bool | None:
        """The same for inputs, or for others whose lengths of parts add up where the model does not run on these."""
        agrees = self._agrees(graph, leaves)
        if agrees is not None:
            return agrees
        for _, others in with_lengths_adding_up(self._leaves, leaves):
            if (agrees := self._agrees(graph, others)) is not None:
                return agrees
        return None
