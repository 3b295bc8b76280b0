"""The nodes that cost most, found by halves.

The nodes are one group first. The group with the largest error of its own, which is the model's where only its nodes
round, is divided in two, and both halves are measured, until it is one node: that one goes back to float32. So each
node that goes back costs some 2 * log2(n) runs, and fewer where its group was divided before. Whenever the errors of
the groups that are left add up to less than the tolerance, the whole is measured.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

__all__ = ["MOST_RUNS", "Search", "search"]

MOST_RUNS = 400
"""After so many runs, groups are put back as they are."""

Measure = Callable[[Sequence[int]], float]


@dataclass
class Search:
    """What a search found.

    Attributes:
        before: The error where all nodes round.
        after: The error in the end.
        back: The nodes that are put back, by their numbers, with the error of each alone.
        runs: How many choices were measured.
    """

    before: float
    after: float
    back: dict[int, float] = field(default_factory=dict)
    runs: int = 0


def search(
    nodes: Sequence[int],
    measure: Measure,
    tolerance: float,
    said: Callable[[str], None],
    most_runs: int = MOST_RUNS,
) -> Search:
    """Puts nodes back until the error is within the tolerance.

    Args:
        nodes: The numbers of the nodes that round.
        measure: The error of the model where some nodes round; 0 for none of them.
        tolerance: The largest error.
        said: Is told how far it is.
        most_runs: After so many runs, groups are put back as they are.
    """
    whole = list(nodes)
    error = measure(whole) if whole else 0.0
    found = Search(error, error, runs=1)
    if error <= tolerance:
        return found
    order = itertools.count()
    heap = [(-error, next(order), whole)]
    rest = set(whole)
    while heap and found.after > tolerance:
        negative, _, group = heapq.heappop(heap)
        if len(group) == 1 or found.runs >= most_runs:
            found.back.update(dict.fromkeys(group, -negative))
            rest -= set(group)
            left = math.sqrt(sum(each[0] ** 2 for each in heap))
            if left > 2 * tolerance and heap:
                continue  # it cannot be enough yet
            found.after = measure(sorted(rest)) if rest else 0.0
            found.runs += 1
            said(f"{len(found.back)} nodes put back, error {found.after:.2g} after {found.runs} runs")
            continue
        middle = len(group) // 2
        for half in (group[:middle], group[middle:]):
            heapq.heappush(heap, (-measure(half), next(order), half))
            found.runs += 1
        said(f"{len(found.back)} nodes put back, divided {len(group)} after {found.runs} runs")
    return found
