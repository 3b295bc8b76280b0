"""Arithmetic over the sizes of a node's inputs, as text: `(x[0] + 1023) // 1024`.

A number that a model computes of sizes is an attribute of the node in this form, which the library computes at each
call. A name with an index is a size of that input. There are integers, `+`, `-`, `*`, `//`, `%`, `min`, `max` and
parentheses; several numbers are separated by commas. The library's side is `opbridge/adapter/expressions.h`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

import torch

__all__ = ["evaluated", "text_of"]


def text_of(number: Any, sizes: Sequence[tuple[str, Any]]) -> str | None:
    """A number as text; None where it cannot be told from these sizes.

    Args:
        number: An int, or a SymInt.
        sizes: What there is to tell it from: the text of a size, and the size.
    """
    if not isinstance(number, torch.SymInt):
        return str(int(number))
    known: dict[Any, str] = {}
    for text, size in sizes:
        if isinstance(size, torch.SymInt) and not size.node.expr.is_number:
            known.setdefault(size.node.expr, text)
    printed = _printed(number.node.expr, known)
    return None if printed is None else printed[0]


_SUM, _PRODUCT, _WHOLE = range(3)
"""How tightly a text holds together: it stands in parentheses where more is asked for."""


def _printed(expression: Any, known: Mapping[Any, str]) -> tuple[str, int] | None:
    """The text of an expression, and how tightly it holds together."""
    if expression in known:
        return known[expression], _WHOLE
    if expression.is_Integer:
        return (str(int(expression)), _WHOLE) if int(expression) >= 0 else (f"0 - {-int(expression)}", _SUM)
    parts = [part for part in (_printed(each, known) for each in expression.args) if part is not None]
    if not parts or len(parts) < len(expression.args):
        return None

    def join(sign: str, *given: tuple[str, int], level: int = _PRODUCT) -> tuple[str, int]:
        first, *rest = given
        texts = [_held(first, level), *(_held(each, level + 1) for each in rest)]
        return sign.join(texts), level

    name = type(expression).__name__
    if expression.is_Add:
        return join(" + ", *sorted(parts, key=lambda part: (part[0].isdecimal(), part)), level=_SUM)
    if expression.is_Mul:
        return join(" * ", *sorted(parts, key=lambda part: (not part[0].isdecimal(), part)))
    if expression.is_Pow and expression.args[1].is_Integer and 0 < int(expression.args[1]) < 9:
        return join(" * ", *[parts[0]] * int(expression.args[1]))
    if name in ("FloorDiv", "CleanDiv"):
        return join(" // ", *parts)
    if name in ("Mod", "PythonMod"):
        return join(" % ", *parts)
    if name in ("Max", "Min"):
        text = parts[0][0]
        for each, _ in parts[1:]:
            text = f"{name.lower()}({text}, {each})"
        return text, _WHOLE
    return None


def _held(part: tuple[str, int], level: int) -> str:
    return part[0] if part[1] >= level else f"({part[0]})"


def evaluated(text: str, sizes: Mapping[str, Sequence[Any]]) -> tuple[Any, ...]:
    """The numbers that such a text stands for.

    Args:
        text: The text.
        sizes: The sizes of each input, by its name. They may be symbolic.

    Raises:
        ValueError: It is not such a text.
    """
    try:
        body = ast.parse(f"({text},)" if text else "()", mode="eval").body
        return tuple(_value(item, sizes) for item in (body.elts if isinstance(body, ast.Tuple) else [body]))
    except (SyntaxError, KeyError, AttributeError, IndexError) as error:
        raise ValueError(f"'{text}' is no arithmetic over the sizes of {', '.join(sizes)}") from error


_OPERATIONS: dict[type, Any] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}
_FUNCTIONS = {"min": torch.sym_min, "max": torch.sym_max}


def _value(tree: ast.AST, sizes: Mapping[str, Sequence[Any]]) -> Any:
    match tree:
        case ast.Constant(value=int(number)):
            return number
        case ast.BinOp(left=left, op=operation, right=right):
            return _OPERATIONS[type(operation)](_value(left, sizes), _value(right, sizes))
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=int(axis))):
            return sizes[name][axis]
        case ast.Call(func=ast.Name(id=name), args=[left, right]):
            return _FUNCTIONS[name](_value(left, sizes), _value(right, sizes))
    raise ValueError(f"'{ast.unparse(tree)}' is no part of such arithmetic")
