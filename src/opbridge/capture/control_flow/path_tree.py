"""The paths that a model takes: captures of it with other answers, which join where what follows is the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from opbridge.capture.control_flow.branch_oracle import BranchEvent
from opbridge.capture.control_flow.execution_path import ExecutionPath
from opbridge.capture.control_flow.merge_points import END, Edge, MergePoint, Unjoined, described, shortest_path

__all__ = ["FailedRuns", "PathTree"]

_MOST_LINES = 5


@dataclass
class FailedRuns:
    """The runs that raised an error, and those that got other answers than they were given.

    Attributes:
        raising: The answers that were given to runs which raised an error.
        has_raised: Whether there were such runs.
        refuted: The first answers that no run gets, as the last of them contradicts those before it.
        contradicting: The same as sets, to which further iterations of a loop add nothing.
    """

    raising: set[tuple[bool, ...]] = field(default_factory=set)
    has_raised: bool = False
    refuted: set[tuple[bool, ...]] = field(default_factory=set)
    contradicting: set[frozenset[Edge]] = field(default_factory=set)

    def are_in_vain(self, answers: tuple[bool, ...]) -> bool:
        """Whether a run with some first answers raises an error, or gets others."""
        return answers in self.raising or any(answers[: len(each)] == each for each in self.refuted)


class PathTree:
    """What is known of the paths of a model.

    Args:
        joined: Whether paths are the same again where Python is at the same place and its variables hold the same.

    Attributes:
        joined: The same.
        points: The decisions, by key.
        opened: How many of them runs were asked for.
        end: Where the model returns.
        next: The point that follows each answer; None where the model raises.
        through: The paths that give each answer, each with the number of the segment after it.
        paths: The captures.
        edges: The answers of each of these.
        lacking: The answers after which a run raised an error that had left a loop before its first iteration, each
            with the answers from there on.
        again: Decisions, each with a later answer before a use of its own.
        failed: The runs that have no capture.
    """

    def __init__(self, *, joined: bool) -> None:
        self.joined = joined
        self.points: dict[Hashable, MergePoint] = {}
        self.opened = 0
        self.end = MergePoint(END)
        self.next: dict[Edge, MergePoint | None] = {}
        self.through: dict[Edge, list[tuple[ExecutionPath, int]]] = {}
        self.paths: list[ExecutionPath] = []
        self.edges: list[list[Edge]] = []
        self.lacking: dict[Edge, tuple[Edge, ...]] = {}
        self.again: set[tuple[MergePoint, Edge]] = set()
        self.failed = FailedRuns()
        self._together: set[tuple[Edge, Edge]] = set()  # answers of one run, each with a later one

    def add(
        self, events: Sequence[BranchEvent], path: ExecutionPath | None, again: Iterable[tuple[int | None, int]] = ()
    ) -> None:
        """Adds a run; without a path, it raised an error after its last decision.

        Args:
            events: The decisions that it came to.
            path: Its capture.
            again: Its uses of earlier answers; see `opbridge.capture.control_flow.branch_oracle.BranchOracle`.

        Raises:
            Unjoined: It does something else after an answer than another run did.
        """
        self.failed.has_raised = self.failed.has_raised or path is None
        edge: Edge = (None, False)
        answers: tuple[bool, ...] = ()
        edges: list[Edge] = []
        for number, event in enumerate(events):
            key = event.place if self.joined else answers
            new = MergePoint(key, event.sources, answers, event.leaves, asks=event.asks)
            point = self.points.setdefault(key, new)
            if not point.is_open and not event.is_known:
                point.answers, point.is_open = answers, True
                self.opened += 1
            point.unseen.add(event.unseen)
            self._follow(edge, point, path, number)
            if event.is_last_element:
                self.next.setdefault((point, False), None)
            if path is not None:
                point.passes.append((path, number))
            edge = (point, event.answer)
            edges.append(edge)
            answers = (*answers, event.answer)
        self._note_again(edges, again)
        if path is None:
            left = next((i for i in reversed(range(len(edges))) if _has_left_at_once(events, edges, i)), None)
            if left is None or not self.joined:
                self.next.setdefault(edge, None)
            else:
                self.lacking.setdefault(edge, tuple(edges[left:]))
            return
        self._follow(edge, self.end, path, len(events))
        self.end.passes.append((path, len(events)))
        self.paths.append(path)
        self.edges.append(edges)
        self._together.update((one, other) for index, one in enumerate(edges) for other in edges[index + 1 :])

    @property
    def asked(self) -> frozenset[Hashable]:
        """The places of the decisions that runs were asked for."""
        return frozenset(point.key for point in self.points.values() if point.is_open)

    def note_given(self, answers: tuple[bool, ...], events: Sequence[BranchEvent]) -> None:
        """Notes the answers that were given to a run, which knows some answers itself."""
        edges: list[Edge] = []
        for number, (answer, event) in enumerate(zip(answers, events, strict=False)):
            edges.append((self.points[event.place if self.joined else answers[:number]], answer))
            if answer != event.answer:
                self.failed.refuted.add(answers[: number + 1])
                self.failed.contradicting.add(frozenset(edges))
                return

    def are_together(self, one: Edge, later: Edge) -> bool:
        """Whether a run has given two answers, one after the other."""
        return (one, later) in self._together

    def _note_again(self, edges: Sequence[Edge], again: Iterable[tuple[int | None, int]]) -> None:
        for decision, count in set(again):
            for number in range(count) if decision is None else (decision,):
                point = edges[number][0]
                assert point is not None
                self.again.update((point, later) for later in edges[number + 1 : count])

    def _follow(self, edge: Edge, point: MergePoint, path: ExecutionPath | None, number: int) -> None:
        if (known := self.next.setdefault(edge, point)) is not point:
            raise Unjoined(f"the same branch leads to {described(known)} or to {described(point)}")
        if path is not None:
            self.through.setdefault(edge, []).append((path, number))

    def least_further(self) -> int:
        """How many further runs there are at least.

        Where no path joins another, each answer that has not been given is that of a run of its own.
        """
        if self.joined:
            return 0
        edges = ((point, answer) for point in self.points.values() for answer in (False, True))
        return sum(edge not in self.next and edge not in self.lacking for edge in edges)

    def iteration_of(self, header: MergePoint, stays: bool) -> list[Edge] | None:
        """The shortest path from a decision back to it, by an answer; None where there is none."""
        first: Edge = (header, stays)
        if self.next.get(first) is header:
            return [first]
        if self.next.get(first) is None:
            return None
        ends = (end for end, point in self.next.items() if point is header and end != first)
        found = [edges for end in ends if (edges := shortest_path(self.next, self.end, first, end)) is not None]
        return [first, *min(found, key=len)] if found else None

    def with_inner_iterations(self, edges: Iterable[Edge], before: Edge | None = None) -> list[Edge]:
        """A path with an iteration of each loop in it that runs have left before the first one, and raised an error.

        Args:
            edges: The path.
            before: The answer before it.
        """
        leaving = {each[0] for each in self.lacking.values()}
        found: list[Edge] = []
        for edge in edges:
            point, answer = edge
            if edge in leaving and point is not None:
                iteration = self.iteration_of(point, not answer)
                if iteration is not None and iteration[-1] != before:
                    found += iteration
            found.append(edge)
            before = edge
        return found

    def answers_of(self, edges: Iterable[Edge]) -> tuple[bool, ...]:
        """The answers of a path, with those iterations."""
        return tuple(answer for _, answer in self.with_inner_iterations(edges))

    def lines(self) -> str:
        """The lines of the decisions, with how many there are at each."""
        counts = Counter(str(point.sources[0]) for point in self.points.values() if point.sources)
        told = [line if count == 1 else f"{line} ({count} times)" for line, count in counts.most_common(_MOST_LINES)]
        return ", ".join(told) + (f" and {len(counts) - len(told)} more lines" if len(counts) > len(told) else "")


def _has_left_at_once(events: Sequence[BranchEvent], edges: Sequence[Edge], number: int) -> bool:
    """Whether a run has left a loop at a decision before the first iteration, or may have."""
    event, point = events[number], edges[number][0]
    if event.asks:
        return not event.iteration and not event.answer
    return event.may_iteration and sum(other is point for other, _ in edges) == 1
