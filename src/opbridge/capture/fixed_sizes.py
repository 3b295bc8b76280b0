"""Sizes that a capture fixes although they are to be dynamic: what fixes them, and an example that does not.

A model that keeps a table for the size of its last input asks whether it is for the present size. On the example that
it has run on before it is, so that the capture would be for this size alone. With another size in the example it is
not, and the table is made in the graph.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from opbridge.base.torch_private import torch_known_sizes, torch_sizes
from opbridge.capture.dynamic_shapes import Axis, Shapes
from opbridge.capture.guards.expressions import fixes_a_number, holds_at, operators_in
from opbridge.capture.guards.solutions import solutions
from opbridge.capture.guards.wording import with_numbers
from opbridge.capture.size_constraints import Condition, sized
from opbridge.graph.captured_graph import CapturedGraph, SizeCondition

__all__ = [
    "fixes_another_size",
    "forget_example",
    "is_by_python",
    "leaves_out_example",
    "limiting",
    "may_count_iterations",
    "may_unroll_a_loop",
    "splits_by_a_size",
    "with_larger_example",
]

_PARTS = frozenset(f"aten::{name}" for name in ("chunk", "split", "split_with_sizes", "tensor_split", "unbind"))
"""Operators that give parts of a tensor, of which a loop may go over."""


def is_by_python(graph: CapturedGraph | None) -> bool:
    """Whether one of Python's own functions may have fixed a size, so that it is worth to have them follow it.

    Args:
        graph: The capture; None where there is none, as Python's functions refuse symbolic numbers too.
    """
    return graph is None or any(each.is_number for each in graph.conditions)


def may_unroll_a_loop(graph: CapturedGraph) -> bool:
    """Whether a capture may have as many iterations of a loop as the example has.

    Python has asked for a number there, as `range` does, and the capture is for sizes that give this number alone.

    Args:
        graph: The capture.
    """
    return any(map(may_count_iterations, graph.conditions))


def may_count_iterations(condition: SizeCondition) -> bool:
    """Whether a condition is that a loop has as many iterations as the example: it gives a number to Python."""
    return condition.is_number and not condition.operator and fixes_a_number(condition.expression)


def splits_by_a_size(graph: CapturedGraph) -> bool:
    """Whether a capture has as many parts of a tensor as the example has, which a loop may go over.

    Args:
        graph: The capture.
    """
    return any(each.operator in _PARTS and fixes_a_number(each.expression) for each in graph.conditions)


def limiting(demands: Sequence[Condition], axes: Mapping[tuple[int, int], Axis], times: int = 2) -> list[str]:
    """The demands that inputs several times as large do not meet: that a size is that of the example, or in its range.

    Args:
        demands: What a capture needs of the sizes.
        axes: The dimensions that the user made dynamic.
        times: How many times as large the inputs are.
    """
    return _unmet(demands, {axis.name or axis.place: times * axis.size for axis in axes.values() if axis.size > 1})


def leaves_out_example(demands: Sequence[Condition], axes: Mapping[tuple[int, int], Axis]) -> bool:
    """Whether a capture of a larger example is not for the sizes of the example itself.

    One that leaves out single sizes alone, with `!=`, may be the model for these as well: that is the verification's to
    say, which runs the example.

    Args:
        demands: What the capture needs of the sizes.
        axes: The dimensions that the user made dynamic, with their sizes in the example.
    """
    unmet = _unmet(demands, {axis.name or axis.place: axis.size for axis in axes.values()})
    return any("!=" not in operators_in(text) and not text.endswith(" >= 2") for text in unmet)


def _unmet(demands: Sequence[Condition], sizes: Mapping[str, int]) -> list[str]:
    """The conditions that do not hold for some sizes, each of which has a name or place."""
    return [text for text, _ in demands if not holds_at(with_numbers(text, sizes), {})]


def with_larger_example(shapes: Shapes) -> Shapes | None:
    """The same dynamic shapes for an example of twice the size in each dimension that may have it; None where none may.

    Twice the size is a multiple of what the size is a multiple of. Sizes of 0 and 1 stay: what a model does with them
    is often another thing.
    """
    axes = {key: _larger(axis) for key, axis in shapes.axes.items()}
    named = {axis.name: axis.size for axis in axes.values()}
    axes = {key: axis.with_terms(named) for key, axis in axes.items()}
    return None if axes == shapes.axes else dataclasses.replace(shapes, axes=axes)


def _larger(axis: Axis) -> Axis:
    if axis.terms:
        return axis
    if axis.derived is None:
        size, high = 2 * axis.size, axis.high
        return axis if size < 4 or (high is not None and size > high) else dataclasses.replace(axis, size=size)
    root, high = axis.derived.root_example(axis.size), axis.derived.root_range[1]
    if not root or (high is not None and 2 * root > high):
        return axis
    return dataclasses.replace(axis, size=axis.derived.compute(2 * root))


def fixes_another_size(graph: CapturedGraph, leaves: list[Any], axes: Mapping[tuple[int, int], Axis]) -> bool:
    """Whether a capture of a larger example fixes a size, which is then not that of the example.

    Args:
        graph: The capture.
        leaves: The leaves of `(args, kwargs)`.
        axes: The dimensions that the user made dynamic, with their sizes in the example.
    """
    return any(not torch_sizes.symbols(size) and size != axis.size for axis, size in sized(graph, leaves, axes))


def forget_example(graph: CapturedGraph, shapes: Shapes) -> None:
    """Drops the conditions of a capture of a larger example that leave out the size of the example alone.

    A verification runs the example.

    Args:
        graph: The capture; its conditions change.
        shapes: The dynamic shapes with the sizes of the example.
    """
    sizes = {
        axis.place: axis.derived.root_example(axis.size) if axis.derived and not axis.terms else axis.size
        for axis in shapes.axes.values()
    }
    dropped = set()
    for condition in graph.conditions:
        size = sizes.get(graph.places.get(condition.symbols[0], "")) if len(condition.symbols) == 1 else None
        if size is None:
            continue
        left_out = solutions(condition.expression, condition.symbols[0], 1, None).others()
        if left_out.span() == (size, size):
            dropped.add(condition.expression)
    if not dropped:
        return
    graph.conditions = tuple(each for each in graph.conditions if each.expression not in dropped)
    values = (node.meta.get("val") for node in graph.graph.nodes)
    mode = next((mode for value in values if (mode := getattr(value, "fake_mode", None)) is not None), None)
    if mode is not None:
        torch_known_sizes.forget_conditions(mode.shape_env, dropped, ())
