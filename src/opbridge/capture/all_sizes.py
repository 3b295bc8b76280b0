"""The captures of a model that decides by sizes, as one that is the model for all of them."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from torch.utils import _pytree as pytree

from opbridge.capture import comparing_captures, other_sides
from opbridge.capture.advice import is_data_dependent
from opbridge.capture.control_flow import capture_paths
from opbridge.capture.control_flow.branch_oracle import BranchOracle
from opbridge.capture.control_flow.lowering import CFGLowering
from opbridge.capture.dynamic_shapes import Shapes
from opbridge.capture.functionalize import functionalize
from opbridge.capture.one_attempt import Attempt, Captured
from opbridge.capture.retries import is_by_loop, outcome
from opbridge.capture.side_effects import SideEffects, keeping_random_state
from opbridge.capture.size_branches import SizePath, SizePaths, asked_zeros, capture_branches, filled
from opbridge.capture.size_branches.filling import ContinuedPadding
from opbridge.capture.size_branches.regions import is_trivial
from opbridge.capture.size_constraints import contradictions
from opbridge.capture.tracer.writes import written_by
from opbridge.graph.captured_graph import CapturedGraph

__all__ = ["of_all_sizes", "with_all_sizes", "with_fillings"]


def with_all_sizes(attempt: Attempt, found: Captured) -> Captured:
    """A capture; where the model asks for sizes, one for the sizes on the other sides as well, if there is one."""
    if not attempt.shapes.axes or (attempt.effects is not None and attempt.effects.drew):
        return found
    axes = other_sides.plain_axes(found.graph, attempt.shapes)
    ranges = {symbol: (max(axis.low or 0, 1), axis.high) for symbol, axis in axes.items()}
    is_open = bool(asked_zeros(found.graph, axes)) or any(
        each.expression not in attempt.joined and axes.keys() & set(each.symbols) and not is_trivial(each, ranges)
        for each in found.graph.conditions
    )
    if not is_open:
        return found
    graph = found.graph
    asked = tuple(each for each in graph.conditions if each.expression not in attempt.joined)
    example = (
        graph
        if attempt.filling
        else None
        if attempt.is_same_elsewhere
        else dataclasses.replace(graph, conditions=asked)
    )
    return of_all_sizes(attempt, example) or found


def of_all_sizes(attempt: Attempt, example: CapturedGraph | None = None) -> Captured | None:
    """A capture that decides by sizes as the model does; None where there is none, and the attempt is as before.

    Args:
        attempt: The attempt.
        example: The capture of the example, where there is one.
    """
    leaves, structure = pytree.tree_flatten((attempt.args, attempt.kwargs))
    if attempt.is_for_example or attempt.shapes.verify is not None:
        return None
    kept, raising, notes = dict(vars(attempt)), list(attempt.raising or ()), list(attempt.notes)

    def capture(shapes: Shapes) -> CapturedGraph | None:
        if attempt.filling and shapes is attempt.shapes:
            return example
        found = None
        if attempt.filling:
            with ContinuedPadding():
                continued = _for_other_sizes(attempt, shapes)
            found = continued and _filled_graph(attempt, continued, shapes, is_continued=True)
        if found is None:
            found = _for_other_sizes(attempt, shapes)
        raising.extend(each for each in attempt.raising or () if each not in raising)
        notes.extend(each for each in attempt.notes if each not in notes)
        return found

    is_right: list[bool] = []  # for the sizes tried, where a graph was compared

    def agrees(graph: CapturedGraph | None, values: list[Any]) -> bool | None:
        found = comparing_captures.agrees(attempt, graph, values, structure)
        is_right.append(graph is not None and bool(found))
        return found

    paths = None if attempt.looping or attempt.filling else _paths_of(attempt)
    try:
        graph = capture_branches(
            leaves, attempt.shapes, capture, agrees, attempt.limits, attempt.with_one, paths, example
        )
    finally:
        vars(attempt).update(kept)
    if graph is None or contradictions(graph, leaves, attempt.shapes.axes, 1):
        # With a capture of the example, its graph is compared first, for sizes of 1 that it asks about.
        attempt.is_right_for_one = example is not None and bool(is_right) and all(is_right)
        return None
    attempt.notes, attempt.raising, attempt.general = notes, tuple(raising), True
    return Captured(graph, lambda: graph)


def with_fillings(attempt: Attempt, found: Captured) -> Captured | None:
    """A capture that is the model for both answers to the questions about remainders; None where there is none."""
    if not attempt.shapes.axes or attempt.shapes.verify is not None or attempt.is_for_example:
        return None
    if attempt.effects is not None and attempt.effects.drew:
        return None
    graph = _filled_graph(attempt, found.graph, attempt.shapes)
    leaves = pytree.tree_leaves((attempt.args, attempt.kwargs))
    if graph is None or contradictions(graph, leaves, attempt.shapes.axes, 1):
        return None
    attempt.filling = attempt.general = True
    return Captured(graph, lambda: graph)


def _filled_graph(
    attempt: Attempt, graph: CapturedGraph, shapes: Shapes, *, is_continued: bool = False
) -> CapturedGraph | None:
    """The graph of both answers to questions about remainders, for the sizes of a capture; None where there is none.

    Args:
        attempt: The attempt, with the shapes of the example.
        graph: The capture.
        shapes: The dynamic shapes with its sizes.
        is_continued: Whether it was made within `ContinuedPadding`.
    """
    leaves, structure = pytree.tree_flatten((attempt.args, attempt.kwargs))
    kept = dict(vars(attempt))

    def capture(shapes: Shapes, context: contextlib.AbstractContextManager[Any]) -> CapturedGraph | None:
        with context:
            return _for_other_sizes(attempt, shapes)

    def agrees(other: CapturedGraph | None, values: list[Any]) -> bool | None:
        return comparing_captures.agrees(attempt, other, values, structure)

    try:
        return filled(graph, leaves, shapes, capture, agrees, attempt.limits, is_continued=is_continued)
    finally:
        vars(attempt).update(kept)


def _paths_of(attempt: Attempt) -> SizePaths:
    """How paths of a model are captured that join again."""
    free = frozenset(axis.place for axis in attempt.shapes.axes.values())

    def capture(shapes: Shapes, answers: BranchOracle) -> SizePath:
        with _for_sizes_of_paths(attempt, shapes, free), keeping_random_state(), SideEffects(attempt.module):
            attempt.answers = answers
            try:
                found = attempt.capture_once()
                rewritten = found.rewrite()
            finally:
                answers.restore()
        known = {each.expression for each in found.graph.conditions}
        further = tuple(each for each in rewritten.conditions if each.expression not in known)
        return SizePath(rewritten, further)

    def merge(merged: CFGLowering) -> CapturedGraph:
        with _for_sizes_of_paths(attempt, attempt.shapes, free):
            attempt.merged = merged
            return attempt.capture_once().graph

    return SizePaths(attempt.module, capture, merge)


@contextlib.contextmanager
def _for_sizes_of_paths(attempt: Attempt, shapes: Shapes, free: frozenset[str]) -> Iterator[None]:
    """Within this context, an attempt is for the sizes of other shapes, none of which is fixed."""
    kept = dict(vars(attempt))
    attempt.start_again("direct")
    attempt.notes, attempt.shapes, attempt.by_size, attempt.other_side, attempt.following = [], shapes, True, free, True
    try:
        yield
    finally:
        vars(attempt).update(kept)


def _for_other_sizes(attempt: Attempt, shapes: Shapes) -> CapturedGraph | None:
    """A capture for the sizes of other shapes, without in-place operators; None where it fails."""
    example = attempt.shapes
    kept = dict(vars(attempt))
    attempt.start_again("direct")
    attempt.notes, attempt.raising, attempt.shapes, attempt.by_size = [], None, shapes, True
    attempt.other_side = frozenset(axis.place for axis in example.axes.values() if other_sides.is_plain(axis))
    try:
        with keeping_random_state():
            found, failure = (None, None) if attempt.looping else outcome(attempt)
            attempt.looping = attempt.looping or is_by_loop(failure)
            if attempt.looping or (failure is not None and is_data_dependent(failure)):
                attempt.start_again("direct")
                found = capture_paths(attempt)
        if found is None:
            return None
        functional = functionalize(found.graph, frozenset(), found.rewrite)
        rewritten = found.rewrite() if any(map(written_by, functional.graph.graph.nodes)) else functional.graph
        known = {each.expression for each in found.graph.conditions}
        further = (each for each in rewritten.conditions if each.expression not in known)
        return dataclasses.replace(rewritten, conditions=(*found.graph.conditions, *further))
    except Exception:  # whatever the model or torch raises for these sizes
        return None
    finally:
        notes, raising = attempt.notes, attempt.raising
        vars(attempt).update(kept)
        attempt.notes, attempt.raising = notes, raising
