"""The dynamic dimensions of a capture: their names, their ranges, and the conditions on them."""

from __future__ import annotations

import functools
import math
import re
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from opbridge.base.sources import Source, innermost
from opbridge.base.torch_private import torch_sizes
from opbridge.capture.dynamic_shapes import Axis
from opbridge.graph.captured_graph import AskedDimension, CapturedGraph

__all__ = [
    "Condition",
    "Range",
    "constrain_sizes",
    "contradictions",
    "dim_names",
    "dim_sums",
    "dynamic_dimensions",
    "holds_at",
    "holds_between",
    "holds_for_all",
    "is_evaluated",
    "largest_of",
    "sized",
    "value_at",
]

Condition = tuple[str, Source | None]
Range = tuple[int, int | None]

# A condition on one size is tested for each size up to this one, and by bisection beyond.
_SCANNED = 2048
_LARGEST = 1 << 40
# Sizes for which a condition on several sizes is tested; one that holds for all of them is not reported.
_TRIED = (1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 31, 64, 100, 1000, 4096, 1_000_003)
_EQUAL = re.compile(r"[a-z]+\d+ == [a-z]+\d+")


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
    conditions: dict[str, Source | None] = {}
    fixing: set[str] = set()  # the conditions whose line is that of the question that leaves one size alone
    rest: list[tuple[str, tuple[str, ...], Source | None]] = []
    for condition in graph.conditions:
        expression, symbols = condition.expression, condition.symbols
        line = next(iter(innermost(condition.stack)), None)
        symbol = symbols[0]
        if len(symbols) == 1 and shown.get(symbol) in specialized:
            size = specialized[shown[symbol]]
            text = f"{shown[symbol]} == {size}"
            if text not in conditions or (text not in fixing and _fixes(expression, symbol, size)):
                conditions[text] = line
            if _fixes(expression, symbol, size):
                fixing.add(text)
            continue
        low, high = ranges.get(symbol, (1, None))
        span = _span_of(expression, symbol, low, high) if len(symbols) == 1 and symbol in ranges else None
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
        if low == high != requested[symbol][1]:
            conditions.setdefault(f"{label[symbol]} == {low}", lines.get((symbol, "high")))
            continue
        if low > requested[symbol][0]:
            conditions.setdefault(f"{label[symbol]} >= {low}", lines.get((symbol, "low")))
        if high != requested[symbol][1]:
            conditions.setdefault(f"{label[symbol]} <= {high}", lines.get((symbol, "high")))
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
        if _EQUAL.fullmatch(expression) and not named.issuperset(places):
            continue
        text = _readable(expression, shown)
        first, _, second = re.sub(r"[()]", "", text).partition(" == ")
        if first != second and not holds_for_all(expression, symbols, ranges):
            conditions.setdefault(text, line)
    fixed = [f"{place} == {size}" for place, size in specialized.items()]
    return [*conditions.items(), *((text, None) for text in fixed if text not in conditions)]


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
    found = constrain_sizes(graph, leaves, axes, least, checked=False)
    graph.ranges.clear()
    graph.ranges.update(ranges)
    by_label = {axis.name or axis.place: axis for axis in axes.values()}
    contradicted = []
    for text, line in found:
        involved = [
            axis for label, axis in by_label.items() if re.search(rf"(?<![\w.]){re.escape(label)}(?![\w.\[])", text)
        ]
        fixed = re.fullmatch(r".* == \d+", text) and text.rpartition(" == ")[0] in by_label
        if fixed and not all(axis.automatic for axis in involved):
            contradicted.append((text, line))
        elif involved and all(axis.checked for axis in involved) and not re.fullmatch(r"\S+ >= 2", text):
            contradicted.append((text, line))
    return contradicted


def _names(text: str, label: str) -> bool:
    """Whether a condition is about a dimension."""
    return re.search(rf"(?<![\w.]){re.escape(label)}(?![\w.\[])", text) is not None


def _test(expression: str, symbol: str) -> Callable[[int], bool]:
    """Whether a condition on one size holds; true where it cannot be evaluated."""
    code = compile(expression, "<condition>", "eval")

    def holds(size: int) -> bool:
        return _holds(code, {symbol: size})

    return holds


# What torch writes in conditions.
_FUNCTIONS = {
    "__builtins__": {},
    "abs": abs,
    "int": int,
    "max": max,
    "min": min,
    "round": round,
    "math": math,
    "torch": types.SimpleNamespace(sym_float=float, _sym_sqrt=math.sqrt),
}


def _holds(code: Any, sizes: Mapping[str, int]) -> bool:
    try:
        return bool(eval(code, dict(_FUNCTIONS), dict(sizes)))
    except (ArithmeticError, NameError, AttributeError, TypeError, ValueError):
        return True


def _fixes(expression: str, symbol: str, size: int) -> bool:
    """Whether a condition holds for no size beside this one."""
    holds = _test(expression, symbol)
    return not holds(size + 1) and not holds(max(size - 1, 0) if size else 2)


def _span(holds: Callable[[int], bool], low: int, high: int | None) -> Range | None:
    """The smallest and largest size for which a condition holds; None where it does not hold for all between them."""
    last = _SCANNED if high is None else min(high, _SCANNED)
    sizes = [size for size in range(low, last + 1) if holds(size)]
    if not sizes or len(sizes) != sizes[-1] - sizes[0] + 1:
        return None
    if sizes[-1] < last:
        return None if holds(_LARGEST) else (sizes[0], sizes[-1])
    if high is not None and high <= last:
        return sizes[0], high
    first_bad = _LARGEST if high is None else high + 1
    if high is None and holds(first_bad):
        return sizes[0], None
    good = last
    while first_bad - good > 1:
        middle = (good + first_bad) // 2
        good, first_bad = (middle, first_bad) if holds(middle) else (good, middle)
    return sizes[0], good


@functools.lru_cache(maxsize=4096)
def _span_of(expression: str, symbol: str, low: int, high: int | None) -> Range | None:
    return _span(_test(expression, symbol), low, high)


def largest_of(expression: str, symbol: str) -> int | None:
    """The largest size for which a condition on one size holds, where it holds for all below; None where none is."""
    span = _span_of(expression, symbol, 1, None)
    return span[1] if span is not None else None


def holds_at(expression: str, sizes: Mapping[str, int]) -> bool:
    """Whether a condition holds for sizes; one that has no value does."""
    return _holds(_compiled(expression), sizes)


def value_at(expression: str, sizes: Mapping[str, int]) -> Any:
    """The value of an expression for sizes; None where it has none."""
    try:
        return eval(_compiled(expression), dict(_FUNCTIONS), dict(sizes))
    except (ArithmeticError, NameError, AttributeError, TypeError, ValueError):
        return None


@functools.lru_cache(maxsize=4096)
def _compiled(expression: str) -> Any:
    return compile(expression, "<condition>", "eval")


def holds_between(expression: str, symbol: str, low: int, high: int | None) -> bool:
    """Whether a condition on one size holds for all sizes between two, as far as they are tested; None: to any size."""
    return _span_of(expression, symbol, low, high) == (low, high)


def is_evaluated(expression: str, sizes: Mapping[str, int]) -> bool:
    """Whether a condition has a value for sizes."""
    try:
        eval(compile(expression, "<condition>", "eval"), dict(_FUNCTIONS), dict(sizes))
    except (ArithmeticError, NameError, AttributeError, TypeError, ValueError):
        return False
    return True


def holds_for_all(expression: str, symbols: tuple[str, ...], ranges: Mapping[str, Range]) -> bool:
    """Whether a condition holds for all tested sizes.

    Args:
        expression: A Python expression over symbols.
        symbols: Its symbols.
        ranges: The smallest and largest value of each; from 1 by default.
    """
    code = compile(expression, "<condition>", "eval")
    choices = []
    for symbol in symbols:
        low, high = ranges.get(symbol, (1, None))
        inside = {size for size in _TRIED if size >= low and (high is None or size <= high)}
        choices.append(sorted(inside | {low if high is None else high, low}))
    paired = list(zip(symbols, choices, strict=True))

    def tried(step: int) -> dict[str, int]:
        return {symbol: sizes[step * at % len(sizes)] for at, (symbol, sizes) in enumerate(paired, 1)}

    every = [tried(step) for step in range(len(_TRIED) + 2)]
    smallest = {symbol: sizes[0] for symbol, sizes in paired}
    # One that is as small as may be, with others that are not.
    every += [{**each, symbol: smallest[symbol]} for each in every[1:4] for symbol in symbols if len(symbols) > 1]
    return all(_holds(code, sizes) for sizes in every)


def _user_name(
    place: str, leaves: list[Any], axes: Mapping[tuple[int, int], Axis], user_names: Mapping[str, str]
) -> str:
    """The user's name of a place; strict mode numbers the inputs."""
    if numbered := re.fullmatch(r"flat_args\[(\d+)\]\.shape\[(\d+)\]", place):
        axis = axes.get((id(leaves[int(numbered[1])]), int(numbered[2])))
        place = axis.place if axis else place
    return user_names.get(place, place)


def _readable(expression: str, shown: Mapping[str, str]) -> str:
    """A condition as a Python expression over names of dimensions."""
    text = re.sub(r"^\(([^()]*)\) (==|!=|<=|>=|<|>) ", r"\1 \2 ", expression)
    text = _balanced(re.sub(r" (==|!=|<=|>=|<|>) \(([^()]*(?:\([^()]*\)[^()]*)*)\)$", r" \1 \2", text))
    return re.sub(r"\b[a-z]+\d+\b", lambda found: _operand(shown.get(found[0], found[0])), text)


_TERM = r"(?:\w+|\(\(-\d+\)\*\w+\))"


def _balanced(text: str) -> str:
    """A condition as a person writes it: "a + ((-1)*b) <= 0" is "a <= b", and "n == 8*(n // 8)" is "n % 8 == 0"."""
    if multiple := re.fullmatch(r"(\w+) (==|!=) (\d+)\*\(\1 // \3\)", text):
        return f"{multiple[1]} % {multiple[3]} {multiple[2]} 0"
    found = re.fullmatch(rf"({_TERM}(?: \+ {_TERM})*) (==|!=|<=|>=|<|>) 0", text)
    if found is None:
        return text
    left, right = [], []
    for term in found[1].split(" + "):
        if negative := re.fullmatch(r"\(\(-(\d+)\)\*(\w+)\)", term):
            right.append(negative[2] if negative[1] == "1" else f"{negative[1]}*{negative[2]}")
        else:
            left.append(term)
    return f"{' + '.join(left)} {found[2]} {' + '.join(right)}" if left and right else text


def _operand(name: str) -> str:
    return f"({name})" if re.search(r"[-+*/ ]", name) else name


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
