"""The captures of a model that decides by sizes."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from opbridge.base.sources import innermost
from opbridge.capture import other_branches
from opbridge.capture.control_flow.branch_oracle import BranchOracle
from opbridge.capture.control_flow.lowering import CFGLowering
from opbridge.capture.dynamic_shapes import Axis, Shapes
from opbridge.capture.guards.conditions import Conditions, is_trivial, of_one_region
from opbridge.capture.guards.expressions import value_at
from opbridge.capture.guards.witnesses import fixed_by, witnesses
from opbridge.capture.limits import CaptureLimits
from opbridge.capture.same_graph import is_same_graph
from opbridge.capture.size_branches.explored_paths import PathRuns, SizePath
from opbridge.capture.size_branches.joining import SizedCapture, joined
from opbridge.capture.size_branches.joining_paths import PathJoining
from opbridge.capture.size_branches.model_runs import Agreeing, ModelRuns
from opbridge.capture.size_branches.size_numbers import NotJoined
from opbridge.graph.captured_graph import CapturedGraph, SizeCondition

__all__ = ["SizePaths", "asked_zeros", "capture_branches"]


@dataclasses.dataclass(frozen=True)
class SizePaths:
    """How paths of a model are captured that join again.

    Attributes:
        module: The model.
        capture: Captures it for sizes, with answers; raises what the capture raises.
        merge: Captures what runs in the place of the model.
    """

    module: torch.nn.Module
    capture: Callable[[Shapes, BranchOracle], SizePath]
    merge: Callable[[CFGLowering], CapturedGraph]


_WAYS = 4
"""Of the captures that the limits allow, one in so many may be one for other sizes: they do not join again."""

_FEW = 2
"""Of more conditions the paths are to join again."""

_MOST_TRIED = 8
"""Inputs that are tried for each capture."""


def capture_branches(
    leaves: list[Any],
    shapes: Shapes,
    capture: Callable[[Shapes], CapturedGraph | None],
    agrees: Agreeing,
    limits: CaptureLimits,
    with_one: frozenset[str],
    paths: SizePaths | None,
    example: CapturedGraph | None = None,
) -> CapturedGraph | None:
    """One graph for all sizes, from captures for sizes of each kind.

    Args:
        leaves: The leaves of `(args, kwargs)`.
        shapes: The dynamic shapes of the example.
        capture: Captures the model for the sizes of other shapes, without in-place operators; None where that fails.
        agrees: Compares a capture with the model.
        limits: How many captures there may be.
        with_one: The symbols that may be 1 whatever the example's capture asks.
        paths: How paths of it are captured that join again; None where it has loops over sizes, which they cannot hold.
        example: A capture of the example, where there is one: without sizes beyond its conditions for which the model
            runs, and gives something else, there is no other branch.

    Returns:
        The graph; None where there is no other branch, where a capture of one fails, or where there are too many.
    """
    known: list[ModelRuns] = []

    def branches_of(graph: CapturedGraph) -> _Branches:
        axes = other_branches.plain_axes(graph, shapes)
        runs = next((each for each in known if each.axes == axes), None)
        if runs is None:
            known.append(runs := ModelRuns(leaves, shapes, axes, agrees))
        return _Branches(graph, shapes, runs, capture, limits, with_one)

    most = (limits.captures // _WAYS).bit_length() - 1  # an independent condition doubles the captures
    asked = None if example is None else branches_of(example).count_conditions(most, differing=True)
    if asked == 0:
        return None
    first = capture(shapes)
    if first is None:
        return None
    branches = branches_of(first)
    if asked is None:
        asked = branches.count_conditions(most)
    if paths is not None and (asked > _FEW or branches.compares_sizes):
        if (found := branches.with_paths_joined(paths)) is not None:
            return found
    return branches.joined() if 0 < asked <= most and branches.explore() else None


def asked_zeros(graph: CapturedGraph, axes: Mapping[str, Axis]) -> dict[str, str]:
    """The symbols of dimensions for which the model tells a size of 0 from others, each with the stack of the line.

    Args:
        graph: A capture.
        axes: The dimensions that may have any size. Where one is the length of a cache, which is empty at first, there
            are no such symbols: that length is tried in any case.
    """
    return {
        symbol: stack
        for symbol, stack in graph.zeros.items()
        if symbol in axes and (axes[symbol].low or 0) == 0 and not any(axis.may_be_empty for axis in axes.values())
    }


class _Branches:
    def __init__(
        self,
        first: CapturedGraph,
        shapes: Shapes,
        runs: ModelRuns,
        capture: Callable[[Shapes], CapturedGraph | None],
        limits: CaptureLimits,
        with_one: frozenset[str],
    ) -> None:
        self._runs, self._made, self._has_failed = runs, 1, False
        self._right: dict[tuple[tuple[str, int], ...], bool] = {}
        self._shapes, self._capture, self._limits, self._axes = shapes, capture, limits, runs.axes
        self._zeros = asked_zeros(first, self._axes)
        self._ranges = {
            symbol: (max(axis.low or 0, symbol not in self._zeros), axis.high) for symbol, axis in self._axes.items()
        }
        self._example = other_branches.sizes_of_symbols(first, shapes)
        known = [
            each
            for each in self._conditions(first, self._example)
            if not (with_one.intersection(each.symbols) and is_trivial(each, self._without_one(with_one)))
        ]
        self._found = [SizedCapture(first, [tuple(known)], self._example)]

    def _without_one(self, symbols: frozenset[str]) -> dict[str, tuple[int, int | None]]:
        return {
            symbol: (max(low, 2) if symbol in symbols else low, high) for symbol, (low, high) in self._ranges.items()
        }

    def _conditions(self, graph: CapturedGraph, sizes: dict[str, int]) -> Conditions:
        """The conditions of a capture, for some sizes, that do not hold for all sizes."""
        positive = [
            SizeCondition(f"{symbol} >= 1", (symbol,), stack) for symbol, stack in self._zeros.items() if sizes[symbol]
        ]
        found = {each.expression: each for each in (*graph.conditions, *positive)}
        return tuple(each for each in found.values() if not is_trivial(each, self._ranges))

    def count_conditions(self, most: int, *, differing: bool = False) -> int:
        """How many conditions on sizes there are that have another branch, as far as the first capture tells.

        Those that the same sizes answer otherwise count as one. They are counted up to one more than `most`.

        Args:
            most: How many are of interest.
            differing: Whether a condition that sets a size of 1 apart counts only where the capture does not give what
                the model gives for it. torch has such conditions of its own accord; a note does where nothing differs.
        """
        region, found = self._found[0].regions[0], set()
        for condition in region:
            for sizes in itertools.islice(self._breaking(condition, region, self._example), _MOST_TRIED):
                of_one = differing and is_trivial(condition, self._without_one(frozenset(self._axes)))
                is_right = self._is_right(sizes) if of_one else False
                if is_right or self._runs.may_run(sizes):
                    if not is_right:
                        found.add(tuple(sorted(sizes.items())))
                    break
            if len(found) > most:
                break
        return len(found)

    @property
    def compares_sizes(self) -> bool:
        """Whether the first capture asks how one size compares with another, as `h == w` does.

        Where they are equal, a capture has the one in the place of the other, and does not tell which it means.
        """
        return any(len(each.symbols) > 1 for each in self._found[0].regions[0])

    def with_paths_joined(self, paths: SizePaths) -> CapturedGraph | None:
        """The graph of paths that join again; None where they do not become one."""
        if len(self._axes) < len({axis.name or axis.place for axis in self._shapes.axes.values()}):
            return None  # the range of a size, or that another one follows from it, is what the user says

        def capture(sizes: dict[str, int], answers: BranchOracle) -> SizePath:
            found = self._runs.resized(sizes)
            assert found is not None
            return paths.capture(found[0], answers)

        def agrees(graph: CapturedGraph, sizes: dict[str, int]) -> bool:
            return bool(self._runs.compare(graph, sizes))

        runs = PathRuns(paths.module, capture, paths.merge, self._runs.may_run, agrees)
        return PathJoining(runs, self._example, self._ranges, self._limits).graph()

    def explore(self) -> bool:
        """Captures the model for all kinds of sizes; false where there are no others, or too many."""
        waiting = [(self._found[0].regions[0], self._example)]
        tried: list[dict[str, int]] = []
        while waiting:
            region, base = waiting.pop(0)
            for condition, sizes in self._others(region, base):
                if sizes in tried or any(each.covers(sizes) for each in self._found):
                    continue
                if len(tried) >= _MOST_TRIED * len(self._found):
                    break
                tried.append(sizes)
                if not self._runs.may_run(sizes):
                    continue
                if self._limits.why_reached(_WAYS * self._made):
                    return False
                new = self._branch(condition, sizes)
                if new is None:
                    self._has_failed = True
                    continue
                changed = {symbol for symbol in sizes if sizes[symbol] != base[symbol]}
                if changed & fixed_by(region, base) & fixed_by(new, sizes):
                    return False  # Python has fixed the size: each other one would be a branch of its own
                waiting.append((new, sizes))
        return len(self._found) > 1 or len(self._found[0].regions) > 1

    def _others(self, region: Conditions, base: dict[str, int]) -> Iterator[tuple[SizeCondition, dict[str, int]]]:
        for condition in region:
            for sizes in self._breaking(condition, region, base):
                yield condition, sizes

    def _breaking(self, condition: SizeCondition, region: Conditions, base: dict[str, int]) -> Iterator[dict[str, int]]:
        others = [each for each in region if each is not condition]
        yield from witnesses(condition, base, others, self._ranges, self._axes.keys())
        if any(condition.expression == f"{symbol} >= 1" for symbol in self._zeros):
            # Where no part is left, no element may be either: sizes that are 0 together.
            yield {symbol: base[symbol] if axis.low else 0 for symbol, axis in self._axes.items()}

    def _is_right(self, sizes: dict[str, int]) -> bool:
        """Whether the model runs for sizes, and the first capture gives what it gives."""
        key = tuple(sorted(sizes.items()))
        if key not in self._right:
            self._right[key] = bool(self._runs.compare(self._found[0].graph, sizes))
        return self._right[key]

    def _branch(self, condition: SizeCondition, sizes: dict[str, int]) -> Conditions | None:
        """Captures the model for sizes, and gives the conditions of the capture; None where that fails."""
        found = self._runs.resized(sizes)
        assert found is not None
        graph = self._capture(found[0])
        self._limits.count()
        self._made += 1
        if graph is None or dict(graph.places) != dict(self._found[0].graph.places):
            return None
        own = [each for each in graph.conditions if sizes.keys() >= set(each.symbols)]
        if not all(value_at(each.expression, sizes) is not None for each in own):
            return None
        region = self._conditions(graph, sizes)
        new = SizedCapture(graph, [region], sizes, innermost(condition.stack))
        if not new.covers(sizes) or not self._runs.compare(graph, sizes):
            return None
        for known in self._found:
            if is_same_graph(known.graph, graph):
                known.regions.append(region)
                break
        else:
            self._found.append(new)
        return region

    def joined(self) -> CapturedGraph | None:
        """The graph of all captures; None where they do not become one."""
        regions = [region for each in self._found for region in each.regions]
        everywhere = set.intersection(*({each.expression for each in region} for region in regions))
        common = tuple(each for each in regions[0] if each.expression in everywhere)
        try:
            graph = joined(self._found, common) if len(self._found) > 1 else self._found[0].graph
        except NotJoined:
            return None
        own = [tuple(each for each in region if each.expression not in everywhere) for region in regions]
        conditions = list(common)
        if all(own):
            left = SizeCondition(*of_one_region(own), own[0][0].stack)
            if not is_trivial(left, self._ranges):
                if self._has_failed and not is_trivial(left, self._without_one(frozenset(self._axes))):
                    return None  # what the capture of the example says of the sizes is plainer
                conditions.append(left)
        graph.conditions = tuple(conditions)
        for symbol in self._axes:
            graph.ranges[symbol] = 0, self._axes[symbol].high
        return graph
