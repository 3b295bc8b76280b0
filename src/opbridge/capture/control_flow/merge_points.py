"""Where paths merge, the answers between them, and the shortest paths through these."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from opbridge.base.sources import Source
from opbridge.capture.control_flow.differences import at
from opbridge.capture.control_flow.execution_path import ExecutionPath

__all__ = [
    "END",
    "Edge",
    "Following",
    "MergePoint",
    "Unjoined",
    "described",
    "later_answers",
    "paths_around",
    "shortest_path",
    "steps_before",
    "steps_to",
]


END = "end"
"""The key of the end."""


class Unjoined(Exception):
    """Two paths that seemed to have joined do not do the same.

    Args:
        what: What differs.
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)


@dataclass(eq=False, repr=False)
class MergePoint:
    """A decision, or the end.

    Attributes:
        key: What tells it from others.
        sources: The lines that were running, the innermost first.
        answers: The answers before it in the first run that came to it.
        leaves: How many values of the graph Python's variables hold there.
        passes: The paths through it, each with the number of the decision in it, once for each time.
        asks: Whether a loop asks by it whether there is a further iteration.
        tried: The numbers of iterations that such a loop has been given.
        unseen: What else Python held there in each run, as a branch event has it.
        is_open: Whether a run that came to it has been asked for the answer, by those answers; see `known_answers`.
    """

    key: Hashable
    sources: tuple[Source, ...] = ()
    answers: tuple[bool, ...] = ()
    leaves: int = 0
    passes: list[tuple[ExecutionPath, int]] = field(default_factory=list)
    asks: bool = False
    tried: set[int] = field(default_factory=set)
    unseen: set[Hashable] = field(default_factory=set)
    is_open: bool = False

    def shows_all(self) -> bool:
        """Whether what is done after it depends on nothing but what Python's variables hold."""
        return None not in self.unseen and len(self.unseen) == 1

    def changing(self) -> int:
        """How many values that Python's variables hold are other ones in another iteration of a path."""
        found: set[int] = set()
        for (path, number), (other, following) in itertools.pairwise(self.passes):
            if path is other:
                one, two = (
                    [*path.decisions[each].args[0], *path.decisions[each].args[1]] for each in (number, following)
                )
                found.update(index for index, pair in enumerate(zip(one, two, strict=False)) if pair[0] is not pair[1])
        return len(found)


Edge: TypeAlias = tuple[MergePoint | None, bool]
"""An answer at a decision; None stands for the begin of the model."""

Following: TypeAlias = "Mapping[Edge, MergePoint | None]"
"""The point that follows each answer; None where the model raises."""


def described(point: MergePoint | None) -> str:
    """What an answer leads to, in words."""
    if point is None:
        return "an error"
    return "the end" if point.key == END else f"a decision{at(point.sources)}"


def shortest_path(following: Following, end: MergePoint, edge: Edge, aim: Edge | None) -> list[Edge] | None:
    """The shortest path from behind an answer to another one, with it, or to the end; None where there is none."""
    steps = steps_to(following, end, aim)
    found: list[Edge] = []
    while (point := following[edge]) is not None and point is not end:
        reaching: list[Edge] = [each for answer in (False, True) if (each := (point, answer)) in steps]
        if not reaching:
            return None
        edge = min(reaching, key=steps.__getitem__)
        found.append(edge)
        if edge == aim:
            return found
    return found if aim is None else None


def paths_around(following: Following, end: MergePoint, edge: Edge) -> tuple[list[Edge], list[Edge]] | None:
    """The shortest path from the begin to an answer, with it, and from there to the end; None where one is missing."""
    before, after = shortest_path(following, end, (None, False), edge), shortest_path(following, end, edge, None)
    return None if before is None or after is None else (before, after)


def steps_to(following: Following, end: MergePoint, aim: Edge | None) -> dict[Edge, int]:
    """How many answers there are from each one to another one, or to the end."""
    return steps_before(following, [aim] if aim is not None else [edge for edge, at in following.items() if at is end])


def steps_before(following: Following, aims: Iterable[Edge]) -> dict[Edge, int]:
    """How many answers there are from each one to the nearest of several."""
    before: dict[MergePoint, list[Edge]] = {}
    for edge, point in following.items():
        if point is not None:
            before.setdefault(point, []).append(edge)
    layer = list(aims)
    found = dict.fromkeys(layer, 0)
    while layer:
        layer = [
            edge
            for point in dict.fromkeys(edge[0] for edge in layer)
            if point is not None
            for edge in before.get(point, [])
            if edge not in found
        ]
        found.update(dict.fromkeys(layer, max(found.values()) + 1))
    return found


def later_answers(following: Following, end: MergePoint) -> dict[Edge, dict[Edge, None]]:
    """For each answer after which the model can return, the answers that may come later."""
    returning = [edge for edge in steps_to(following, end, None) if edge[0] is not None]
    follow: dict[Edge, list[Edge]] = {edge: [] for edge in returning}
    by_point: dict[MergePoint, list[Edge]] = {}
    for edge in returning:
        point = edge[0]
        assert point is not None  # the begin is left out above
        by_point.setdefault(point, []).append(edge)
    for edge in returning:
        point = following[edge]
        follow[edge] = by_point.get(point, []) if point is not None else []
    found: dict[Edge, dict[Edge, None]] = {}
    for edge in returning:
        later: dict[Edge, None] = {}
        waiting = list(follow[edge])
        while waiting:
            each = waiting.pop()
            if each not in later:
                later[each] = None
                waiting += follow[each]
        found[edge] = later
    return found
