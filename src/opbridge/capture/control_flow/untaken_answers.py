"""Which answers to give to the next execution of a model, so that it shows something that no execution has shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Hashable, Mapping, Sequence

from opbridge.capture.control_flow.ambiguous_phi_sources import ambiguous_phi_sources
from opbridge.capture.control_flow.branch_oracle import BranchEvent
from opbridge.capture.control_flow.execution_path import ExecutionPath
from opbridge.capture.control_flow.merge_points import (
    Edge,
    MergePoint,
    later_answers,
    paths_around,
    shortest_path,
    steps_before,
    steps_to,
)
from opbridge.capture.control_flow.path_tree import PathTree

__all__ = ["UntakenAnswers"]

_FIRST_ITERATIONS = 3
_MOST_STEPS = 4096
_MOST_PATHS = 16
_FEW_CAPTURES = 16


class UntakenAnswers:
    """The answers that are still to be given to executions of a model.

    Args:
        tree: The paths that are known.
        first_answer: What a decision is answered that no run has come to yet.

    Attributes:
        first_answer: As given.
        iterations: How many iterations the loops have that ask before each, where no answers are given.
        unproven: The decisions of loops of which no run with several iterations has come to its end.
        tries_all: Whether all answers are tried together, however many captures that takes.
        has_left_some: Whether some have not been; see `_not_together`.
    """

    def __init__(self, tree: PathTree, *, first_answer: bool = False) -> None:
        self._tree = tree
        self.first_answer = first_answer
        self.iterations = _FIRST_ITERATIONS
        self.unproven: list[MergePoint] = []
        self.tries_all = False
        self.has_left_some = False
        self._untaken: tuple[tuple[int, int], dict[Edge, int]] = (-1, -1), {}

    def of_next_run(self) -> tuple[bool, ...] | None:
        """The answers of a run that shows something new; None where there is none."""
        self.iterations = _FIRST_ITERATIONS
        for point in self._tree.points.values():
            for answer in (False, True):
                if (point, answer) in self._tree.next or not point.is_open:
                    continue
                if (point, answer) not in self._tree.lacking:
                    return (*point.answers, answer)
                if (answers := self._with_iterations((point, answer))) is not None:
                    return answers
        if self._tree.joined and (untried := self._untried_iterations()) is not None:
            answers, self.iterations = untried
            return answers
        return self._not_through() or self._not_together() or self._iterations() or self._not_told_apart()

    def _with_iterations(self, edge: Edge) -> tuple[bool, ...] | None:
        """The answers of a run that comes to an answer after an iteration of a loop; None where none is known.

        A run which left the loop before its first iteration raised an error after that answer, as `torch.stack` does
        for an empty list.
        """
        (header, leaving), *rest = self._tree.lacking[edge]
        assert header is not None
        iteration = self._tree.iteration_of(header, not leaving)
        if iteration is None:
            return None
        answers = (*header.answers, *self._tree.answers_of([*iteration, (header, leaving), *rest]))
        if self._tree.failed.are_in_vain(answers):
            self._tree.next[edge] = None
            return None
        return answers

    def _untried_iterations(self) -> tuple[tuple[bool, ...], int] | None:
        """The answers of a run, and how many iterations the loops that ask are to have; None once enough were tried.

        None at all, and, after the first number, one that is larger and large enough for what `_iterations` wants.
        """
        asking = [point for point in self._tree.points.values() if point.asks]
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
            point = self._tree.next.get(edge)
            if point is None or point is self._tree.end:
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
        if again and self._tree.joined:
            return not again[-1]  # which leaves a loop
        point = self._tree.points.get(place if self._tree.joined else tuple(event.answer for event in events))
        if point is None:
            return self.first_answer
        steps = self._steps_to_untaken()
        return steps.get((point, True), _MOST_STEPS) < steps.get((point, False), _MOST_STEPS)

    def _steps_to_untaken(self) -> dict[Edge, int]:
        """How many answers there are from each one to the nearest that no run has got yet."""
        known = len(self._tree.next), self._tree.opened
        if self._untaken[0] != known:
            asked = (point for point in self._tree.points.values() if point.is_open)
            aims = [edge for point in asked for edge in ((point, False), (point, True))]
            missing = [edge for edge in aims if edge not in self._tree.next and edge not in self._tree.lacking]
            self._untaken = known, steps_before(self._tree.next, missing)
        return self._untaken[1]

    def _not_through(self) -> tuple[bool, ...] | None:
        """The answers of a run that gives an answer which only runs that raised an error have given so far."""
        for edge in later_answers(self._tree.next, self._tree.end):
            if edge not in self._tree.through:
                around = paths_around(self._tree.next, self._tree.end, edge)
                if around is not None:
                    answers = self._tree.answers_of([*around[0], *around[1]])
                    if not self._tree.failed.are_in_vain(answers):
                        return answers
        return None

    def _not_together(self) -> tuple[bool, ...] | None:
        """The answers of a run that gives two answers which no run has got both of.

        A number that Python computes from an earlier answer, and that no variable holds, shows only so. Two answers
        with a decision between them at which variables show all that Python holds are tried together where there are
        few captures, and else left: the later one is not told by what it does that the earlier one was given.
        """
        after = later_answers(self._tree.next, self._tree.end)
        pairs = ((edge, later) for edge, found in after.items() for later in found)
        wanted = {pair: None for pair in pairs if not self._tree.are_together(*pair)}
        if not self.tries_all and len(self._tree.paths) + len(self._tree.failed.raising) >= _FEW_CAPTURES:
            count = len(wanted)
            unseen = {edge: self._unseen_after(edge) for edge in after}
            wanted = {
                (edge, later): None
                for edge, later in wanted
                if later[0] in unseen[edge] or (edge[0], later) in self._tree.again
            }
            self.has_left_some = len(wanted) < count
        found = (self._tree.answers_of(self._path_by(pair, wanted, after)) for pair in wanted)
        return next((answers for answers in found if answers and not self._tree.failed.are_in_vain(answers)), None)

    def _not_told_apart(self) -> tuple[bool, ...] | None:
        """The answers of a run in which variables differ that hold the same in all runs that gave some answer.

        What is done after that answer does not show otherwise which of them it takes.
        """
        if not self.has_left_some:
            return None
        wanted: dict[Edge, tuple[ExecutionPath, int]] = {}
        for edge in later_answers(self._tree.next, self._tree.end):
            point = edge[0]
            assert point is not None
            if (
                edge in self._tree.through
                and (other := ambiguous_phi_sources(self._tree.through[edge], point.passes)) is not None
            ):
                wanted[edge] = other
        for edge, (path, number) in sorted(wanted.items(), key=lambda each: each[1][1]):
            edges = [*self._tree.edges[self._tree.paths.index(path)][:number], edge]
            while (
                (point := self._tree.next[edges[-1]]) is not None
                and point is not self._tree.end
                and len(edges) < _MOST_STEPS
            ):
                near = (
                    steps_before(self._tree.next, [each for each in wanted if each not in edges]),
                    steps_to(self._tree.next, self._tree.end, None),
                )
                branches: list[Edge] = [branch for answer in (True, False) if (branch := (point, answer)) in near[1]]
                if not branches:
                    break
                edges.append(min(branches, key=lambda branch: (near[0].get(branch, _MOST_STEPS), near[1][branch])))
            answers = tuple(answer for _, answer in edges)
            if not self._tree.failed.are_in_vain(answers) and edges not in self._tree.edges:
                return answers
        return None

    def _unseen_after(self, edge: Edge) -> set[MergePoint]:
        """The decisions that may depend on an answer before them by something that no variable shows."""
        found: set[MergePoint] = set()
        waiting = [self._tree.next[edge]]
        while waiting:
            point = waiting.pop()
            if point is None or point is self._tree.end or point in found or point.shows_all():
                continue
            found.add(point)
            waiting += [self._tree.next.get((point, answer)) for answer in (False, True)]
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
        left_out = set(self._tree.failed.contradicting)
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
        while (point := self._tree.next[edge]) is not None and point is not self._tree.end:
            if aims and edge == aims[0]:
                aims.pop(0)
            steps = steps_to(self._tree.next, self._tree.end, aims[0] if aims else None)
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
        for edge in later_answers(self._tree.next, self._tree.end):
            point, _ = edge
            assert point is not None
            iteration = shortest_path(self._tree.next, self._tree.end, edge, edge)
            if iteration is None or frozenset(iteration) in seen:
                continue
            seen.add(frozenset(iteration))
            asks = any(each.asks for each, _ in iteration if each is not None)
            iteration = self._tree.with_inner_iterations(iteration, edge)
            iterations = iteration * (
                2 + max(each.changing() if asks else each.leaves for each, _ in iteration if each is not None)
            )
            if any(
                iterations == edges[i : i + len(iterations)] for edges in self._tree.edges for i in range(len(edges))
            ):
                continue
            around = paths_around(self._tree.next, self._tree.end, edge)
            assert around is not None
            answers = self._tree.answers_of([*around[0], *iterations, *around[1]])
            if not self._tree.failed.are_in_vain(answers):
                return answers
            self.unproven.append(point)
        return None
