"""Other sizes for the dimensions that may vary.

A dimension is a number, a symbol ("batch"), or an expression of symbols ("2*batch"). Dimensions with the same symbol
change together, and an expression follows its symbols.
"""

from __future__ import annotations

import ast
import functools
import itertools
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from opbridge.base.torch_private import torch_sizes
from opbridge.graph.interface import user_inputs

if TYPE_CHECKING:
    from opbridge.capture import Capture

__all__ = ["DynamicSizes", "evaluate", "from_capture", "from_shapes"]

_MOST_SYMBOLS_ALONE = 4
_MOST_TRIED = 128
"""How many sizes in a row are held against the conditions: a network may want multiples of 64."""

_LARGEST_SOLUTION = 1 << 16

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Max": max,
    "Min": min,
    "max": max,
    "min": min,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "floor": math.floor,
    "ceiling": math.ceil,
}


@dataclass
class DynamicSizes:
    """The dimensions of a model's inputs that may vary.

    Attributes:
        dims: For each tensor, by its number among the leaves of `(args, kwargs)`: numbers and expressions.
        numbers: The same for integers that are inputs of the graph.
        example: The example's size for each symbol.
        ranges: The least and greatest size of a symbol; no greatest is None. Symbols that are not here begin at 1.
        names: What to call a symbol, where it has another name for a person.
        conditions: What else has to hold, "(s77 % 2) == 0".
    """

    dims: dict[int, tuple[int | str, ...]] = field(default_factory=dict)
    numbers: dict[int, str] = field(default_factory=dict)
    example: dict[str, int] = field(default_factory=dict)
    ranges: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    conditions: tuple[str, ...] = ()

    def groups(self) -> list[list[dict[str, int]]]:
        """Sizes to try, in groups: where a model refuses the first of a group, the others of it are worth trying.

        1. All symbols at the least size that the range and the conditions allow (from 1 on, as nothing has no size);
           else from 2 on, else one at a time.
        2. All symbols somewhat larger than in the example, each by another number; else twice as large, else one at a
           time. Where the range ends there, smaller instead.
        """
        least = {symbol: self._least(symbol, 1) for symbol in self.example}
        larger = {symbol: self._beside(symbol, step) for step, symbol in enumerate(self.example, 1)}
        two = {symbol: self._least(symbol, 2) for symbol in self.example}
        twice = {symbol: self._clipped(symbol, 2 * size) for symbol, size in self.example.items()}
        tried: list[dict[str, int]] = [self.example]
        groups = []
        for first, second in ((least, two), (larger, twice)):
            alone = (
                [{**self.example, symbol: first[symbol]} for symbol in self.example] if len(self.example) > 1 else []
            )
            group = []
            for sizes in (first, second, *alone[:_MOST_SYMBOLS_ALONE]):
                if sizes not in tried:
                    tried.append(sizes)
                    group.append(sizes)
            if group:
                groups.append(group)
        return groups

    def shapes(self, sizes: Mapping[str, int]) -> dict[int, tuple[int, ...]]:
        """The shapes of the tensors at given sizes, by leaf."""
        return {leaf: tuple(_size(dim, sizes) for dim in dims) for leaf, dims in self.dims.items()}

    def values(self, sizes: Mapping[str, int]) -> dict[int, int]:
        """The integers that are inputs at given sizes, by leaf."""
        return {leaf: _size(expression, sizes) for leaf, expression in self.numbers.items()}

    def label(self, sizes: Mapping[str, int]) -> str:
        """ "batch=1, length=7": the sizes for a person."""
        return ", ".join(f"{self.names.get(symbol, symbol)}={size}" for symbol, size in sizes.items())

    def broken_condition(self, sizes: Mapping[str, int]) -> str | None:
        """A condition that does not hold at given sizes, for a person; one that cannot be evaluated is passed over."""
        for condition in self.conditions:
            try:
                if not _evaluated(_parsed(condition), sizes):
                    return re.sub(r"\b[a-z]+\d+\b", lambda found: self.names.get(found[0], found[0]), condition)
            except (ValueError, TypeError):
                continue
        return None

    def _allows(self, symbol: str, size: int) -> bool:
        """Whether a symbol may have a size while the others keep theirs."""
        return self._clipped(symbol, size) == size and not self.broken_condition({**self.example, symbol: size})

    def _clipped(self, symbol: str, size: int) -> int:
        least, greatest = self.ranges.get(symbol, (1, None))
        size = max(size, least)
        return size if greatest is None else min(size, greatest)

    def _least(self, symbol: str, start: int) -> int:
        smaller = range(start, min(self.example[symbol], start + _MOST_TRIED))
        return next((size for size in smaller if self._allows(symbol, size)), self._clipped(symbol, start))

    def _beside(self, symbol: str, step: int) -> int:
        size = self.example[symbol]
        above = range(size + step, size + step + _MOST_TRIED)
        below = range(size - step, 0, -1)
        return next((each for each in (*above, *below) if self._allows(symbol, each)), size)


def from_capture(capture: Capture, leaves: Sequence[Any]) -> DynamicSizes:
    """The dimensions that a capture left open.

    Args:
        capture: The capture, whose symbols have ranges and names.
        leaves: The leaves of `(args, kwargs)`; those of the capture, or others that fit it.
    """
    program = capture.exported_program
    tied = _Tied(capture.dim_names)
    placeholders = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    dims: dict[int, tuple[int | str, ...]] = {}
    numbers: dict[int, str] = {}
    for leaf, spec in enumerate(user_inputs(program)):
        value = placeholders.get(spec.arg.name)
        if isinstance(value, torch.Tensor):
            sizes = map(torch_sizes.known_size, value.shape)
            dims[leaf] = tuple(size if isinstance(size, int) else tied.text(size) for size in sizes)
        elif isinstance(value, torch.SymInt):
            numbers[leaf] = tied.text(value)
    found = from_shapes(dims, leaves, numbers=numbers, names=capture.dim_names)
    for symbol, bounds in program.range_constraints.items():
        name = tied.text(symbol)
        least, greatest = found.ranges.get(name, (0, None))
        lower, upper = _bound(bounds.lower), _bound(bounds.upper)
        if upper is not None:
            greatest = upper if greatest is None else min(greatest, upper)
        found.ranges[name] = (max(least, lower or 0), greatest)
    found.conditions = tuple(tied.text(expression) for expression, _, _ in torch_sizes.shape_guards(program))
    return found


class _Tied:
    """Writes one symbol for all that have the same name: the user called them one dimension."""

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
    """The same from shapes that are written down, as an ONNX file has them.

    A symbol whose size the example does not tell stays as it is, and so do the dimensions that it is part of.

    Args:
        dims: The dimensions of tensors, by leaf.
        leaves: The example's leaves.
        numbers: The expressions of integers, by leaf.
        names: Other names of symbols, for a person.
    """
    wanted: list[tuple[str, int]] = []
    for leaf, shape in dims.items():
        wanted.extend((dim, size) for dim, size in zip(shape, leaves[leaf].shape, strict=True) if isinstance(dim, str))
    wanted.extend((expression, leaves[leaf]) for leaf, expression in (numbers or {}).items())
    example = _solved(wanted)
    solved = {(dim, size) for dim, size in wanted if _is_known(dim, example) and evaluate(dim, example) == size}
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


def evaluate(expression: str, sizes: Mapping[str, int]) -> int:
    """The number that an expression of sizes stands for; "2*batch + 1". Nothing else is ever run.

    Raises:
        ValueError: it is no such expression, or a symbol has no size.
    """
    if expression in sizes:
        return sizes[expression]
    value = _evaluated(_parsed(expression), sizes)
    if value != int(value):
        raise ValueError(f"{expression} is no whole number")
    return int(value)


def _size(dim: int | str, sizes: Mapping[str, int]) -> int:
    return dim if isinstance(dim, int) else evaluate(dim, sizes)


@functools.lru_cache(maxsize=4096)
def _parsed(expression: str) -> ast.expr:
    try:
        return ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"{expression} is no expression of sizes") from None


def _evaluated(node: ast.expr, sizes: Mapping[str, int]) -> Any:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name) and node.id in sizes:
        return sizes[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluated(node.operand, sizes)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        left, right = _evaluated(node.left, sizes), _evaluated(node.right, sizes)
        if isinstance(node.op, ast.Pow) and not 0 <= right <= 8:
            raise ValueError("a power that no size is made of")
        if isinstance(node.op, (ast.FloorDiv, ast.Div, ast.Mod)) and right == 0:
            raise ValueError("a division by zero")
        return _BINARY[type(node.op)](left, right)
    if isinstance(node, ast.Compare):
        values = [_evaluated(each, sizes) for each in (node.left, *node.comparators)]
        tests = [_COMPARISONS.get(type(each)) for each in node.ops]
        if None not in tests:
            return all(test(*pair) for test, pair in zip(tests, itertools.pairwise(values), strict=True) if test)
    if isinstance(node, ast.BoolOp):
        parts = [_evaluated(each, sizes) for each in node.values]
        return all(parts) if isinstance(node.op, ast.And) else any(parts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not _evaluated(node.operand, sizes)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and node.args:
        return _FUNCTIONS[node.func.id](*(_evaluated(argument, sizes) for argument in node.args))
    raise ValueError("no expression of sizes")


def _symbols(expression: str) -> set[str]:
    """The symbols of an expression; the whole text where it is none, as ONNX lets a dimension be called anything."""
    try:
        tree = _parsed(expression)
    except ValueError:
        return {expression}
    calls = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node not in calls}
    return names or {expression}


def _is_known(expression: str, sizes: Mapping[str, int]) -> bool:
    try:
        evaluate(expression, sizes)
    except (ValueError, TypeError):
        return False
    return True


def _solved(wanted: Sequence[tuple[str, int]]) -> dict[str, int]:
    """The size of each symbol. Bare symbols first, then expressions in which one symbol is left to find."""
    sizes: dict[str, int] = {}
    for dim, size in wanted:
        if dim.isidentifier() or _symbols(dim) == {dim}:
            sizes.setdefault(dim, size)
    changed = True
    while changed:
        changed = False
        for dim, size in wanted:
            unknown = [symbol for symbol in _symbols(dim) if symbol not in sizes]
            if len(unknown) != 1 or dim in sizes:
                continue
            found = _solution(dim, unknown[0], size, sizes)
            if found is not None:
                sizes[unknown[0]] = found
                changed = True
    for dim, size in wanted:
        # "batch-size" is a name, as nothing else is called batch or size.
        if not _is_known(dim, sizes) and not any(symbol in sizes for symbol in _symbols(dim)):
            sizes.setdefault(dim, size)
    return sizes


def _solution(expression: str, symbol: str, wanted: int, sizes: Mapping[str, int]) -> int | None:
    for candidate in range(min(2 * wanted + 64, _LARGEST_SOLUTION)):
        try:
            if evaluate(expression, {**sizes, symbol: candidate}) == wanted:
                return candidate
        except (ValueError, TypeError):
            continue
    return None


def _bound(value: Any) -> int | None:
    """An end of a range of torch's; None where it is infinite."""
    try:
        bound = int(value)
    except (TypeError, ValueError, OverflowError, AttributeError):
        return None
    return None if abs(bound) >= 1 << 48 else bound
