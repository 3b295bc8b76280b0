"""Conditions on sizes whose other branch is the model for both.

1. `if n < 4: x = pad(x, 4 - n)`: a longer sequence is padded by nothing, see `PaddingNothing`.
2. `if new != old: x = interpolate(x, new)`: to the size that it has, this changes nothing.
3. `if n > len(table): table = make(n)`: what is made for any length is what the table holds.

The example takes the branch on which less is done, and a capture of that is for its sizes alone. A capture of the other
branch is taken in its place where it gives what the model gives, on the example and on inputs of twice its sizes. What
the capture of the example needs of the sizes is still said, and so the verification tries both branches.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from opbridge.base.torch_private import torch_sizes
from opbridge.capture import fixed_sizes
from opbridge.capture.dynamic_shapes import Axis, Shapes
from opbridge.capture.guards.conditions import hold
from opbridge.capture.guards.expressions import operators_in
from opbridge.capture.guards.samples import Range
from opbridge.capture.guards.witnesses import witnesses
from opbridge.graph.captured_graph import CapturedGraph, SizeCondition
from opbridge.graph.running import Running

__all__ = [
    "PaddingNothing",
    "agree",
    "are_few",
    "is_plain",
    "merged",
    "of_opposite_values",
    "of_other_values",
    "of_sizes",
    "pads",
    "plain_axes",
    "results",
    "sizes_of_symbols",
    "twice",
    "with_other_branches",
    "with_sizes",
]

_MOST = 2
_SMALLEST = 2
_ALWAYS_FEW = 1 << 20
"""So many elements inputs of other sizes may have, however few the example has."""


def with_other_branches(graph: CapturedGraph, shapes: Shapes) -> Iterator[tuple[SizeCondition, dict[str, int]]]:
    """The first conditions of the model itself, with sizes of the places that have another answer.

    Args:
        graph: The capture of the example.
        shapes: The dynamic shapes. A condition counts where the user named no range for its dimensions.
    """
    axes = plain_axes(graph, shapes)
    example = {symbol: axis.size for symbol, axis in axes.items()}
    asked = {each.expression: each for each in graph.conditions if axes.keys() >= set(each.symbols)}
    found = 0
    for condition in asked.values():
        operators = operators_in(condition.expression)
        if condition.by_operator or ("!=" in operators and "%" not in operators):
            continue  # what holds for one size alone is no model for others
        if fixed_sizes.may_count_iterations(condition):
            continue  # what computes an iteration more is no model for fewer
        others = [each for each in asked.values() if each.expression != condition.expression]
        ranges: dict[str, Range] = dict.fromkeys(condition.symbols, (_SMALLEST, None))
        sizes = next(witnesses(condition, example, others, ranges, condition.symbols), None)
        if sizes is not None:
            found += 1
            yield condition, {axes[symbol].place: size for symbol, size in sizes.items() if size != example[symbol]}
        if found == _MOST:
            return


def plain_axes(graph: CapturedGraph, shapes: Shapes) -> dict[str, Axis]:
    """The dimensions that may have any size, by their symbols."""
    by_place = {axis.place: axis for axis in shapes.axes.values()}
    found = {symbol: by_place.get(place) for symbol, place in graph.places.items()}
    return {symbol: axis for symbol, axis in found.items() if axis is not None and is_plain(axis)}


def is_plain(axis: Axis) -> bool:
    """Whether a dimension may have any size: a name alone, or Dim.DYNAMIC."""
    return axis.derived is None and not axis.checked and not axis.automatic


def with_sizes(shapes: Shapes, sizes: Mapping[str, int]) -> Shapes:
    """The same dynamic shapes for an example of other sizes, by the places of the dimensions."""
    by_name: dict[str | None, int] = {
        axis.name: sizes[axis.place] for axis in shapes.axes.values() if axis.name and axis.place in sizes
    }
    changed = {
        key: dataclasses.replace(axis, size=sizes.get(axis.place, by_name.get(axis.name, axis.size)))
        for key, axis in shapes.axes.items()
    }
    for key, axis in changed.items():
        changed[key] = axis.with_terms({each.name: each.size for each in changed.values()})
    return dataclasses.replace(shapes, axes=changed)


def merged(found: CapturedGraph, other: CapturedGraph, shapes: Shapes) -> bool:
    """Makes a capture of another branch say what the capture of the example needs of the sizes; false if it cannot.

    Args:
        found: The capture of the example.
        other: That of the other branch; its conditions and ranges change.
        shapes: The dynamic shapes of the example.
    """
    if dict(found.places) != dict(other.places):
        return False
    example = sizes_of_symbols(found, shapes)
    if any("==" in operators_in(each.expression) and not hold((each,), example) for each in other.conditions):
        return False  # torch has replaced sizes by others that they are equal to on the other branch alone
    known = {each.expression for each in found.conditions}
    further = [
        each
        for each in other.conditions
        if each.expression not in known and example.keys() >= set(each.symbols) and hold((each,), example)
    ]
    other.conditions = (*found.conditions, *further)
    other.ranges.clear()
    other.ranges.update(found.ranges)
    return True


def sizes_of_symbols(graph: CapturedGraph, shapes: Shapes) -> dict[str, int]:
    """The sizes of the example, by the symbols of a capture."""
    sizes = {axis.place: axis.size for axis in shapes.axes.values()}
    return {symbol: sizes[place] for symbol, place in graph.places.items() if place in sizes}


def results(graph: CapturedGraph, leaves: Sequence[Any]) -> list[Any]:
    """What a captured graph gives.

    Args:
        graph: The graph.
        leaves: The leaves of `(args, kwargs)`, to which it may write.
    """
    values = {
        node: weight.tensor if weight.kind == "parameter" else weight.tensor.clone()
        for node, weight in graph.weights.items()
    }
    for leaf, value in zip(graph.inputs, leaves, strict=True):
        if leaf.node is not None:
            values[leaf.node] = value
    placeholders = (node for node in graph.graph.nodes if node.op == "placeholder")
    # One run: to compile the module's code would take longer.
    return list(Running(graph.module).run(*(values[node] for node in placeholders)))


def of_other_values(leaves: Sequence[Any]) -> list[Any]:
    """Inputs of the same sizes with other floating-point values: an example of ones says little of a product."""
    generator = torch.Generator().manual_seed(0)

    def changed(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point() or leaf.layout != torch.strided:
            return leaf
        factors = torch.rand(leaf.shape, generator=generator, dtype=torch.float64) + 0.5
        return (leaf + leaf.abs().mean() * (factors - 1)).to(leaf.dtype) if leaf.numel() else leaf

    return [changed(leaf) for leaf in leaves]


def of_opposite_values(leaves: Sequence[Any]) -> list[Any]:
    """Inputs of the same sizes whose numbers are negated, and whose truth values are others: for other branches."""

    def opposite(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided:
            return leaf
        return -leaf if leaf.is_floating_point() else leaf.logical_not() if leaf.dtype is torch.bool else leaf

    return [opposite(leaf) for leaf in leaves]


def twice(leaves: Sequence[Any], shapes: Shapes) -> list[Any]:
    """Inputs of twice the sizes in the dynamic dimensions, which hold each value twice.

    A size that follows from others, such as `past + 1`, is what it is for these.
    """
    return of_sizes(leaves, with_sizes(shapes, {axis.place: _doubled(axis) for axis in shapes.axes.values()}))


def _doubled(axis: Axis) -> int:
    """The size of a dimension where the one that it is computed from has twice the size, or where itself has."""
    derived = axis.derived
    root = None if derived is None or derived.terms else derived.root_example(axis.size)
    return 2 * axis.size if derived is None or root is None else int(derived.compute(2 * root))


class PaddingNothing(TorchFunctionMode):
    """Within this context, what sizes add to a tensor by padding would add nothing for some other sizes.

    1. `if n < 4: x = pad(x, (4 - n, 0))` would take elements away from a longer sequence: `max(4 - n, 0)` are added.
    2. `if n % 4 != 0: x = pad(x, (0, 4 - n % 4))` would add four elements to a multiple of four: `(4 - n % 4) % 4` are.

    Whether that is the model is for the comparison to say.

    Args:
        sizes: The other sizes, by their symbols.

    Attributes:
        changed: Whether there was such padding.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        super().__init__()
        self._sizes = sizes
        self.changed = False

    def __torch_function__(self, function: Callable[..., Any], kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is not torch.nn.functional.pad:
            return function(*args, **(kwargs or {}))
        given = inspect.signature(function).bind(*args, **(kwargs or {}))
        given.arguments["pad"] = [self._amount(each) for each in given.arguments["pad"]]
        return function(*given.args, **given.kwargs)

    def _amount(self, amount: Any) -> Any:
        if not isinstance(amount, torch.SymInt) or (torch_sizes.example_with(amount, {}) or 0) <= 0:
            return amount
        elsewhere = torch_sizes.example_with(amount, self._sizes)
        if not elsewhere:
            return amount
        self.changed = True
        return torch.sym_max(amount, 0) if elsewhere < 0 else amount % elsewhere


def pads(graph: CapturedGraph) -> bool:
    """Whether a model pads anything."""
    return any(node.op == "call_function" and "pad" in str(node.target) for node in graph.graph.nodes)


def of_sizes(leaves: Sequence[Any], shapes: Shapes) -> list[Any]:
    """Inputs of other sizes, which hold the values of the example again and again.

    Args:
        leaves: The leaves of `(args, kwargs)`.
        shapes: The dynamic shapes with these sizes.
    """

    def resized(leaf: Any) -> Any:
        found = leaf
        for (tensor, index), axis in shapes.axes.items():
            if tensor == id(leaf) and found.shape[index]:
                times = -(-axis.size // found.shape[index])
                found = torch.cat([found] * max(times, 1), index).narrow(index, 0, axis.size)
        return found

    return [resized(leaf) for leaf in leaves]


def _elements(leaves: Sequence[Any], shapes: Shapes) -> int:
    """How many elements inputs of other sizes have."""
    sizes = {key: axis.size for key, axis in shapes.axes.items()}
    return sum(
        math.prod(sizes.get((id(leaf), index), size) for index, size in enumerate(leaf.shape))
        for leaf in leaves
        if isinstance(leaf, torch.Tensor)
    )


def agree(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Whether two lists of results are equal up to rounding: the root of the dtype's epsilon, scaled by the RMS."""
    return len(first) == len(second) and all(map(_same, first, second))


def _same(first: Any, second: Any) -> bool:
    if not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
        return type(first) is type(second)
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    if not first.dtype.is_floating_point and not first.dtype.is_complex:
        return torch.equal(first, second)
    finite = first[torch.isfinite(first)]
    scale = float(finite.abs().square().mean().sqrt()) if finite.numel() else 1.0
    root = torch.finfo(first.dtype).eps ** 0.5
    return torch.allclose(first, second, rtol=root, atol=root * scale, equal_nan=True)


def are_few(leaves: Sequence[Any], shapes: Shapes, example: Shapes, times: int = 64) -> bool:
    """Whether inputs of other sizes have few enough elements for the model to be run on them.

    Args:
        leaves: The leaves of `(args, kwargs)`.
        shapes: The dynamic shapes with these sizes.
        example: Those of the example.
        times: How many times as many elements as the example they may have.
    """
    return _elements(leaves, shapes) <= max(_ALWAYS_FEW, times * _elements(leaves, example))
