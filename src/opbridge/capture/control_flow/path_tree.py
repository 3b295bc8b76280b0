"""The paths that a model can take: captures of it with other answers, until every decision has got both answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Hashable, Iterable, Mapping, Sequence

from opbridge.capture.control_flow.ambiguous_phi_sources import ambiguous_phi_sources
from opbridge.capture.control_flow.branch_oracle import BranchEvent
from opbridge.capture.control_flow.execution_path import ExecutionPath
from opbridge.capture.control_flow.merge_points import (
    END,
    Edge,
    MergePoint,
    Unjoined,
    described,
    later_answers,
    paths_around,
    shortest_path,
    steps_before,
    steps_to,
)
from opbridge.capture.tracer.loop_summaries import LoopSummary

__all__ = ["PathTree"]

_MOST_LINES = 5
_FIRST_ITERATIONS = 3
_MOST_STEPS = 4096
_MOST_PATHS = 16
_FEW_CAPTURES = 16


class PathTree:
    """What is known of the paths of a model.

    Args:
        joined: Whether paths are the same again where Python is at the same place and its variables hold the same.

    Attributes:
        joined: The same.
        points: The decisions, by key.
        end: Where the model returns.
        next: The point that follows each answer; None where the model raises.
        through: The paths that give each answer, each with the number of the segment after it.
        paths: The captures.
        iterations: How many iterations the loops have that ask before each, where no answers are given.
        learned: What the runs have shown of the loops.
        raising: The answers that were given to runs which raised an error.
        has_raised: Whether there were such runs.
        refuted: The first answers that no run gets, as the last of them contradicts those before it.
        contradicting: The same as sets, to which further iterations of a loop add nothing.
        unproven: The decisions of loops of which no run with several iterations has come to its end.
        tries_all: Whether all answers are tried together, however many captures that takes.
        has_left_some: Whether some have not been; see `_not_together`.
    """

    def __init__(self, *, joined: bool) -> None:
        self.joined = joined
        self._together: set[tuple[Edge, Edge]] = set()  # answers of one run, each with a later one
        self.tries_all = False
        self.has_left_some = False
        self._lacking: dict[Edge, tuple[Edge, ...]] = {}  # see `_with_iterations`
        self._again: set[tuple[MergePoint, Edge]] = set()  # decisions, each with a later answer before a use of its own
        self._paths: list[list[Edge]] = []
        self._untaken: tuple[int, dict[Edge, int]] = (-1, {})
        self.points: dict[Hashable, MergePoint] = {}
        self.end = MergePoint(END)
        self.next: dict[Edge, MergePoint | None] = {}
        self.through: dict[Edge, list[tuple[ExecutionPath, int]]] = {}
        self.paths: list[ExecutionPath] = []
        self.iterations = _FIRST_ITERATIONS
        self.learned = LoopSummary()
        self.raising: set[tuple[bool, ...]] = set()
        self.has_raised = False
        self.refuted: set[tuple[bool, ...]] = set()
        self.contradicting: set[frozenset[Edge]] = set()
        self.unproven: list[MergePoint] = []

    def forget(self) -> None:
        """Begins again, with what the runs have shown of the loops."""
        learned = self.learned
        vars(self).update(vars(PathTree(joined=self.joined)))
        self.learned = learned

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
        self.has_raised = self.has_raised or path is None
        edge: Edge = (None, False)
        answers: tuple[bool, ...] = ()
        edges: list[Edge] = []
        for number, event in enumerate(events):
            key = event.place if self.joined else answers
            new = MergePoint(key, event.sources, answers, event.leaves, asks=event.asks)
            point = self.points.setdefault(key, new)
            if not point.is_open and not event.is_known:
                point.answers, point.is_open = answers, True
                self._untaken = (-1, {})
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
                self._lacking.setdefault(edge, tuple(edges[left:]))
            return
        self._follow(edge, self.end, path, len(events))
        self.end.passes.append((path, len(events)))
        self.paths.append(path)
        self._paths.append(edges)
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
                self.refuted.add(answers[: number + 1])
                self.contradicting.add(frozenset(edges))
                return

    def _is_in_vain(self, answers: tuple[bool, ...]) -> bool:
        """Whether a run with some first answers raises an error, or gets others."""
        return answers in self.raising or any(answers[: len(each)] == each for each in self.refuted)

    def are_together(self, one: Edge, later: Edge) -> bool:
        """Whether a run has given two answers, one after the other."""
        return (one, later) in self._together

    def _note_again(self, edges: Sequence[Edge], again: Iterable[tuple[int | None, int]]) -> None:
        for decision, count in set(again):
            for number in range(count) if decision is None else (decision,):
                point = edges[number][0]
                assert point is not None
                self._again.update((point, later) for later in edges[number + 1 : count])

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
        return sum(edge not in self.next and edge not in self._lacking for edge in edges)

    def untaken(self) -> tuple[bool, ...] | None:
        """The answers of a run that shows something new; None where there is none."""
        self.iterations = _FIRST_ITERATIONS
        for point in self.points.values():
            for answer in (False, True):
                if (point, answer) in self.next or not point.is_open:
                    continue
                if (point, answer) not in self._lacking:
                    return (*point.answers, answer)
                if (answers := self._with_iterations((point, answer))) is not None:
                    return answers
        if self.joined and (untried := self._untried_iterations()) is not None:
            answers, self.iterations = untried
            return answers
        return self._not_through() or self._not_together() or self._iterations() or self._not_told_apart()

    def _with_iterations(self, edge: Edge) -> tuple[bool, ...] | None:
        """The answers of a run that comes to an answer after an iteration of a loop; None where none is known.

        A run which left the loop before its first iteration raised an error after that answer, as `torch.stack` does
        for an empty list.
        """
        (header, leaving), *rest = self._lacking[edge]
        assert header is not None
        iteration = self._iteration_of(header, not leaving)
        if iteration is None:
            return None
        answers = (*header.answers, *self._answers_of([*iteration, (header, leaving), *rest]))
        if self._is_in_vain(answers):
            self.next[edge] = None
            return None
        return answers

    def _iteration_of(self, header: MergePoint, stays: bool) -> list[Edge] | None:
        """The shortest path from a decision back to it, by an answer; None where there is none."""
        first: Edge = (header, stays)
        if self.next.get(first) is header:
            return [first]
        if self.next.get(first) is None:
            return None
        ends = (end for end, point in self.next.items() if point is header and end != first)
        found = [edges for end in ends if (edges := shortest_path(self.next, self.end, first, end)) is not None]
        return [first, *min(found, key=len)] if found else None

    def _untried_iterations(self) -> tuple[tuple[bool, ...], int] | None:
        """The answers of a run, and how many iterations the loops that ask are to have; None once enough were tried.

        None at all, and, after the first number, one that is larger and large enough for what `_iterations` wants.
        """
        asking = [point for point in self.points.values() if point.asks]
        least = max((_FIRST_ITERATIONS + 2, *(2 + point.changing() for point in asking)))
        for iterations in (0, least):
            wanting = [
                each
                for each in asking
                if not any(tried >= iterations > 0 or tried == iterations for tried in each.tried)
            ]
            if wanting:
                reached = self._loops_of_run((), iterations)
                answers = () if wanting[0] in reached else wanting[0].answers
                for point in {wanting[0], *reached, *self._loops_of_run(answers, iterations)}:
                    point.tried.add(iterations)
                return answers, iterations
        return None

    def _loops_of_run(self, given: Sequence[bool], iterations: int) -> set[MergePoint]:
        """The loops that a run comes to, as far as is known, which ask it for a number of iterations.

        Args:
            given: The first answers of the run.
            iterations: How many iterations it gives to each loop afterwards.
        """
        found: set[MergePoint] = set()
        had: Counter[MergePoint] = Counter()
        edge: Edge = (None, False)
        for number in range(_MOST_STEPS):
            point = self.next.get(edge)
            if point is None or point is self.end:
                break
            if number < len(given):
                answer = given[number]
            elif point.asks:
                found.add(point)
                answer = had[point] < iterations
            else:
                answer = bool(had[point] % 2)  # see `chosen`
            had[point] = 0 if point.asks and not answer else had[point] + 1
            edge = (point, answer)
        return found

    def chosen(
        self,
        given: Sequence[bool],
        events: Sequence[BranchEvent],
        place: Hashable,
        iteration: int | None = None,
        in_later_iteration: bool = False,
    ) -> bool:
        """The next answer of a run: as given, and then one that no run has got yet, if there is one.

        Loops in loops have all their iterations in the first iteration of the loops around them, and few in later ones:
        iterations enough for each are then as many as there are loops, and not all of their products.

        Args:
            given: The first answers.
            events: The decisions that the run has come to so far.
            place: The place of the decision.
            iteration: How many iterations a loop has had that asks by it whether there is a further one.
            in_later_iteration: Whether that loop runs in another iteration than the first one of a loop around it.
        """
        if len(events) < len(given):
            return given[len(events)]
        if iteration is not None:
            return iteration < (min(self.iterations, _FIRST_ITERATIONS) if in_later_iteration else self.iterations)
        again = [event.answer for event in events if event.place == place]
        if again and self.joined:
            return not again[-1]  # which leaves a loop
        point = self.points.get(place if self.joined else tuple(event.answer for event in events))
        if point is None:
            return self.learned.first_answer
        steps = self._steps_to_untaken()
        return steps.get((point, True), _MOST_STEPS) < steps.get((point, False), _MOST_STEPS)

    def _steps_to_untaken(self) -> dict[Edge, int]:
        """How many answers there are from each one to the nearest that no run has got yet."""
        if self._untaken[0] != len(self.next):
            asked = (point for point in self.points.values() if point.is_open)
            aims = [edge for point in asked for edge in ((point, False), (point, True))]
            missing = [edge for edge in aims if edge not in self.next and edge not in self._lacking]
            self._untaken = len(self.next), steps_before(self.next, missing)
        return self._untaken[1]

    def _not_through(self) -> tuple[bool, ...] | None:
        """The answers of a run that gives an answer which only runs that raised an error have given so far."""
        for edge in later_answers(self.next, self.end):
            if edge not in self.through:
                around = paths_around(self.next, self.end, edge)
                if around is not None:
                    answers = self._answers_of([*around[0], *around[1]])
                    if not self._is_in_vain(answers):
                        return answers
        return None

    def _not_together(self) -> tuple[bool, ...] | None:
        """The answers of a run that gives two answers which no run has got both of.

        A number that Python computes from an earlier answer, and that no variable holds, shows only so. Two answers
        with a decision between them at which variables show all that Python holds are tried together where there are
        few captures, and else left: the later one is not told by what it does that the earlier one was given.
        """
        after = later_answers(self.next, self.end)
        pairs = ((edge, later) for edge, found in after.items() for later in found)
        wanted = {pair: None for pair in pairs if pair not in self._together}
        if not self.tries_all and len(self.paths) + len(self.raising) >= _FEW_CAPTURES:
            count = len(wanted)
            unseen = {edge: self._unseen_after(edge) for edge in after}
            wanted = {
                (edge, later): None
                for edge, later in wanted
                if later[0] in unseen[edge] or (edge[0], later) in self._again
            }
            self.has_left_some = len(wanted) < count
        found = (self._answers_of(self._path_by(pair, wanted, after)) for pair in wanted)
        return next((answers for answers in found if answers and not self._is_in_vain(answers)), None)

    def _not_told_apart(self) -> tuple[bool, ...] | None:
        """The answers of a run in which variables differ that hold the same in all runs that gave some answer.

        What is done after that answer does not show otherwise which of them it takes.
        """
        if not self.has_left_some:
            return None
        wanted: dict[Edge, tuple[ExecutionPath, int]] = {}
        for edge in later_answers(self.next, self.end):
            point = edge[0]
            assert point is not None
            if edge in self.through and (other := ambiguous_phi_sources(self.through[edge], point.passes)) is not None:
                wanted[edge] = other
        for edge, (path, number) in sorted(wanted.items(), key=lambda each: each[1][1]):
            edges = [*self._paths[self.paths.index(path)][:number], edge]
            while (point := self.next[edges[-1]]) is not None and point is not self.end and len(edges) < _MOST_STEPS:
                near = (
                    steps_before(self.next, [each for each in wanted if each not in edges]),
                    steps_to(self.next, self.end, None),
                )
                branches: list[Edge] = [branch for answer in (True, False) if (branch := (point, answer)) in near[1]]
                if not branches:
                    break
                edges.append(min(branches, key=lambda branch: (near[0].get(branch, _MOST_STEPS), near[1][branch])))
            answers = tuple(answer for _, answer in edges)
            if not self._is_in_vain(answers) and edges not in self._paths:
                return answers
        return None

    def _unseen_after(self, edge: Edge) -> set[MergePoint]:
        """The decisions that may depend on an answer before them by something that no variable shows."""
        found: set[MergePoint] = set()
        waiting = [self.next[edge]]
        while waiting:
            point = waiting.pop()
            if point is None or point is self.end or point in found or point.shows_all():
                continue
            found.add(point)
            waiting += [self.next.get((point, answer)) for answer in (False, True)]
        return found

    def _path_by(
        self, pair: tuple[Edge, Edge], wanted: Container[tuple[Edge, Edge]], after: Mapping[Edge, Collection[Edge]]
    ) -> list[Edge]:
        """A path to the end by two answers, and by as many others as there are that are wanted together.

        It leaves out answers that contradict those before them; where no path is found without, it is empty.

        Args:
            pair: The answers.
            wanted: The pairs that are wanted.
            after: For each answer, those that may come later.
        """
        left_out = set(self.contradicting)
        for _ in range(_MOST_PATHS):
            edges, is_whole = self._path_without(left_out, pair, wanted, after)
            if is_whole or not edges:
                return edges
            left_out.add(frozenset(edges))
        return []

    def _path_without(
        self,
        left_out: Container[frozenset[Edge]],
        pair: tuple[Edge, Edge],
        wanted: Container[tuple[Edge, Edge]],
        after: Mapping[Edge, Collection[Edge]],
    ) -> tuple[list[Edge], bool]:
        """Such a path, and whether it comes to the end: it stops where all that leads on is left out."""
        aims: list[Edge] = list(pair)
        edges: list[Edge] = []
        edge: Edge = (None, False)
        while (point := self.next[edge]) is not None and point is not self.end:
            if aims and edge == aims[0]:
                aims.pop(0)
            steps = steps_to(self.next, self.end, aims[0] if aims else None)
            leading: list[Edge] = [branch for answer in (True, False) if (branch := (point, answer)) in steps]
            branches = [branch for branch in leading if frozenset((*edges, branch)) not in left_out]
            if not branches or (len(branches) < len(leading) and branches[0] in edges):
                return edges, False
            nearest = min(branches, key=steps.__getitem__)
            worth = {
                branch: sum((before, branch) in wanted for before in edges)
                + sum((branch, later) in wanted for later in after[branch])
                for branch in branches
                if branch is nearest or branch not in edges
            }
            edge = max(worth, key=worth.__getitem__)
            edges.append(edge)
        return edges, True

    def _iterations(self) -> tuple[bool, ...] | None:
        """The answers of a run with enough iterations of a loop, one right after the other.

        So many that a value which an iteration hands on to the next, through one variable after the other, is seen to
        come from an earlier iteration, and not from before the loop.
        """
        seen = set()
        self.unproven = []
        for edge in later_answers(self.next, self.end):
            point, _ = edge
            assert point is not None
            iteration = shortest_path(self.next, self.end, edge, edge)
            if iteration is None or frozenset(iteration) in seen:
                continue
            seen.add(frozenset(iteration))
            asks = any(each.asks for each, _ in iteration if each is not None)
            iteration = self._with_inner_iterations(iteration, edge)
            iterations = iteration * (
                2 + max(each.changing() if asks else each.leaves for each, _ in iteration if each is not None)
            )
            if any(iterations == edges[i : i + len(iterations)] for edges in self._paths for i in range(len(edges))):
                continue
            around = paths_around(self.next, self.end, edge)
            assert around is not None
            answers = self._answers_of([*around[0], *iterations, *around[1]])
            if not self._is_in_vain(answers):
                return answers
            self.unproven.append(point)
        return None

    def _with_inner_iterations(self, edges: Iterable[Edge], before: Edge | None = None) -> list[Edge]:
        """A path with an iteration of each loop in it that runs have left before the first one, and raised an error.

        Args:
            edges: The path.
            before: The answer before it.
        """
        leaving = {each[0] for each in self._lacking.values()}
        found: list[Edge] = []
        for edge in edges:
            point, answer = edge
            if edge in leaving and point is not None:
                iteration = self._iteration_of(point, not answer)
                if iteration is not None and iteration[-1] != before:
                    found += iteration
            found.append(edge)
            before = edge
        return found

    def _answers_of(self, edges: Iterable[Edge]) -> tuple[bool, ...]:
        """The answers of a path, with those iterations."""
        return tuple(answer for _, answer in self._with_inner_iterations(edges))

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
