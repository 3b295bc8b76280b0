"""Sizes of dynamic dimensions, other than those of the example inputs.

A dimension is a number, a symbol ("batch"), or an expression of symbols ("2*batch"). Dimensions with the same symbol
always have the same size.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from opbridge.base.size_expressions import evaluate, holds, is_known, solve
from opbridge.base.torch_private import torch_sizes

if TYPE_CHECKING:
    from opbridge.capture import Capture

__all__ = ["DynamicSizes", "from_capture", "from_shapes"]

_MAX_SYMBOLS_ALONE = 4
_MAX_SIZES_TRIED = 128
"""How many consecutive sizes are checked against the conditions: a network may require multiples of 64."""


@dataclass
class DynamicSizes:
    """The dynamic dimensions of a model's inputs.

    Attributes:
        dims: The dimensions of each tensor, as integers and expressions, by its position among the leaves of
            `(args, kwargs)`.
        numbers: The expressions of integers that are inputs of the graph, by their positions.
        example: The size of each symbol in the example inputs.
        ranges: The minimum and the maximum of symbols; None is no maximum. The minimum of other symbols is 1.
        names: The names of symbols in messages, where they differ.
        conditions: Conditions on the sizes, "(s77 % 2) == 0".
        without_one: The symbols whose ranges leave out a size of 1 that the user did not exclude. It is tried.
        with_zero: The symbols for which a size of 0 is tried: the lengths of caches, which are empty at first.
        of_branches: Sizes that take each branch of the decisions on sizes.
    """

    dims: dict[int, tuple[int | str, ...]] = field(default_factory=dict)
    numbers: dict[int, str] = field(default_factory=dict)
    example: dict[str, int] = field(default_factory=dict)
    ranges: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    conditions: tuple[str, ...] = ()
    without_one: frozenset[str] = frozenset()
    with_zero: frozenset[str] = frozenset()
    of_branches: tuple[dict[str, int], ...] = ()

    def groups(self) -> list[list[dict[str, int]]]:
        """Sizes to try, in groups. The later ones of a group are alternatives if a model refuses the first.

        1. All symbols at the smallest size from 1 on that the range and the conditions allow, and at 1 where only the
           capture excludes it; else from 2 on, else one symbol at a time.
        2. All symbols larger than in the example, each by another amount, or smaller where the range ends; else twice
           as large, else one symbol at a time.
        3. All symbols that have a largest size at it; else one symbol at a time.
        4. The lengths of caches at 0, with the other sizes of the example; and with the smallest ones.
        """
        least = {symbol: 1 if symbol in self.without_one else self._least(symbol, 1) for symbol in self.example}
        larger = {symbol: self._beside(symbol, step) for step, symbol in enumerate(self.example, 1)}
        two = {symbol: self._least(symbol, 2) for symbol in self.example}
        twice = {symbol: self._clipped(symbol, 2 * size) for symbol, size in self.example.items()}
        tried: list[dict[str, int]] = [self.example]
        groups = []
        last = {symbol: self._greatest(symbol) for symbol in self.example}
        for first, second in ((least, two), (larger, twice), (last, last)):
            alone = (
                [{**self.example, symbol: first[symbol]} for symbol in self.example] if len(self.example) > 1 else []
            )
            group = []
            for sizes in (first, second, *alone[:_MAX_SYMBOLS_ALONE]):
                if sizes not in tried:
                    tried.append(sizes)
                    group.append(sizes)
            if group:
                groups.append(group)
        empty = dict.fromkeys(self.with_zero, 0)
        for sizes in ({**self.example, **empty}, {**least, **empty}):
            if sizes not in tried:
                tried.append(sizes)
                groups.append([sizes])
        return groups

    def elements(self, chosen: Mapping[str, int]) -> int:
        """How many elements the inputs with dynamic dimensions have together, for a choice of sizes."""
        return sum(map(math.prod, self.shapes(chosen).values()))

    def shapes(self, sizes: Mapping[str, int]) -> dict[int, tuple[int, ...]]:
        """The shapes of the tensors at given sizes, by position."""
        return {leaf: tuple(_size(dim, sizes) for dim in dims) for leaf, dims in self.dims.items()}

    def values(self, sizes: Mapping[str, int]) -> dict[int, int]:
        """The integers at given sizes, by position."""
        return {leaf: _size(expression, sizes) for leaf, expression in self.numbers.items()}

    def label(self, sizes: Mapping[str, int]) -> str:
        """ "batch=1, length=7": the sizes for a person."""
        return ", ".join(f"{self.names.get(symbol, symbol)}={size}" for symbol, size in sizes.items())

    def broken_condition(self, sizes: Mapping[str, int]) -> str | None:
        """A condition that does not hold at given sizes, with the names of symbols for messages; None if there is none.

        Dimensions may not be negative. Conditions that cannot be evaluated are skipped.
        """
        negative = self._negative(sizes)
        if negative is not None:
            return f"{self._named(negative)} >= 0"
        for symbol in self.without_one:
            if sizes.get(symbol) == 1:
                return f"{self.names.get(symbol, symbol)} >= 2"
        for condition in self.conditions:
            try:
                if not holds(condition, sizes):
                    return self._named(condition)
            except (ValueError, TypeError):
                continue
        return None

    def exist(self, sizes: Mapping[str, int]) -> bool:
        """Whether there are inputs of given sizes: a dimension of `3*n - 12` leaves out the smallest ones."""
        return self._negative(sizes) is None

    def _negative(self, sizes: Mapping[str, int]) -> str | None:
        """A dimension that would be negative at given sizes."""
        found = (str(dim) for dims in self.dims.values() for dim in dims if _size(dim, sizes) < 0)
        return next(found, None)

    def _named(self, expression: str) -> str:
        return re.sub(r"\b[a-z]+\d+\b", lambda found: self.names.get(found[0], found[0]), expression)

    def _allows(self, symbol: str, size: int) -> bool:
        """Whether a symbol may have a size while the others keep theirs."""
        return self._clipped(symbol, size) == size and not self.broken_condition({**self.example, symbol: size})

    def _clipped(self, symbol: str, size: int) -> int:
        least, greatest = self.ranges.get(symbol, (1, None))
        size = max(size, least)
        return size if greatest is None else min(size, greatest)

    def _least(self, symbol: str, start: int) -> int:
        smaller = range(start, min(self.example[symbol], start + _MAX_SIZES_TRIED))
        return next((size for size in smaller if self._allows(symbol, size)), self._clipped(symbol, start))

    def _greatest(self, symbol: str) -> int:
        """The largest size of a symbol that the conditions allow; that of the example where there is none."""
        size = self.example[symbol]
        greatest = self.ranges.get(symbol, (1, None))[1]
        if greatest is None:
            return size
        below = range(greatest, max(size, greatest - _MAX_SIZES_TRIED), -1)
        return next((each for each in below if self._allows(symbol, each)), size)

    def _beside(self, symbol: str, step: int) -> int:
        size = self.example[symbol]
        above = range(size + step, size + step + _MAX_SIZES_TRIED)
        below = range(size - step, 0, -1)
        return next((each for each in (*above, *below) if self._allows(symbol, each)), size)


def from_capture(capture: Capture, leaves: Sequence[Any]) -> DynamicSizes:
    """The dynamic dimensions of a capture.

    Args:
        capture: The capture, whose symbols have ranges and names.
        leaves: The leaves of `(args, kwargs)`: those of the capture, or others of the same structure.
    """
    graph = capture.graph
    unified = _UnifiedSymbols(capture.dim_names)
    dims: dict[int, tuple[int | str, ...]] = {}
    numbers: dict[int, str] = {}
    for number, leaf in enumerate(graph.inputs):
        value = leaf.value if leaf.node is None else leaf.node.meta.get("val")
        if isinstance(value, torch.Tensor):
            sizes = map(torch_sizes.known_size, value.shape)
            dims[number] = tuple(size if isinstance(size, int) else unified.text(size) for size in sizes)
        elif isinstance(value, torch.SymInt):
            numbers[number] = unified.text(value)
    found = from_shapes(dims, leaves, numbers=numbers, names=capture.dim_names)
    for symbol, (lower, upper) in graph.ranges.items():
        name = unified.text(symbol)
        least, greatest = found.ranges.get(name, (0, None))
        if upper is not None:
            greatest = upper if greatest is None else min(greatest, upper)
        found.ranges[name] = (max(least, lower), greatest)
    empty = {each.place for each in capture.asked if each.may_be_empty}
    found.with_zero = frozenset(
        unified.text(symbol)
        for symbol, place in graph.places.items()
        if place in empty and unified.text(symbol) in found.example
    )
    found.without_one = frozenset(map(unified.text, graph.without_one)) & found.example.keys()
    found.of_branches = tuple(
        {**found.example, **{unified.text(symbol): size for symbol, size in sizes.items()}}
        for sizes in graph.branch_sizes
    )
    found.conditions = tuple(unified.text(condition.expression) for condition in graph.conditions)
    return found


class _UnifiedSymbols:
    """Replaces symbols that have the same name by one of them: the user declared them as one dimension."""

    def __init__(self, names: Mapping[str, str]) -> None:
        first: dict[str, str] = {}
        for symbol, name in names.items():
            first.setdefault(name, symbol)
        self._symbols = {symbol: first[name] for symbol, name in names.items()}

    def text(self, expression: object) -> str:
        return re.sub(r"\b[a-z]+\d+\b", lambda found: self._symbols.get(found[0], found[0]), str(expression))


def from_shapes(
    dims: Mapping[int, tuple[int | str, ...]],
    leaves: Sequence[Any],
    *,
    numbers: Mapping[int, str] | None = None,
    names: Mapping[str, str] | None = None,
) -> DynamicSizes:
    """The dynamic dimensions of symbolic shapes, as an ONNX file has them.

    A dimension with a symbol that the example does not determine is treated as static.

    Args:
        dims: The dimensions of tensors, by position.
        leaves: The example's leaves.
        numbers: The expressions of integers, by position.
        names: The names of symbols in messages, where they differ.
    """
    equations: list[tuple[str, int]] = []
    for leaf, shape in dims.items():
        sizes = zip(shape, leaves[leaf].shape, strict=True)
        equations.extend((dim, size) for dim, size in sizes if isinstance(dim, str))
    equations.extend((expression, leaves[leaf]) for leaf, expression in (numbers or {}).items())
    example = solve(equations)
    solved = {(dim, size) for dim, size in equations if is_known(dim, example) and evaluate(dim, example) == size}
    return DynamicSizes(
        {
            leaf: tuple(
                dim if (dim, size) in solved else size for dim, size in zip(shape, leaves[leaf].shape, strict=True)
            )
            for leaf, shape in dims.items()
        },
        {leaf: text for leaf, text in (numbers or {}).items() if (text, leaves[leaf]) in solved},
        example,
        names=dict(names or {}),
    )


def _size(dim: int | str, sizes: Mapping[str, int]) -> int:
    return dim if isinstance(dim, int) else evaluate(dim, sizes)
