"""Sizes of one, where the model or torch asks for them and does the same for all sizes.

1. `if batch > 1` is answered by the example, and the capture is for batches of that kind: `batch >= 2`.
2. Such a capture is made a second time, with one as the size in the example. Where both graphs are the same, the
   question does not matter, and the capture is for all sizes.
3. Of several such dimensions, each set of them has to give the same graph.
4. torch takes no dynamic size to be zero, also where it is zero in the example. Then the second capture takes it to be.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from opbridge.base.own_faults import raise_own_fault
from opbridge.base.sources import Source, innermost
from opbridge.base.torch_private import torch_known_sizes, torch_sizes
from opbridge.capture.dynamic_shapes import Axis, Shapes
from opbridge.capture.guards.decisions import decided
from opbridge.capture.guards.samples import Range
from opbridge.capture.same_graph import is_same_graph
from opbridge.capture.size_constraints import Condition, sized
from opbridge.capture.value_numbers import ValueNumbering
from opbridge.graph.captured_graph import CapturedGraph

__all__ = ["conditions_of_empty_examples", "include_small_sizes"]

Recapture = Callable[[Shapes, frozenset[str], CapturedGraph | None], CapturedGraph]

# Of this many dimensions, all sets are captured again: seven captures at most.
_MOST = 3


def include_small_sizes(
    graph: CapturedGraph, leaves: list[Any], shapes: Shapes, recapture: Recapture
) -> frozenset[str]:
    """Removes the conditions of a capture that exclude a size of one where the graph is the same for it.

    Args:
        graph: The capture; its conditions and ranges change.
        leaves: The leaves of `(args, kwargs)`.
        shapes: The dynamic dimensions.
        recapture: Captures the model once more, under the same settings: with other sizes in the example, and with the
            places of dimensions that are dynamic although they are one there. It may raise where the operators are not
            those of the capture that it is given.

    Returns:
        The symbols that may be one now.
    """
    sizes = list(sized(graph, leaves, shapes.axes))
    high = {str(size): axis.high for axis, size in sizes if torch_sizes.is_symbol(size) and (axis.low or 0) <= 1}
    candidates = list(_excluding_one(graph, high))
    if not candidates:
        return frozenset()
    comparison = _Comparison(graph, sizes, shapes, high, set(candidates), recapture)
    included = frozenset(symbol for symbol in candidates if comparison.may_be_one(symbol))
    if included:
        _widen(graph, included, high)
    return included


def conditions_of_empty_examples(
    graph: CapturedGraph, leaves: list[Any], shapes: Shapes, recapture: Recapture
) -> list[Condition]:
    """What the model asks of dimensions that are zero in the example, where it does something else for other sizes.

    Args:
        graph: The capture, in which they are not zero.
        leaves: The leaves of `(args, kwargs)`.
        shapes: The dynamic dimensions.
        recapture: See `include_small_sizes`.

    Returns:
        Nothing where the graph is the same; else the conditions, each with the line that causes it.
    """
    empty = {axis.place: axis for axis, size in sized(graph, leaves, shapes.axes) if axis.size == 0}
    if not empty:
        return []
    try:
        other = recapture(shapes, frozenset(empty), None)
    except Exception as error:  # what torch cannot do with an empty tensor; the model does the same
        raise_own_fault(error)
        return []
    if is_same_graph(graph, other):
        return []
    found: dict[str, Source | None] = {}
    for condition in other.conditions:
        places = [other.places.get(symbol, symbol) for symbol in condition.symbols]
        if condition.stack and len(places) == 1 and places[0] in empty:
            if not decided(condition.expression, {}).holds:
                axis = empty[places[0]]
                found.setdefault(f"{axis.name or axis.place} == 0", next(iter(innermost(condition.stack)), None))
    return list(found.items())


def _excluding_one(graph: CapturedGraph, high: Mapping[str, int | None]) -> Iterator[str]:
    """The symbols that may not be one, and may be any other size."""
    found: dict[str, None] = {}
    for condition in graph.conditions:
        if _excludes_one_only(condition.expression, high):
            found.update(dict.fromkeys(symbol for symbol in condition.symbols if symbol in high))
    conditioned = set(itertools.chain.from_iterable(condition.symbols for condition in graph.conditions))
    for symbol in high:
        if graph.ranges.get(symbol, (0, None))[0] == 2 and symbol not in conditioned:
            found[symbol] = None  # torch sets small sizes apart of its own accord
    yield from found


def _excludes_one_only(expression: str, high: Mapping[str, int | None]) -> bool:
    def always(least: int) -> bool:
        return decided(expression, {symbol: (least, most) for symbol, most in high.items()}).holds

    return always(2) and not always(1)


class _Comparison:
    """Captures the model with sizes of one, and compares the graphs.

    Args:
        graph: The capture.
        sizes: The dynamic dimensions, with their sizes in the capture.
        shapes: The dynamic shapes.
        high: The symbols that may be one if the model allows it, with the largest value that the user gave.
        excluded: Those of them that may not be one in the capture.
        recapture: See `include_small_sizes`.
    """

    def __init__(
        self,
        graph: CapturedGraph,
        sizes: list[tuple[Axis, Any]],
        shapes: Shapes,
        high: Mapping[str, int | None],
        excluded: set[str],
        recapture: Recapture,
    ) -> None:
        self._graph, self._sizes, self._shapes = graph, sizes, shapes
        self._recapture = recapture
        self._known = {condition.expression for condition in graph.conditions}
        self._ranges: dict[str, Range] = {}
        for symbol, most in high.items():
            low, narrowed = graph.ranges.get(symbol, (0, None))
            limits = [limit for limit in (most, narrowed) if limit is not None]
            self._ranges[symbol] = max(low, 2 if symbol in excluded else 1), min(limits, default=None)
        self._together: list[str] = []
        self._found: dict[frozenset[str], frozenset[str] | None] = {}

    def may_be_one(self, symbol: str) -> bool:
        """Whether the graph is the same where a symbol is one, together with each set of those that may be."""
        while True:
            together = list(self._together)
            if len(together) >= _MOST:
                return False
            asked: set[str] = set()
            for count in range(len(together) + 1):
                for others in itertools.combinations(together, count):
                    found = self._asked_at_one(frozenset({symbol, *others}))
                    if found is None:
                        return False
                    asked |= found
            new = sorted(asked.difference(together))
            if not new:
                self._together.append(symbol)
                return True
            self._together += new

    def _asked_at_one(self, ones: frozenset[str]) -> frozenset[str] | None:
        """None where the graph is another one; else which further symbols may not be one in that capture."""
        if ones not in self._found:
            self._found[ones] = self._captured(ones)
        return self._found[ones]

    def _captured(self, ones: frozenset[str]) -> frozenset[str] | None:
        values = dict.fromkeys(ones, 1)
        changed: dict[str, int] = {}
        for axis, size in self._sizes:
            if axis.terms:  # which follows those that it is computed from
                continue
            found = set(torch_sizes.symbols(size))
            if found & ones:
                if not found <= ones:
                    return None
                changed[axis.place] = torch_sizes.example_with(size, values)
        axes = {
            key: dataclasses.replace(axis, size=changed[axis.place], is_fixed=True) if axis.place in changed else axis
            for key, axis in self._shapes.axes.items()
        }
        try:
            other = self._recapture(dataclasses.replace(self._shapes, axes=axes), frozenset(), self._graph)
        except Exception as error:  # whatever the model or torch raises for these sizes, or other operators than before
            raise_own_fault(error)
            return None
        ranges = {**self._ranges, **dict.fromkeys(ones, (1, 1))}
        larger = {symbol: span if symbol in ones else (max(span[0], 2), span[1]) for symbol, span in ranges.items()}
        asked: set[str] = set()
        for condition in other.conditions:
            if condition.expression in self._known or decided(condition.expression, ranges).holds:
                continue
            if not decided(condition.expression, larger).holds:
                return None
            # What an operator asks only decides how torch describes its result, which the comparison sees.
            if not condition.by_operator:
                asked.update(symbol for symbol in condition.symbols if symbol in ranges and ranges[symbol][0] < 2)
        return frozenset(asked - ones) if is_same_graph(self._graph, other, ValueNumbering(values)) else None


def _widen(graph: CapturedGraph, included: frozenset[str], high: Mapping[str, int | None]) -> None:
    ranges = {symbol: (2 if symbol in included else 1, most) for symbol, most in high.items()}
    dropped = {
        condition.expression
        for condition in graph.conditions
        if included.intersection(condition.symbols) and decided(condition.expression, ranges).holds
    }
    graph.conditions = tuple(each for each in graph.conditions if each.expression not in dropped)
    for symbol in included:
        graph.ranges[symbol] = 0, graph.ranges.get(symbol, (0, None))[1]
    values = (node.meta.get("val") for node in graph.graph.nodes)
    mode = next((mode for value in values if (mode := getattr(value, "fake_mode", None)) is not None), None)
    if mode is not None:
        torch_known_sizes.forget_conditions(mode.shape_env, dropped, included)
