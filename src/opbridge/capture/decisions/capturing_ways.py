"""The capture of a model that decides by data."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable, Iterator

from opbridge.capture.decisions.answers import Answers
from opbridge.capture.decisions.exploring import explore
from opbridge.capture.decisions.flow import Flow
from opbridge.capture.decisions.merging import Merged
from opbridge.capture.decisions.uses_of_lists import advice_on_lists
from opbridge.capture.decisions.ways import Unjoined, Ways, WaysRefused
from opbridge.capture.one_attempt import Attempt, Captured
from opbridge.capture.side_effects import SideEffects, keeping_random_state
from opbridge.capture.tracer.writes import written_by
from opbridge.graph.captured_graph import CapturedGraph
from opbridge.graph.decisions import Decision, Side

__all__ = ["capture_decisions"]


def capture_decisions(attempt: Attempt) -> Captured:
    """The capture of a model with all ways that data may make it take.

    Args:
        attempt: The attempt that failed as Python asked for a truth value that only data decides. Its notes say which
            decisions there are.

    Raises:
        WaysRefused: There are too many ways, or they do not end alike.
        Exception: What the capture of a way raises.
    """

    def run(answers: Answers) -> CapturedGraph:
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

    ways = _no_ways(attempt)
    try:
        try:
            explore(ways, run, attempt.module, attempt.limits, of_sizes=attempt.looping)
            found = _merged(attempt, ways, run)
        except Exception as error:
            if not ways.learned.numbers and not ways.learned.asked_again:
                raise
            ways = _no_ways(attempt)  # a loop may have a known number of turns, and need Python's own numbers
            ways.learned.carries_numbers = False
            try:
                explore(ways, run, attempt.module, attempt.limits, of_sizes=attempt.looping)
                found = _merged(attempt, ways, run)
            except WaysRefused:
                raise error from None  # which says more than that there are too many ways
    except Unjoined as error:
        told = _telling_more(attempt, ways, run)
        if told is not None:
            ways, found = told
        elif asked_turns := [point for point in ways.points.values() if point.asks]:
            lines = ", ".join(sorted({str(point.sources[0]) for point in asked_turns if point.sources}))
            lists = advice_on_lists([*ways.learned.growth, *ways.learned.varying])
            raise WaysRefused(
                "The model cannot be captured: its computation depends on the number of iterations of the loop at "
                f"{lines}: {error}. Make every iteration compute the same, with only tensors changing between "
                "iterations, and use tensors after the loop, or a list through torch.stack or "
                f"torch.cat.{f' {lists}' if lists else ''}"
            ) from error
        else:
            ways = _no_ways(attempt, joined=False)
            found = _apart(attempt, ways, run)
    _limit(found.graph, [way.graph for way in ways.ways])
    attempt.raising = tuple(_raising(ways))
    attempt.notes += [
        (
            f"the model raises an error at {line} for some inputs; the file does not raise it, and is valid only "
            "for the other inputs"
        )
        for line in dict.fromkeys(each.place for each in attempt.raising)
    ]
    return found


def _no_ways(attempt: Attempt, *, joined: bool = True) -> Ways:
    """The ways of a model before its first capture, with what the attempt knows of the identities that matter."""
    ways = Ways(joined=joined)
    ways.learned.identities = attempt.identities
    return ways


def _telling_more(
    attempt: Attempt, ways: Ways, run: Callable[[Answers], CapturedGraph]
) -> tuple[Ways, Captured] | None:
    """The graph of all ways, which join only where tensors share values alike, after others did not do the same.

    All of them have the one form that torch's functionalisation gives.
    """
    learned = dataclasses.replace(ways.learned, tells_more=True)
    ways = Ways(joined=True)
    ways.learned = learned
    attempt.rewriting_by_running = True
    try:
        explore(ways, run, attempt.module, attempt.limits, of_sizes=attempt.looping)
        return ways, _merged(attempt, ways, run)
    except Exception:  # the ways are refused for what is known already
        return None
    finally:
        attempt.rewriting_by_running = False


def _apart(attempt: Attempt, ways: Ways, run: Callable[[Answers], CapturedGraph]) -> Captured:
    """The graph of all ways, none of which joins another one again.

    Raises:
        WaysRefused: There are too many, or they do not end alike.
    """
    try:
        explore(ways, run, attempt.module, attempt.limits)
        return _merged(attempt, ways, run)
    except Unjoined as error:
        raise WaysRefused(
            f"The model cannot be captured: the branches of the conditions at {ways.lines()} return different "
            f"structures: {error}. Make all branches return the same structure, with tensors of the same dtypes and "
            "ranks."
        ) from error


def _merged(attempt: Attempt, ways: Ways, run: Callable[[Answers], CapturedGraph]) -> Captured:
    """The graph of all ways.

    Raises:
        Unjoined: Ways that seemed to have joined do not do the same.
    """
    try:
        return _merged_once(attempt, ways)
    except Unjoined:
        if not ways.has_left_some:
            raise
    ways.tries_all, ways.has_left_some = True, False
    explore(ways, run, attempt.module, attempt.limits, of_sizes=attempt.looping)
    return _merged_once(attempt, ways)


def _merged_once(attempt: Attempt, ways: Ways) -> Captured:
    attempt.merged = Merged(Flow(ways), ways.ways[0].graph.structure, limits=_limits([way.graph for way in ways.ways]))
    try:
        return attempt.capture_once()
    finally:
        attempt.merged = None


def _limits(ways: Iterable[CapturedGraph]) -> dict[str, tuple[int | None, int | None]]:
    """The limits of sizes that follow from conditions of the ways, all of which become conditions of the graph."""
    lowest: dict[str, int] = {}
    highest: dict[str, int] = {}
    for condition in itertools.chain.from_iterable(way.conditions for way in ways):
        told = re.fullmatch(r"(\w+) (<|<=|>|>=) (\d+)", condition.expression)
        if told is None or condition.symbols != (told[1],):
            continue
        number = int(told[3]) + {"<": -1, ">": 1}.get(told[2], 0)
        if told[2].startswith("<"):
            highest[told[1]] = min(number, highest.get(told[1], number))
        else:
            lowest[told[1]] = max(number, lowest.get(told[1], number))
    return {each: (lowest.get(each), highest.get(each)) for each in {**lowest, **highest}}


def _limit(graph: CapturedGraph, ways: Iterable[CapturedGraph]) -> None:
    """Limits a graph to the sizes that all of its ways are for."""
    known = {condition.expression for condition in graph.conditions}
    for way in ways:
        new = [
            each for each in way.conditions if each.expression not in known and graph.ranges.keys() >= {*each.symbols}
        ]
        known.update(each.expression for each in new)
        graph.conditions += tuple(new)
        graph.zeros = {**way.zeros, **graph.zeros}
        for symbol, (low, high) in way.ranges.items():
            if symbol in graph.ranges and symbol in graph.places:
                lowest, highest = graph.ranges[symbol]
                ends = [end for end in (high, highest) if end is not None]
                graph.ranges[symbol] = max(low, lowest), min(ends, default=None)


def _raising(ways: Ways) -> Iterator[Decision]:
    """The decisions after which the model raises an error for one answer."""
    for (point, answer), after in ways.next.items():
        if after is None and point is not None:
            sides = Side(True, raises=answer), Side(False, raises=not answer)
            yield Decision(-1, point.sources, sides)
