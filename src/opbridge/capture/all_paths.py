"""The capture of a model that decides by data."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator

from opbridge.base.own_faults import raise_own_fault
from opbridge.base.sources import of_code
from opbridge.capture.assumptions import Assumptions
from opbridge.capture.captured import Captured
from opbridge.capture.control_flow.branch_oracle import BranchOracle, PathsRefused
from opbridge.capture.control_flow.lowering import CFGLowering
from opbridge.capture.control_flow.merge_points import Unjoined
from opbridge.capture.control_flow.path_explorer import Exploration, explore
from opbridge.capture.control_flow.varying_sizes import varying_sizes
from opbridge.capture.guards.expressions import limit_of
from opbridge.capture.one_capture import capture_once
from opbridge.capture.session import CaptureSession
from opbridge.capture.side_effects import SideEffects, keeping_random_state
from opbridge.capture.tracer.sizes_of_data import sizes_read_from_data
from opbridge.capture.tracer.writes import written_by
from opbridge.graph.captured_graph import CapturedGraph
from opbridge.graph.decisions import Branch, Decision

__all__ = ["capture_paths"]


def capture_paths(session: CaptureSession, assumptions: Assumptions, *, of_sizes: bool = False) -> Captured:
    """The capture of a model with all paths that data may make it take.

    Args:
        session: The model.
        assumptions: What its executions assume.
        of_sizes: Whether a loop over a dynamic size is a branch, and not unrolled for the example.

    Raises:
        PathsRefused: There are too many paths, or they do not end alike.
        Exception: What the capture of a path raises.
    """
    return _PathCapture(session, assumptions, of_sizes=of_sizes).captured()


class _PathCapture:
    """The capture of all paths of a model.

    Args:
        session: The model.
        assumptions: What the execution of all paths at once assumes. That of a single one follows numbers that data
            decides as well, whatever the sizes are.
        of_sizes: See `capture_paths`.
    """

    def __init__(self, session: CaptureSession, assumptions: Assumptions, *, of_sizes: bool) -> None:
        self._session, self._of_sizes = session, of_sizes
        self._assumptions = dataclasses.replace(assumptions, is_following=False)
        self._draws = False

    def captured(self) -> Captured:
        """The graph of all paths. The arguments and errors are those of `capture_paths`."""
        paths = self._no_paths()
        try:
            try:
                found = self._explored(paths)
            except Exception as error:
                if not paths.learned.numbers and not paths.learned.asked_again:
                    raise
                paths = self._no_paths()  # a loop may have a known number of iterations, and need Python's own numbers
                paths.learned.carries_numbers = False
                try:
                    found = self._explored(paths)
                except PathsRefused:
                    raise error from None  # which says more than that there are too many paths
        except Unjoined as error:
            paths, found = self._otherwise(paths, error)
        _limit(found.graph, [path.graph for path in paths.tree.paths])
        raising = tuple(_raising(paths))
        notes = (
            (
                f"the model raises an error at {line} for some inputs; the file does not raise it, and is valid only "
                "for the other inputs"
            )
            for line in dict.fromkeys(each.place for each in raising)
        )
        return dataclasses.replace(
            found,
            assumptions=self._assumptions,
            notes=tuple(notes),
            draws=self._draws,
            unrolls=not self._of_sizes,
            raising=raising,
        )

    def _run(self, answers: BranchOracle, *, rewrites_by_running: bool = False) -> CapturedGraph:
        """The graph of one path."""
        assumptions = dataclasses.replace(
            self._assumptions, execution=answers, is_following=True, rewrites_by_running=rewrites_by_running
        )
        effects = SideEffects(self._session.module)
        try:
            with keeping_random_state(), effects, sizes_read_from_data(answers.loops.learned.sizes_of_data):
                captured = capture_once(self._session, assumptions)
                known = self._session.identities
                known.shares = known.shares or any(map(written_by, captured.graph.graph.nodes))
                known.compares_objects = known.compares_objects or answers.state.heap.compares_objects
                return captured.rewrite()
        finally:
            found = (of_code(code, line) for code, line in answers.loops.unrolled)
            self._session.unrolled |= dict.fromkeys(each for each in found if each is not None)
            answers.state.heap.restore()
            self._draws = self._draws or effects.drew

    def _no_paths(self, *, joined: bool = True) -> Exploration:
        """The paths of a model before its first execution, with the identities that are known to matter."""
        paths = Exploration(joined=joined)
        paths.learned.identities = self._session.identities
        return paths

    def _explored(
        self, paths: Exploration, *, rewrites_by_running: bool = False, of_sizes: bool | None = None
    ) -> Captured:
        """The graph of all paths, after executions until there is no other one.

        Raises:
            Unjoined: Paths that seemed to have joined do not do the same.
        """
        session, run = self._session, functools.partial(self._run, rewrites_by_running=rewrites_by_running)
        assumptions = dataclasses.replace(self._assumptions, rewrites_by_running=rewrites_by_running)
        of_sizes = self._of_sizes if of_sizes is None else of_sizes
        explore(paths, run, session.module, session.limits, of_sizes=of_sizes)
        try:
            return self._merged(paths, assumptions)
        except Unjoined:
            if not paths.untaken.has_left_some:
                raise
        paths.untaken.tries_all, paths.untaken.has_left_some = True, False
        explore(paths, run, session.module, session.limits, of_sizes=of_sizes)
        return self._merged(paths, assumptions)

    def _merged(self, paths: Exploration, assumptions: Assumptions) -> Captured:
        graphs = [path.graph for path in paths.tree.paths]
        merged = CFGLowering(paths.flow(), graphs[0].structure, limits=_limits(graphs))
        return capture_once(self._session, dataclasses.replace(assumptions, execution=merged))

    def _otherwise(self, paths: Exploration, error: Unjoined) -> tuple[Exploration, Captured]:
        """The paths and the graph of all of them, after those that seemed to have joined did not do the same.

        Raises:
            PathsRefused: Nothing makes one graph of them.
        """
        has_loops = any(point.asks for point in paths.tree.points.values())
        again = self._reading_constants(paths) or self._telling_more(paths)
        again = again or (self._with_sizes_told_alike(paths) if has_loops else None)
        if again is not None:
            return again
        if has_loops:
            raise _by_iterations(paths, error) from error
        apart = self._no_paths(joined=False)
        try:
            return apart, self._apart(apart)
        except PathsRefused:
            again = self._with_sizes_told_alike(paths)
            if again is None:
                raise
            return again

    def _reading_constants(self, paths: Exploration) -> tuple[Exploration, Captured] | None:
        """The graph of all paths, in whose loops no number is known that is read from what depends on weights alone.

        With `place = torch.tensor(0)` before a loop, `x[place]` has a number that is known in its first iteration.
        """
        if not paths.learned.has_known_constants or not paths.learned.knows_constants:
            return None
        paths = Exploration(joined=True, learned=dataclasses.replace(paths.learned, knows_constants=False))
        try:
            return paths, self._explored(paths)
        except Exception as error:  # the paths are refused for what is known already
            raise_own_fault(error)
            return None

    def _telling_more(self, paths: Exploration) -> tuple[Exploration, Captured] | None:
        """The graph of all paths, which join only where tensors share values alike, after others did not do the same.

        All of them have the one form that torch's functionalization gives.
        """
        paths = Exploration(joined=True, learned=dataclasses.replace(paths.learned, tells_more=True))
        try:
            return paths, self._explored(paths, rewrites_by_running=True)
        except Exception as error:  # the paths are refused for what is known already
            raise_own_fault(error)
            return None

    def _with_sizes_told_alike(self, paths: Exploration) -> tuple[Exploration, Captured] | None:
        """The graph of all paths, none of which tells more by what it knows of sizes than others do.

        Sizes that are constants in some of them are read from data, as in the others, and questions whose answers some
        know are decisions, as in the others. A path that raises an error for its first answers shows nothing of its
        sizes: the other answers are tried first then.
        """
        while True:
            known = paths.learned
            sizes = known.sizes_of_data | varying_sizes(paths.tree.points.values())
            asked = known.asked | paths.tree.asked
            is_same = (sizes, asked) == (known.sizes_of_data, known.asked)
            if is_same and (known.first_answer or not paths.tree.failed.has_raised):
                return None
            first = known.first_answer or is_same
            learned = dataclasses.replace(known, sizes_of_data=sizes, asked=asked, first_answer=first)
            paths = Exploration(joined=True, learned=learned)
            try:
                return paths, self._explored(paths)
            except Unjoined:
                continue
            except Exception as error:  # the paths are refused for what is known already
                raise_own_fault(error)
                return None

    def _apart(self, paths: Exploration) -> Captured:
        """The graph of all paths, none of which joins another one again.

        Raises:
            PathsRefused: There are too many, or they do not end alike.
        """
        try:
            return self._explored(paths, of_sizes=False)
        except Unjoined as error:
            raise PathsRefused(
                f"The model cannot be captured: the branches of the conditions at {paths.tree.lines()} return "
                f"different structures: {error}. Make all branches return the same structure, with tensors of the same "
                f"dtypes and ranks.{_of_empty_list(paths)}"
            ) from error


def _by_iterations(paths: Exploration, error: Unjoined) -> PathsRefused:
    """Says that what a model computes depends on the number of iterations of a loop."""
    points = (point for point in paths.tree.points.values() if point.asks)
    lines = ", ".join(sorted({str(point.sources[0]) for point in points if point.sources}))
    return PathsRefused(
        "The model cannot be captured: its computation depends on the number of iterations of the loop at "
        f"{lines}: {error}. Make every iteration compute the same, with only tensors changing between "
        "iterations, and use tensors after the loop, or lists to which each iteration appends elements of one kind."
        f"{_of_empty_list(paths)}"
    )


def _of_empty_list(paths: Exploration) -> str:
    """What is advised where a tensor has been made of an empty list."""
    if not paths.learned.has_empty_tensor:
        return ""
    return " PyTorch makes a floating-point tensor of an empty list: pass dtype= to torch.tensor."


def _limits(paths: Iterable[CapturedGraph]) -> dict[str, tuple[int | None, int | None]]:
    """The limits of sizes that follow from conditions of the paths, all of which become conditions of the graph."""
    lowest: dict[str, int] = {}
    highest: dict[str, int] = {}
    for condition in itertools.chain.from_iterable(path.conditions for path in paths):
        limit = limit_of(condition.expression)
        if limit is None:
            continue
        symbol, low, high = limit
        if high is not None:
            highest[symbol] = min(high, highest.get(symbol, high))
        if low is not None:
            lowest[symbol] = max(low, lowest.get(symbol, low))
    return {each: (lowest.get(each), highest.get(each)) for each in {**lowest, **highest}}


def _limit(graph: CapturedGraph, paths: Iterable[CapturedGraph]) -> None:
    """Limits a graph to the sizes that all of its paths are for."""
    known = {condition.expression for condition in graph.conditions}
    for path in paths:
        new = [
            each for each in path.conditions if each.expression not in known and graph.ranges.keys() >= {*each.symbols}
        ]
        known.update(each.expression for each in new)
        graph.conditions += tuple(new)
        graph.zeros = {**path.zeros, **graph.zeros}
        for symbol, (low, high) in path.ranges.items():
            if symbol in graph.ranges and symbol in graph.places:
                lowest, highest = graph.ranges[symbol]
                ends = [end for end in (high, highest) if end is not None]
                graph.ranges[symbol] = max(low, lowest), min(ends, default=None)


def _raising(paths: Exploration) -> Iterator[Decision]:
    """The decisions after which the model raises an error for one answer."""
    for (point, answer), after in paths.tree.next.items():
        if after is None and point is not None:
            branches = Branch(True, raises=answer), Branch(False, raises=not answer)
            yield Decision(-1, point.sources, branches)
