"""The captures of a model for sizes that take its branches on sizes: which sizes to capture it for next."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch

from opbridge.capture.control_flow.branch_oracle import BranchOracle, LoopsSummarized, PathsRefused
from opbridge.capture.control_flow.cfg import ControlFlowGraph
from opbridge.capture.control_flow.execution_path import ExecutionPath
from opbridge.capture.control_flow.lowering import CFGLowering
from opbridge.capture.control_flow.merge_points import Edge, MergePoint, Unjoined
from opbridge.capture.control_flow.path_tree import PathTree
from opbridge.capture.guards.conditions import Conditions
from opbridge.capture.guards.expressions import holds_at
from opbridge.capture.guards.samples import Range
from opbridge.capture.guards.trial_sizes import Sizes, TrialSizes
from opbridge.capture.limits import CaptureLimits
from opbridge.capture.size_branches.path_conditions import PathConditions
from opbridge.graph.captured_graph import CapturedGraph, SizeCondition

__all__ = ["ExploredPaths", "PathRuns", "SizePath", "SizeRun"]

_PART = 2
"""Of the captures that the limits allow, one in so many may be one for other sizes."""

_MOST_TRIED = 24
_MOST_FAILED = 4


@dataclasses.dataclass(frozen=True)
class SizePath:
    """A capture for some sizes.

    Attributes:
        graph: What it recorded, without in-place operators.
        further: What taking its in-place operators out asked of the sizes.
    """

    graph: CapturedGraph
    further: Conditions


@dataclasses.dataclass(frozen=True)
class PathRuns:
    """How a model is captured.

    Attributes:
        module: The model.
        capture: Captures it for sizes, with answers; raises what the capture raises.
        merge: Captures what runs in the place of the model.
        may_run: Whether the model runs for sizes.
        agrees: Whether a graph gives for sizes what the model gives.
    """

    module: torch.nn.Module
    capture: Callable[[Sizes, BranchOracle], SizePath]
    merge: Callable[[CFGLowering], CapturedGraph]
    may_run: Callable[[Sizes], bool]
    agrees: Callable[[CapturedGraph, Sizes], bool]


@dataclasses.dataclass(frozen=True)
class SizeRun:
    """What a path is captured for, and what was asked there.

    Attributes:
        sizes: The sizes.
        asked: The questions about sizes.
        further: What taking its in-place operators out asked of the sizes.
    """

    sizes: Sizes
    asked: PathConditions
    further: Conditions


class ExploredPaths:
    """The paths that a model takes for sizes.

    Args:
        runs: How it is captured.
        example: The sizes of the example, by symbol.
        ranges: The smallest and the largest value of each.
        limits: How many captures there may be.
        of_operators: What is a condition on sizes although operators alone ask it.
        made: How many captures have been made before.

    Attributes:
        tree: The paths.
        found: What each is captured for.
        made: How many captures have been made, with those before.
    """

    def __init__(
        self,
        runs: PathRuns,
        example: Sizes,
        ranges: Mapping[str, Range],
        limits: CaptureLimits,
        *,
        of_operators: frozenset[str],
        made: int,
    ) -> None:
        self._runs, self._example, self._ranges, self._limits = runs, example, ranges, limits
        self._of_operators = of_operators
        self.made = made
        self.tree = PathTree(joined=True)
        self.found: dict[ExecutionPath, SizeRun] = {}
        self._asked: dict[MergePoint, SizeCondition] = {}
        self._tried: list[Sizes] = []
        self._failed = 0
        self._pool: tuple[int, list[tuple[Sizes, bool]]] = (-1, [])

    def explore(self, first: Sizes) -> bool:
        """Captures the model for some sizes, and for those of all paths; false where there are too many."""
        sizes: Sizes | None = first
        while sizes is not None:
            if self._limits.why_reached(_PART * self.made) or self._failed > _MOST_FAILED:
                return False
            if not self._capture(sizes) and sizes == self._example:
                return False
            ControlFlowGraph(self.tree, of_sizes=True)  # raises an error as soon as paths do not join
            sizes = self._next()
        return True

    def _capture(self, sizes: Sizes) -> bool:
        """Captures the model for sizes; false where that fails."""
        self._tried.append(sizes)
        self.made += 1
        asked = PathConditions(self._example.keys(), self._of_operators)
        answers = BranchOracle(self._runs.module, _refuse_data, sizes=asked)
        try:
            made = self._runs.capture(sizes, answers)
        except (Exception, LoopsSummarized):  # whatever the model or torch raises for these sizes
            self._failed += 1
            return False
        finally:
            self._limits.count()
        if any(dict(made.graph.places) != dict(path.graph.places) for path in self.found):
            raise Unjoined("the named dimensions differ between branches")
        events = tuple(answers.events)
        path = ExecutionPath.of(made.graph, events, of_sizes=True)
        self.found[path] = SizeRun(sizes, asked, made.further)
        self.tree.add(events, path)
        for event, condition in zip(events, asked.decisions, strict=True):
            self._asked[self.tree.points[event.place]] = condition
        return True

    def _followed(self, sizes: Sizes) -> tuple[list[Edge], bool]:
        """The answers that sizes give, as far as is known, and whether no path has given one of them.

        Where what follows an answer is not known, what follows the other one is taken for it.
        """
        edge: Edge = (None, False)
        found: list[Edge] = []
        is_new = False
        while True:
            point = self.tree.next.get(edge)
            if point is None:
                is_new = True
                point = self.tree.next.get((edge[0], not edge[1]))
            if point is None or point is self.tree.end or any(point is each for each, _ in found):
                return found, is_new
            edge = point, holds_at(self._asked[point].expression, sizes)
            found.append(edge)

    def _next(self) -> Sizes | None:
        """Sizes that show something new, for which the model runs; None where none are found."""
        together = self.tree.are_together
        scored = []
        for sizes, is_near in self.pool():
            followed, is_new = self._followed(sizes)
            pairs = sum(not together(one, two) for i, one in enumerate(followed) for two in followed[i + 1 :])
            if is_new or pairs:
                scored.append(((is_new, pairs, -sum(sizes.values())), is_near, sizes))
        scored.sort(key=lambda each: each[0], reverse=True)
        near = [each for _, is_near, each in scored if is_near]
        every = [each for _, _, each in scored]
        candidates = [each for pair in zip(every, near, strict=False) for each in pair] + every
        left = [each for each in candidates if each not in self._tried][: 2 * _MOST_TRIED]
        return next((each for each in left[:_MOST_TRIED] if self._runs.may_run(each)), None)

    def first_without(self, condition: SizeCondition) -> Sizes | None:
        """Sizes at which a condition does not hold, and the model runs but was not captured; None: none found."""
        breaking = [each for each in self.untried() if not holds_at(condition.expression, each)][:_MOST_TRIED]
        return next((each for each in breaking if self._runs.may_run(each)), None)

    def untried(self) -> list[Sizes]:
        """The sizes that may show something and that no capture was tried for."""
        return [sizes for sizes, _ in self.pool() if sizes not in self._tried]

    def given(self) -> set[Edge]:
        """The answers that any sizes give, as far as is known."""
        return {edge for sizes, _ in self.pool() for edge in self._followed(sizes)[0]}

    def pool(self) -> list[tuple[Sizes, bool]]:
        """Sizes that may show something, and whether they differ from those of the example in one size alone."""
        if self._pool[0] != len(self._asked):
            trial = TrialSizes(self._example, self._ranges, self._asked.values())
            pool = [(each, True) for each in trial.beside()] + [(each, False) for each in trial.mixed()]
            self._pool = len(self._asked), pool
        return self._pool[1]


def _refuse_data(*args: Any) -> bool:
    raise PathsRefused("The model also has data-dependent control flow.")
