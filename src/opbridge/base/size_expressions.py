"""Expressions of sizes, such as "2*batch + 1": evaluated and solved without ever running them as code."""

from __future__ import annotations

import ast
import functools
import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["evaluate", "holds", "is_known", "solve"]

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


def evaluate(expression: str, sizes: Mapping[str, int]) -> int:
    """The value of an expression of sizes, "2*batch + 1".

    Args:
        expression: Integers, symbols, arithmetic, comparisons, and functions as sympy writes them (Max, FloorDiv).
        sizes: The size of each symbol. The whole expression may be a symbol too.

    Raises:
        ValueError: It is no such expression, a symbol has no size, or the value is no integer.
    """
    if expression in sizes:
        return sizes[expression]
    value = _evaluated(_parsed(expression), sizes)
    if value != int(value):
        raise ValueError(f"{expression} is no whole number")
    return int(value)


def holds(condition: str, sizes: Mapping[str, int]) -> bool:
    """Whether a condition such as "(s77 % 2) == 0" holds.

    Raises:
        ValueError: It cannot be evaluated.
        TypeError: It cannot be evaluated.
    """
    return bool(_evaluated(_parsed(condition), sizes))


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
            raise ValueError("the exponent is out of range")
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
    """The symbols of an expression; the whole text where it is none, as ONNX allows any name for a dimension."""
    try:
        tree = _parsed(expression)
    except ValueError:
        return {expression}
    calls = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node not in calls}
    return names or {expression}


def is_known(expression: str, sizes: Mapping[str, int]) -> bool:
    """Whether an expression can be evaluated with these sizes."""
    try:
        evaluate(expression, sizes)
    except (ValueError, TypeError):
        return False
    return True


def solve(equations: Sequence[tuple[str, int]]) -> dict[str, int]:
    """The size of each symbol, from expressions with known values.

    Single symbols are solved first, then expressions in which one symbol is unknown. Symbols that cannot be determined
    are left out.

    Args:
        equations: Expressions and their values.
    """
    sizes: dict[str, int] = {}
    for dim, size in equations:
        if dim.isidentifier() or _symbols(dim) == {dim}:
            sizes.setdefault(dim, size)
    changed = True
    while changed:
        changed = False
        for dim, size in equations:
            unknown = [symbol for symbol in _symbols(dim) if symbol not in sizes]
            if len(unknown) != 1 or dim in sizes:
                continue
            found = _solution(dim, unknown[0], size, sizes)
            if found is not None:
                sizes[unknown[0]] = found
                changed = True
    for dim, size in equations:
        # "batch-size" is a name if there are no dimensions batch and size.
        if not is_known(dim, sizes) and not any(symbol in sizes for symbol in _symbols(dim)):
            sizes.setdefault(dim, size)
    return sizes


def _solution(expression: str, symbol: str, wanted: int, sizes: Mapping[str, int]) -> int | None:
    """The smallest size of a symbol for which an expression has a value; None if none is found."""
    for candidate in range(min(2 * wanted + 64, _LARGEST_SOLUTION)):
        try:
            if evaluate(expression, {**sizes, symbol: candidate}) == wanted:
                return candidate
        except (ValueError, TypeError):
            continue
    return None
