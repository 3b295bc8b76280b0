"""What the families of pointwise operators share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.common import FLOATS, HALVES

__all__ = [
    "UNSIGNED",
    "cast",
    "common_type",
    "is_float",
    "is_negative",
    "is_tensor",
    "number",
    "promoted",
    "typed",
    "widened",
]

UNSIGNED = frozenset({ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64})


def is_tensor(value: Any) -> bool:
    """Whether an argument is a value of the graph, as opposed to a Python number."""
    return isinstance(value, ir.Value)


def is_float(value: Any) -> bool:
    """Whether a value is of a floating type."""
    return value.dtype in FLOATS


def typed(value: Any, like: Any) -> Any:
    """A number or a tensor in the type of another value."""
    if like.dtype is None:
        return op.CastLike(value if is_tensor(value) else op.Constant(value=ir.tensor(value)), like)
    return cast(value, like.dtype) if is_tensor(value) else number(value, like.dtype)


def cast(value: Any, dtype: Any) -> Any:
    """A tensor in a type. torch.onnx does not tell the types of new values, so the result is told its own."""
    dtype = ir.DataType(dtype)
    if value.dtype == dtype:
        return value
    result = op.Cast(value, to=dtype)
    result.dtype = dtype
    return result


def number(value: Any, dtype: ir.DataType) -> Any:
    """A Python number as a scalar of the graph."""
    result = op.Constant(value=ir.Tensor(np.asarray(value).astype(dtype.numpy()), dtype=dtype))
    result.dtype = dtype
    return result


def common_type(*values: Any) -> ir.DataType:
    """The type that torch promotes values to: tensors count before scalar tensors, and these before numbers."""
    dimensioned = [value for value in values if is_tensor(value) and (value.shape is None or len(value.shape) > 0)]
    scalars = [value for value in values if is_tensor(value) and value.shape is not None and len(value.shape) == 0]
    result = ir.DataType.BOOL
    is_first = True
    for group in (
        [value.dtype for value in dimensioned],
        [value.dtype for value in scalars],
        [_number_type(value) for value in values if not is_tensor(value)],
    ):
        if group:
            dtype = functools.reduce(_promote, group)
            if is_first or _category(dtype) > _category(result):
                result, is_first = dtype, False
    return result


def promoted(*values: Any, dtype: ir.DataType | None = None) -> tuple[Any, ...]:
    """The values, numbers among them, as tensors of one type: `dtype`, or what torch promotes them to."""
    target = common_type(*values) if dtype is None else dtype
    return tuple(cast(value, target) if is_tensor(value) else number(value, target) for value in values)


def _number_type(number: Any) -> ir.DataType:
    if isinstance(number, bool):
        return ir.DataType.BOOL
    return ir.DataType.INT64 if isinstance(number, int) else ir.DataType.FLOAT


def _category(dtype: ir.DataType) -> int:
    return 0 if dtype == ir.DataType.BOOL else 2 if dtype in FLOATS else 1


def _promote(left: ir.DataType, right: ir.DataType) -> ir.DataType:
    if left == right:
        return left
    if _category(left) != _category(right):
        return max(left, right, key=_category)
    if left in FLOATS:
        wider = max(left, right, key=lambda dtype: dtype.bitwidth)
        return ir.DataType.FLOAT if wider in HALVES else wider
    if (left in UNSIGNED) == (right in UNSIGNED):
        return max(left, right, key=lambda dtype: dtype.bitwidth)
    unsigned, signed = (left, right) if left in UNSIGNED else (right, left)
    if signed.bitwidth > unsigned.bitwidth:
        return signed
    return {8: ir.DataType.INT16, 16: ir.DataType.INT32}.get(unsigned.bitwidth, ir.DataType.INT64)


def is_negative(x: Any) -> Any:
    """Whether the sign bit is set: -0.0 counts, which no comparison tells from 0.0."""
    if not is_float(x):
        return op.Less(x, typed(0, x))
    return op.Or(op.Less(x, 0.0), op.Less(op.Reciprocal(x), 0.0))


def widened(function: Callable[..., Any]) -> Callable[..., Any]:
    """A translation that computes 16-bit floating tensors in float32, as torch does inside one operator."""

    @functools.wraps(function)
    def wide(*args: Any, **kwargs: Any) -> Any:
        tensors = [value for value in (*args, *kwargs.values()) if is_tensor(value)]
        dtype = tensors[0].dtype if tensors else None
        if dtype not in HALVES:
            return function(*args, **kwargs)

        def widen(value: Any) -> Any:
            return cast(value, ir.DataType.FLOAT) if is_tensor(value) and value.dtype in HALVES else value

        result = function(*map(widen, args), **{name: widen(value) for name, value in kwargs.items()})
        return op.Cast(result, to=dtype)

    return wide
