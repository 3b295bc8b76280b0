"""The dynamic dimensions of a capture: their names, their ranges, and the conditions on them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from opbridge.base.sources import Source, innermost
from opbridge.base.torch_private import torch_sizes
from opbridge.capture.dynamic_shapes import Axis
from opbridge.capture.guards.decisions import decided
from opbridge.capture.guards.expressions import are_equal_sizes, fixed_size, holds_at
from opbridge.capture.guards.samples import Range
from opbridge.capture.guards.solutions import solutions
from opbridge.capture.guards.wording import readable
from opbridge.graph.captured_graph import AskedDimension, CapturedGraph

__all__ = [
    "Condition",
    "constrain_sizes",
    "contradictions",
    "dim_names",
    "dim_sums",
    "dynamic_dimensions",
    "sized",
]

Condition = tuple[str, Source | None]


@dataclass(frozen=True)
class _Demand:
    """A condition that a capture has on the sizes.

    Attributes:
        source: The line that causes it, where that is known.
        labels: What the user calls the dimensions that it is about.
        is_fixing: Whether it says that a dimension has one size.
        is_small: Whether it says that a dimension is at least 2.
    """

    source: Source | None
    labels: tuple[str, ...]
    is_fixing: bool = False
    is_small: bool = False


def dim_names(graph: CapturedGraph, leaves: list[Any], axes: Mapping[tuple[int, int], Axis]) -> dict[str, str]:
    """A name for each symbol in the sizes of a capture's inputs: the user's own, else `<input>_dim_<i>`.

    Args:
        graph: The capture.
        leaves: The leaves of `(args, kwargs)`, one for each input of the graph.
        axes: The dimensions that the user made dynamic, from `dynamic_shapes.resolve`.
    """
    names: dict[str, str] = {}
    automatic: dict[str, str] = {}
    for (name, value), leaf in zip(_inputs(graph), leaves, strict=True):
        if isinstance(value, torch.SymInt):
            for symbol in torch_sizes.symbols(value):
                automatic.setdefault(symbol, name)
        for index, size in enumerate(_shape(value)):
            found = torch_sizes.symbols(size)
            axis = axes.get((id(leaf), index))
            if len(found) == 1 and axis is not None and axis.name is not None and axis.root is not None:
                names.setdefault(found[0], axis.name if str(size) == found[0] else axis.root)
            for symbol in found:
                automatic.setdefault(symbol, f"{name}_dim_{index}")
    used = set(names.values())
    for symbol, name in automatic.items():
        if symbol not in names:
            while name in used:
                name += "_"
            names[symbol] = name
            used.add(name)
    return names


def dim_sums(graph: CapturedGraph, leaves: list[Any], axes: Mapping[tuple[int, int], Axis]) -> dict[str, str]:
    """What the user calls the dimensions that are sums of others, by torch's expression: "s15 + s20"."""
    return {
        str(size): axis.name
        for axis, size in sized(graph, leaves, axes)
        if axis.terms and axis.name is not None and torch_sizes.symbols(size)
    }


def constrain_sizes(
    graph: CapturedGraph,
    leaves: list[Any],
    axes: Mapping[tuple[int, int], Axis],
    least: int,
    *,
    checked: bool = True,
    with_one: frozenset[str] = frozenset(),
) -> list[Condition]:
    """Narrows the ranges of a capture to the sizes that it is valid for, and returns the model's further conditions.

    1. A dynamic dimension that the model specialised is reported with its size.
    2. A condition on one dimension becomes a range where it is one: `batch >= 2`, `seq <= 512`. torch's own ranges
       include the sizes below 2 that it treats separately, and sizes that it excludes by an equation.
    3. Other conditions are reported as they are (`batch % 2 == 0`), where they can fail. That two dimensions without
       names are equal is not reported.

    Args:
        graph: A capture with dynamic shapes; its ranges change.
        leaves: The leaves of `(args, kwargs)`.
        axes: The dimensions that the user made dynamic, from `dynamic_shapes.resolve`.
        least: The smallest size that the capture is valid for: 1, or 2 where torch treats 0 and 1 separately.
        checked: Whether torch has checked the user's Dims, so that their conditions need no report.
        with_one: The symbols that may be 1 all the same.

    Returns:
        Conditions, each with the line that causes it where that is known.
    """
    found = _demands(graph, leaves, axes, least, checked=checked, with_one=with_one)
    return [(text, demand.source) for text, demand in found.items()]


def _demands(
    graph: CapturedGraph,
    leaves: list[Any],
    axes: Mapping[tuple[int, int], Axis],
    least: int,
    *,
    checked: bool,
    with_one: frozenset[str] = frozenset(),
) -> dict[str, _Demand]:
    """The conditions of a capture, by how they are told; see `constrain_sizes`."""
    user_names = {axis.place: axis.name or axis.place for axis in axes.values()}
    shown = {symbol: _user_name(place, leaves, axes, user_names) for symbol, place in graph.places.items()}
    requested: dict[str, Range] = {}
    label: dict[str, str] = {}
    specialized: dict[str, int] = {}
    for (_, value), leaf in zip(_inputs(graph), leaves, strict=True):
        for index, size in enumerate(_shape(value)):
            axis, symbol = axes.get((id(leaf), index)), str(size)
            if axis is not None and not torch_sizes.symbols(size):
                specialized.setdefault(user_names[axis.place], int(size))
            elif axis is not None and torch_sizes.symbols(size) == (symbol,) and symbol not in requested:
                requested[symbol] = max(axis.low or 0, 1), axis.high
                label[symbol] = user_names[axis.place]
                shown.setdefault(symbol, label[symbol])
    ranges: dict[str, Range] = {
        symbol: (max(low, 1 if symbol in with_one else least), high) for symbol, (low, high) in requested.items()
    }
    lines: dict[tuple[str, str], Source | None] = {}
    found: dict[str, _Demand] = {}
    fixing: set[str] = set()  # the conditions whose line is that of the question that leaves one size alone
    rest: list[tuple[str, tuple[str, ...], Source | None]] = []
    for condition in graph.conditions:
        expression, symbols = condition.expression, condition.symbols
        line = next(iter(innermost(condition.stack)), None)
        symbol = symbols[0]
        if len(symbols) == 1 and shown.get(symbol) in specialized:
            size = specialized[shown[symbol]]
            text = f"{shown[symbol]} == {size}"
            if text not in found or (text not in fixing and _fixes(expression, symbol, size)):
                found[text] = _Demand(line, (shown[symbol],), is_fixing=True)
            if _fixes(expression, symbol, size):
                fixing.add(text)
            continue
        low, high = ranges.get(symbol, (1, None))
        is_of_one = len(symbols) == 1 and symbol in ranges
        span = solutions(expression, symbol, low, high).range if is_of_one else None
        if span is None:
            rest.append((expression, symbols, line))
            continue
        if span[0] > low:
            lines[symbol, "low"] = line
        if span[1] != high:
            lines[symbol, "high"] = line
        ranges[symbol] = span
    graph.without_one = frozenset(each for each, (low, _) in ranges.items() if low == 2 and requested[each][0] == 1)
    for symbol, (low, high) in ranges.items():
        _narrow(graph.ranges, symbol, low, high)
        name, at_low, at_high = label[symbol], lines.get((symbol, "low")), lines.get((symbol, "high"))
        if low == high != requested[symbol][1]:
            found.setdefault(f"{name} == {low}", _Demand(at_high, (name,), is_fixing=True))
            continue
        if low > requested[symbol][0]:
            found.setdefault(f"{name} >= {low}", _Demand(at_low, (name,), is_small=low == 2))
        if high != requested[symbol][1]:
            found.setdefault(f"{name} <= {high}", _Demand(at_high, (name,)))
    named = {axis.name for axis in axes.values()}
    known = {user_names[axis.place] for axis in axes.values() if axis.checked and checked}
    for expression, symbols, line in rest:
        places = [shown.get(symbol, symbol) for symbol in symbols]
        ranges.update(
            {
                symbol: (specialized[at], specialized[at])
                for symbol, at in zip(symbols, places, strict=True)
                if at in specialized
            }
        )
        if len(set(places)) < len(places) or known.issuperset(places):
            continue
        if are_equal_sizes(expression) and not named.issuperset(places):
            continue
        text = readable(expression, shown)
        first, _, second = text.replace("(", "").replace(")", "").partition(" == ")
        if first != second and not decided(expression, {each: ranges[each] for each in symbols if each in ranges}):
            is_fixing = len(symbols) == 1 and fixed_size(expression) is not None
            found.setdefault(text, _Demand(line, tuple(places), is_fixing=is_fixing))
    for place, size in specialized.items():
        found.setdefault(f"{place} == {size}", _Demand(None, (place,), is_fixing=True))
    return found


def dynamic_dimensions(graph: CapturedGraph) -> Iterator[AskedDimension]:
    """Each dimension of an input that is dynamic in a capture."""
    for number, (name, value) in enumerate(_inputs(graph)):
        for index, size in enumerate(_shape(value)):
            if torch_sizes.symbols(size):
                yield AskedDimension(number, index, f"{name}.shape[{index}]")


def sized(graph: CapturedGraph, leaves: list[Any], axes: Mapping[tuple[int, int], Axis]) -> Iterator[tuple[Axis, Any]]:
    """Each dimension that the user made dynamic, with its size in a capture."""
    for (_, value), leaf in zip(_inputs(graph), leaves, strict=True):
        for index, size in enumerate(_shape(value)):
            axis = axes.get((id(leaf), index))
            if axis is not None:
                yield axis, size


def contradictions(
    graph: CapturedGraph, leaves: list[Any], axes: Mapping[tuple[int, int], Axis], least: int
) -> list[Condition]:
    """The conditions of the model that contradict what the user asked for.

    1. A dimension that was asked to be dynamic is fixed. Dim.AUTO leaves that to the model.
    2. A Dim, or a Dim.DYNAMIC with a range, stands for sizes of its own; the model takes fewer of them.

    Args:
        graph: A capture with dynamic shapes.
        leaves: The leaves of `(args, kwargs)`.
        axes: The dimensions that the user made dynamic.
        least: As for `constrain_sizes`.
    """
    ranges = dict(graph.ranges)
    found = _demands(graph, leaves, axes, least, checked=False)
    graph.ranges.clear()
    graph.ranges.update(ranges)
    by_label = {axis.name or axis.place: axis for axis in axes.values()}
    contradicted = []
    for text, demand in found.items():
        involved = [by_label[label] for label in demand.labels if label in by_label]
        if demand.is_fixing and not all(axis.automatic for axis in involved):
            contradicted.append((text, demand.source))
        elif involved and all(axis.checked for axis in involved) and not demand.is_small:
            contradicted.append((text, demand.source))
    return contradicted


def _fixes(expression: str, symbol: str, size: int) -> bool:
    """Whether a condition holds for no size beside this one."""
    beside = size + 1, max(size - 1, 0) if size else 2
    return not any(holds_at(expression, {symbol: each}) for each in beside)


def _user_name(
    place: str, leaves: list[Any], axes: Mapping[tuple[int, int], Axis], user_names: Mapping[str, str]
) -> str:
    """The user's name of a place; strict mode numbers the inputs."""
    if numbered := re.fullmatch(r"flat_args\[(\d+)\]\.shape\[(\d+)\]", place):
        axis = axes.get((id(leaves[int(numbered[1])]), int(numbered[2])))
        place = axis.place if axis else place
    return user_names.get(place, place)


def _narrow(ranges: dict[str, Range], symbol: str, low: int, high: int | None) -> None:
    """Narrows the range of a symbol, if it has one. A lower bound of 1 changes nothing: torch's ranges start at 0."""
    if symbol not in ranges:
        return
    least, greatest = ranges[symbol]
    limits = [limit for limit in (greatest, high) if limit is not None]
    ranges[symbol] = max(least, low) if low > 1 else least, min(limits, default=None)


def _inputs(graph: CapturedGraph) -> Iterator[tuple[str, Any]]:
    for leaf in graph.inputs:
        yield leaf.name, leaf.value if leaf.node is None else leaf.node.meta.get("val")


def _shape(value: Any) -> tuple[Any, ...]:
    return tuple(value.shape) if isinstance(value, torch.Tensor) else ()
