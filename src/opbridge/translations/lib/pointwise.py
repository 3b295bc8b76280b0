"""What translations of pointwise operators share."""

from __future__ import annotations

from typing import Any

from onnxscript import opset18 as op

from opbridge.translations.lib.dtypes import cast_like, is_float

__all__ = ["cosh_by_exp", "is_negative", "select", "with_sign_of_zero"]


def cosh_by_exp(x: Any) -> Any:
    """The hyperbolic cosine, of types that runtimes have no kernel of ONNX's Cosh for."""
    return op.Mul(op.Add(op.Exp(x), op.Exp(op.Neg(x))), 0.5)


def is_negative(x: Any) -> Any:
    """Whether the sign bit is set: -0.0 counts, which no comparison tells from 0.0; see `with_sign_of_zero`."""
    if not is_float(x) or _is_sum(x):
        return op.Less(x, cast_like(0, x))
    return op.Or(op.Less(x, 0.0), op.Less(op.Reciprocal(x), 0.0))


def with_sign_of_zero(x: Any) -> Any:
    """The same numbers, with 0.0 where a sum of ONNX Runtime's is -0.0.

    It is where all that is added is -0.0. A sum of PyTorch's starts from 0.0, and never is.
    """
    return op.Where(op.Equal(x, cast_like(0, x)), cast_like(0, x), x) if _is_sum(x) else x


def _is_sum(x: Any) -> bool:
    node = x.producer()
    while node is not None and node.op_type == "Cast":
        node = node.inputs[0].producer()
    return node is not None and node.op_type == "ReduceSum" and not node.domain


def select(*cases: tuple[Any, Any], otherwise: Any) -> Any:
    """The value of the first case that holds; `cases` are pairs of condition and value."""
    result = otherwise
    for condition, value in reversed(cases):
        result = op.Where(condition, value, result)
    return result
