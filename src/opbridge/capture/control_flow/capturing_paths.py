"""The capture of a model that decides by data."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable, Iterator

from opbridge.capture.control_flow.branch_oracle import BranchOracle
from opbridge.capture.control_flow.cfg import ControlFlowGraph
from opbridge.capture.control_flow.lowering import CFGLowering
from opbridge.capture.control_flow.path_explorer import explore
from opbridge.capture.control_flow.path_tree import PathsRefused, PathTree, Unjoined
from opbridge.capture.one_attempt import Attempt, Captured
from opbridge.capture.side_effects import SideEffects, keeping_random_state
from opbridge.capture.tracer.writes import written_by
from opbridge.graph.captured_graph import CapturedGraph
from opbridge.graph.decisions import Decision, Side

__all__ = ["capture_paths"]


def capture_paths(attempt: Attempt) -> Captured:
    """The capture of a model with all paths that data may make it take.

    Args:
        attempt: The attempt that failed as Python asked for a truth value that only data decides. Its notes say which
            decisions there are.

    Raises:
        PathsRefused: There are too many paths, or they do not end alike.
        Exception: What the capture of a path raises.
    """

    def run(answers: BranchOracle) -> CapturedGraph:
        attempt.answers = answers
        attempt.following = True  # a number that data decides is symbolic, whatever the sizes are
        try:
            with SideEffects(attempt.module), keeping_random_state():
                captured = attempt.capture_once()
                known = attempt.identities
                known.shares = known.shares or any(map(written_by, captured.graph.graph.nodes))
                known.compares_objects = known.compares_objects or answers.compares_objects
                return captured.rewrite()
        finally:
            answers.restore()
            attempt.answers, attempt.following = None, False

    paths = _no_paths(attempt)
    try:
        try:
            explore(paths, run, attempt.module, attempt.limits, of_sizes=attempt.looping)
            found = _merged(attempt, paths, run)
        except Exception as error:
            if not paths.learned.numbers and not paths.learned.asked_again:
                raise
            paths = _no_paths(attempt)  # a loop may have a known number of iterations, and need Python's own numbers
            paths.learned.carries_numbers = False
            try:
                explore(paths, run, attempt.module, attempt.limits, of_sizes=attempt.looping)
                found = _merged(attempt, paths, run)
            except PathsRefused:
                raise error from None  # which says more than that there are too many paths
    except Unjoined as error:
        told = _telling_more(attempt, paths, run)
        if told is not None:
            paths, found = told
        elif asked_iterations := [point for point in paths.points.values() if point.asks]:
            lines = ", ".join(sorted({str(point.sources[0]) for point in asked_iterations if point.sources}))
            raise PathsRefused(
                "The model cannot be captured: its computation depends on the number of iterations of the loop at "
                f"{lines}: {error}. Make every iteration compute the same, with only tensors changing between "
                "iterations, and use tensors after the loop, or lists to which each iteration appends elements of "
                "one kind."
            ) from error
        else:
            paths = _no_paths(attempt, joined=False)
            found = _apart(attempt, paths, run)
    _limit(found.graph, [path.graph for path in paths.paths])
    attempt.raising = tuple(_raising(paths))
    attempt.notes += [
        (
            f"the model raises an error at {line} for some inputs; the file does not raise it, and is valid only "
            "for the other inputs"
        )
        for line in dict.fromkeys(each.place for each in attempt.raising)
    ]
    return found


def _no_paths(attempt: Attempt, *, joined: bool = True) -> PathTree:
    """The paths of a model before its first capture, with what the attempt knows of the identities that matter."""
    paths = PathTree(joined=joined)
    paths.learned.identities = attempt.identities
    return paths


def _telling_more(
    attempt: Attempt, paths: PathTree, run: Callable[[BranchOracle], CapturedGraph]
) -> tuple[PathTree, Captured] | None:
    """The graph of all paths, which join only where tensors share values alike, after others did not do the same.

    All of them have the one form that torch's functionalisation gives.
    """
    learned = dataclasses.replace(paths.learned, tells_more=True)
    paths = PathTree(joined=True)
    paths.learned = learned
    attempt.rewriting_by_running = True
    try:
        explore(paths, run, attempt.module, attempt.limits, of_sizes=attempt.looping)
        return paths, _merged(attempt, paths, run)
    except Exception:  # the paths are refused for what is known already
        return None
    finally:
        attempt.rewriting_by_running = False


def _apart(attempt: Attempt, paths: PathTree, run: Callable[[BranchOracle], CapturedGraph]) -> Captured:
    """The graph of all paths, none of which joins another one again.

    Raises:
        PathsRefused: There are too many, or they do not end alike.
    """
    try:
        explore(paths, run, attempt.module, attempt.limits)
        return _merged(attempt, paths, run)
    except Unjoined as error:
        raise PathsRefused(
            f"The model cannot be captured: the branches of the conditions at {paths.lines()} return different "
            f"structures: {error}. Make all branches return the same structure, with tensors of the same dtypes and "
            "ranks."
        ) from error


def _merged(attempt: Attempt, paths: PathTree, run: Callable[[BranchOracle], CapturedGraph]) -> Captured:
    """The graph of all paths.

    Raises:
        Unjoined: Paths that seemed to have joined do not do the same.
    """
    try:
        return _merged_once(attempt, paths)
    except Unjoined:
        if not paths.has_left_some:
            raise
    paths.tries_all, paths.has_left_some = True, False
    explore(paths, run, attempt.module, attempt.limits, of_sizes=attempt.looping)
    return _merged_once(attempt, paths)


def _merged_once(attempt: Attempt, paths: PathTree) -> Captured:
    attempt.merged = CFGLowering(
        ControlFlowGraph(paths), paths.paths[0].graph.structure, limits=_limits([path.graph for path in paths.paths])
    )
    try:
        return attempt.capture_once()
    finally:
        attempt.merged = None


def _limits(paths: Iterable[CapturedGraph]) -> dict[str, tuple[int | None, int | None]]:
    """The limits of sizes that follow from conditions of the paths, all of which become conditions of the graph."""
    lowest: dict[str, int] = {}
    highest: dict[str, int] = {}
    for condition in itertools.chain.from_iterable(path.conditions for path in paths):
        told = re.fullmatch(r"(\w+) (<|<=|>|>=) (\d+)", condition.expression)
        if told is None or condition.symbols != (told[1],):
            continue
        number = int(told[3]) + {"<": -1, ">": 1}.get(told[2], 0)
        if told[2].startswith("<"):
            highest[told[1]] = min(number, highest.get(told[1], number))
        else:
            lowest[told[1]] = max(number, lowest.get(told[1], number))
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


def _raising(paths: PathTree) -> Iterator[Decision]:
    """The decisions after which the model raises an error for one answer."""
    for (point, answer), after in paths.next.items():
        if after is None and point is not None:
            sides = Side(True, raises=answer), Side(False, raises=not answer)
            yield Decision(-1, point.sources, sides)
