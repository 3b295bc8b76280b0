"""The captures of a model that decides by sizes, as one that is the model for all of them."""

from __future__ import annotations

import dataclasses
from typing import Any

from torch.utils import _pytree as pytree

from opbridge.base.own_faults import raise_own_fault
from opbridge.base.torch_private import torch_failures
from opbridge.capture import comparing_captures, other_branches
from opbridge.capture.all_paths import capture_paths
from opbridge.capture.assumptions import Assumptions
from opbridge.capture.captured import Captured, Failed, OtherSizes
from opbridge.capture.control_flow.branch_oracle import BranchOracle
from opbridge.capture.control_flow.lowering import CFGLowering
from opbridge.capture.dynamic_shapes import Shapes
from opbridge.capture.functionalize import functionalize
from opbridge.capture.guards.conditions import is_trivial
from opbridge.capture.one_capture import capture_once
from opbridge.capture.retries import capture_with_retries, is_by_loop
from opbridge.capture.session import CaptureSession
from opbridge.capture.side_effects import SideEffects, keeping_random_state
from opbridge.capture.size_branches import SizePath, SizePaths, asked_zeros, capture_branches, padding_continued
from opbridge.capture.size_constraints import contradictions
from opbridge.capture.tracer.long_sizes import refusing_long_sizes
from opbridge.capture.tracer.writes import written_by
from opbridge.graph.captured_graph import CapturedGraph
from opbridge.graph.decisions import Decision, decisions_of

__all__ = ["asks_for_sizes", "of_all_sizes", "with_all_sizes", "with_continued_padding"]


def asks_for_sizes(captured: Captured) -> bool:
    """Whether a model asks for sizes, so that there may be some for which it takes another branch."""
    shapes, graph = captured.assumptions.shapes, captured.graph
    axes = other_branches.plain_axes(graph, shapes)
    ranges = {symbol: (max(axis.low or 0, 1), axis.high) for symbol, axis in axes.items()}
    return bool(asked_zeros(graph, axes)) or any(
        each.expression not in captured.other_sizes.answered
        and axes.keys() & set(each.symbols)
        and not is_trivial(each, ranges)
        for each in graph.conditions
    )


def with_all_sizes(session: CaptureSession, captured: Captured) -> Captured:
    """A capture for the sizes of the other branches as well; the given one where there is none."""
    graph, known = captured.graph, captured.other_sizes
    asked = tuple(each for each in graph.conditions if each.expression not in known.answered)
    example: CapturedGraph | None = dataclasses.replace(graph, conditions=asked)
    if known.is_padded:
        example = graph
    elif known.is_same:
        example = None
    search = _SizeSearch(session, captured.assumptions, captured)
    found = search.captured(example)
    if found is not None:
        return found
    return dataclasses.replace(
        captured, other_sizes=dataclasses.replace(known, is_right_for_one=search.is_right_for_one)
    )


def of_all_sizes(session: CaptureSession, failed: Failed) -> Captured | None:
    """A capture that decides by sizes as the model does, where there is none of the example; None where it fails."""
    return _SizeSearch(session, failed.assumptions, None).captured(None)


class _SizeSearch:
    """The captures of a model for sizes of each kind.

    Args:
        session: The model.
        assumptions: What its execution on the example assumed.
        base: The capture of the example, where there is one.

    Attributes:
        is_right_for_one: Whether the capture of the example, run for sizes of 1 that it leaves out, gave what the model
            gives wherever it was tried.
    """

    def __init__(self, session: CaptureSession, assumptions: Assumptions, base: Captured | None) -> None:
        self._session, self._assumptions, self._base = session, assumptions, base
        self._leaves, self._structure = pytree.tree_flatten((session.call.args, session.call.kwargs))
        self._is_padded = base is not None and base.other_sizes.is_padded
        self._unrolls = base is None or base.unrolls
        self._raising: list[Decision] = list(base.raising or ()) if base is not None else []
        self._notes: list[str] = list(base.notes) if base is not None else []
        self._is_right: list[bool] = []  # for the sizes tried, where a graph was compared
        self.is_right_for_one = False

    def captured(self, example: CapturedGraph | None) -> Captured | None:
        """A capture that decides by sizes as the model does; None where there is none.

        Args:
            example: The graph of the example, where there is one that it may differ from on other sizes.
        """
        shapes = self._assumptions.shapes

        def capture(of_sizes: Shapes) -> CapturedGraph | None:
            return example if self._is_padded and of_sizes is shapes else self._of_sizes(of_sizes)

        paths = _paths_of(self._session, self._assumptions) if self._unrolls and not self._is_padded else None
        with_one = self._base.with_one if self._base is not None else frozenset()
        graph = capture_branches(
            self._leaves, shapes, capture, self._agrees, self._session.limits, with_one, paths, example
        )
        if graph is None or contradictions(graph, self._leaves, shapes.axes, 1):
            # With a capture of the example, its graph is compared first, for sizes of 1 that it asks about.
            self.is_right_for_one = example is not None and bool(self._is_right) and all(self._is_right)
            return None
        return Captured(
            graph,
            lambda: graph,
            dataclasses.replace(self._assumptions, is_general=True),
            notes=tuple(self._notes),
            with_one=with_one,
            unrolls=self._unrolls,
            raising=tuple(self._raising),
        )

    def _of_sizes(self, shapes: Shapes) -> CapturedGraph | None:
        """The graph for some sizes, without in-place operators; None where there is none."""
        found = self._captured_for(shapes)
        if found is None or not self._is_padded:
            return found
        padded = _graph_with_continued_padding(self._session, self._assumptions, found, shapes, is_by_size=True)
        return padded or found

    def _captured_for(self, shapes: Shapes) -> CapturedGraph | None:
        found = _for_other_sizes(self._session, self._assumptions, shapes, unrolls=self._unrolls)
        if found is None:
            return None
        self._raising.extend(each for each in found.raising or () if each not in self._raising)
        self._notes.extend(each for each in found.notes if each not in self._notes)
        return found.graph

    def _agrees(self, graph: CapturedGraph | None, values: list[Any]) -> bool | None:
        found = comparing_captures.agrees(self._session, self._assumptions, graph, values, self._structure)
        if found and graph is not None and _decides_by_data(graph):
            others = other_branches.of_opposite_values(values)  # which may take branches that the example does not
            if comparing_captures.agrees(self._session, self._assumptions, graph, others, self._structure) is False:
                found = False
        self._is_right.append(graph is not None and bool(found))
        return found


def _decides_by_data(graph: CapturedGraph) -> bool:
    """Whether a graph has a condition on data."""
    return any(not each.on_sizes for each in decisions_of(graph.module))


def with_continued_padding(session: CaptureSession, captured: Captured) -> Captured | None:
    """A capture that is the model for both answers to the conditions on remainders; None where there is none."""
    shapes = captured.assumptions.shapes
    graph = _graph_with_continued_padding(session, captured.assumptions, captured.graph, shapes)
    if graph is None or contradictions(graph, session.leaves, shapes.axes, 1):
        return None
    return dataclasses.replace(
        captured,
        graph=graph,
        rewrite=lambda: graph,
        assumptions=dataclasses.replace(captured.assumptions, is_general=True),
        other_sizes=OtherSizes(is_padded=True),
    )


def _graph_with_continued_padding(
    session: CaptureSession,
    assumptions: Assumptions,
    graph: CapturedGraph,
    shapes: Shapes,
    *,
    is_by_size: bool = False,
) -> CapturedGraph | None:
    """The graph of both answers to conditions on remainders, for the sizes of a capture; None where there is none.

    Args:
        session: The model.
        assumptions: What its execution on the example assumed.
        graph: The capture.
        shapes: The dynamic shapes with its sizes.
        is_by_size: Whether it was captured as other sizes are.
    """
    leaves, structure = pytree.tree_flatten((session.call.args, session.call.kwargs))

    def capture(shapes: Shapes) -> CapturedGraph | None:
        found = _for_other_sizes(session, assumptions, shapes, unrolls=True)
        return None if found is None else found.graph

    def agrees(other: CapturedGraph | None, values: list[Any]) -> bool | None:
        return comparing_captures.agrees(session, assumptions, other, values, structure)

    return padding_continued(graph, leaves, shapes, capture, agrees, session.limits, is_by_size=is_by_size)


def _paths_of(session: CaptureSession, assumptions: Assumptions) -> SizePaths:
    """How paths of a model are captured that join again: each for some sizes, none of which is fixed."""
    free = frozenset(axis.place for axis in assumptions.shapes.axes.values())
    unfixed = dataclasses.replace(assumptions.restarted(), is_by_size=True, free=free, is_following=True)

    def capture(shapes: Shapes, answers: BranchOracle) -> SizePath:
        with keeping_random_state(), SideEffects(session.module):
            try:
                found = capture_once(session, dataclasses.replace(unfixed, shapes=shapes, execution=answers))
                rewritten = found.rewrite()
            finally:
                answers.state.heap.restore()
        return SizePath(rewritten, _further_conditions(found.graph, rewritten))

    def merge(merged: CFGLowering) -> CapturedGraph:
        return capture_once(session, dataclasses.replace(unfixed, execution=merged)).graph

    return SizePaths(session.module, capture, merge)


def _further_conditions(graph: CapturedGraph, rewritten: CapturedGraph) -> tuple[Any, ...]:
    """The conditions of a rewritten graph that the graph has not."""
    known = {each.expression for each in graph.conditions}
    return tuple(each for each in rewritten.conditions if each.expression not in known)


def _for_other_sizes(
    session: CaptureSession, assumptions: Assumptions, shapes: Shapes, *, unrolls: bool
) -> Captured | None:
    """A capture for the sizes of other shapes, without in-place operators; None where it fails.

    Args:
        session: The model.
        assumptions: What its execution on the example assumed.
        shapes: The dynamic shapes with these sizes.
        unrolls: Whether loops over dynamic sizes may be unrolled.
    """
    free = frozenset(axis.place for axis in assumptions.shapes.axes.values() if other_branches.is_plain(axis))
    of_sizes = dataclasses.replace(assumptions.restarted(), shapes=shapes, is_by_size=True, free=free)
    try:
        with keeping_random_state(), refusing_long_sizes():
            found = capture_with_retries(session, of_sizes) if unrolls else None
            if isinstance(found, Failed):
                by_loop = is_by_loop(found.error)
                if not by_loop and not torch_failures.is_data_dependent(found.error):
                    return None
                found = capture_paths(session, of_sizes, of_sizes=by_loop)
            elif found is None:
                found = capture_paths(session, of_sizes, of_sizes=True)
        functional = functionalize(found.graph, frozenset(), found.rewrite)
        rewritten = found.rewrite() if any(map(written_by, functional.graph.graph.nodes)) else functional.graph
        conditions = (*found.graph.conditions, *_further_conditions(found.graph, rewritten))
        return dataclasses.replace(found, graph=dataclasses.replace(rewritten, conditions=conditions))
    except Exception as error:  # whatever the model or torch raises for these sizes
        raise_own_fault(error)
        return None
