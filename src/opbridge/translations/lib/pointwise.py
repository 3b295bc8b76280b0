"""What translations of pointwise operators share."""

from __future__ import annotations

from typing import Any

from onnxscript import opset18 as op

from opbridge.translations.lib.dtypes import cast_like, is_float

__all__ = ["cosh_by_exp", "is_negative", "select"]


def cosh_by_exp(x: Any) -> Any:
    """The hyperbolic cosine, of types that runtimes have no kernel of ONNX's Cosh for."""
    return op.Mul(op.Add(op.Exp(x), op.Exp(op.Neg(x))), 0.5)


def is_negative(x: Any) -> Any:
    """Whether the sign bit is set: -0.0 counts, which no comparison tells from 0.0."""
    if not is_float(x):
        return op.Less(x, cast_like(0, x))
    return op.Or(op.Less(x, 0.0), op.Less(op.Reciprocal(x), 0.0))


def select(*cases: tuple[Any, Any], otherwise: Any) -> Any:
    """The value of the first case that holds; `cases` are pairs of condition and value."""
    result = otherwise
    for condition, value in reversed(cases):
        result = op.Where(condition, value, result)
    return result
