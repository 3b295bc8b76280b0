"""The nodes that cost most, found by halves.

The nodes are one group first. The group with the largest error of its own, which is the model's where only its nodes
round, is divided in two, and both halves are measured, until it is one node: that one goes back to float32. So each
node that goes back costs some 2 * log2(n) runs, and fewer where its group was divided before. The whole is measured
where the errors of the groups that are left suggest that it is enough.

Where the error comes from hundreds of nodes alike, single ones are not worth as many runs: the more runs there were,
the larger is a group that goes back as it is. A search goes on where it was when the tolerance is lowered.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

__all__ = ["MOST_RUNS", "Search"]

MOST_RUNS = 400
"""After so many runs, groups are put back as they are."""

_RUNS_FOR_SINGLE_NODES = 64
"""After so many runs the smallest group that is divided is twice as large, after twice as many four times."""

_UNKNOWN = 0.5
"""The error of the whole in relation to the root of the sum of the squares, where none was measured yet."""

_Node = TypeVar("_Node", bound=Hashable)
Measure = Callable[[Sequence[_Node]], float]


class Search(Generic[_Node]):
    """A search among nodes.

    Args:
        nodes: The nodes that round, in the order of the model.
        said: Is told how far it is.
        most_runs: After so many runs, groups are put back as they are.

    Attributes:
        before: The error where all nodes round; None: nothing was measured.
        after: The error in the end.
        back: The nodes that are put back, with the error of their group alone.
        runs: How many choices were measured.
    """

    def __init__(self, nodes: Sequence[_Node], said: Callable[[str], None], most_runs: int = MOST_RUNS) -> None:
        self.before: float | None = None
        self.after = 0.0
        self.back: dict[_Node, float] = {}
        self.runs = 0
        self._rest = dict.fromkeys(nodes)
        self._said, self._most_runs = said, most_runs
        self._order = itertools.count()
        self._groups: list[tuple[float, int, list[_Node]]] = []
        self._sum_then = 0.0

    def nodes(self) -> list[_Node]:
        """The nodes that round."""
        return list(self._rest)

    def leave_out(self, nodes: Sequence[_Node]) -> None:
        """Takes nodes from those that round, for another reason than this search."""
        for each in nodes:
            self._rest.pop(each, None)

    def put_back(self, measure: Measure[_Node], tolerance: float) -> None:
        """Puts nodes back until the error is within a tolerance.

        Args:
            measure: The error of the model where some nodes round; 0 for none of them.
            tolerance: The largest error.
        """
        self._measure_rest(measure)
        if self.before is None:
            self.before = self.after
            heapq.heappush(self._groups, (-self.after, next(self._order), list(self._rest)))
        while self._groups and self.after > tolerance:
            negative, _, group = heapq.heappop(self._groups)
            group = [each for each in group if each in self._rest]
            if len(group) > self._smallest():
                self._divide(group, measure)
                continue
            self.back.update(dict.fromkeys(group, -negative))
            self.leave_out(group)
            if self._groups and self._expected() > tolerance:
                continue  # it is hardly enough yet
            self._measure_rest(measure)
            self._said(f"{len(self.back)} nodes put back, error {self.after:.2g} after {self.runs} runs")

    def _measure_rest(self, measure: Measure[_Node]) -> None:
        self.after = self._measured(list(self._rest), measure)
        self._sum_then = self._sum()

    def _sum(self) -> float:
        """The error of the groups, if they are independent."""
        return math.sqrt(sum(each[0] ** 2 for each in self._groups))

    def _expected(self) -> float:
        """The error of the rest, from the one that was measured last."""
        ratio = self.after / self._sum_then if self._sum_then else _UNKNOWN
        return self._sum() * (ratio if math.isfinite(ratio) else _UNKNOWN)

    def _divide(self, group: list[_Node], measure: Measure[_Node]) -> None:
        middle = len(group) // 2
        for half in (group[:middle], group[middle:]):
            heapq.heappush(self._groups, (-self._measured(half, measure), next(self._order), half))
        self._said(f"{len(self.back)} nodes put back, divided {len(group)} after {self.runs} runs")

    def _measured(self, nodes: list[_Node], measure: Measure[_Node]) -> float:
        if not nodes:
            return 0.0
        self.runs += 1
        return measure(nodes)

    def _smallest(self) -> float:
        """The nodes of the largest group that is not divided."""
        return 2 ** (self.runs // _RUNS_FOR_SINGLE_NODES) if self.runs < self._most_runs else math.inf
