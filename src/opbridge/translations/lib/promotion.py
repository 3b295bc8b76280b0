"""torch's type promotion, for what the callers of translations leave to them.

The tensors among a pointwise operator's arguments are of one type when its translation is called. What is left is the
numbers beside them, and operators that torch does not count among the pointwise ones, such as `cat`.
"""

from __future__ import annotations

import functools
from typing import Any

import onnx_ir as ir

from opbridge.translations.lib.dtypes import FLOATS, HALVES, UNSIGNED, cast, const, default_float, is_tensor

__all__ = ["promote", "result_type"]


def result_type(*values: Any) -> ir.DataType:
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
            dtype = functools.reduce(_common_type, group)
            if is_first or _category(dtype) > _category(result):
                result, is_first = dtype, False
    return result


def promote(*values: Any, dtype: ir.DataType | None = None) -> tuple[Any, ...]:
    """The values, numbers among them, as tensors of one type: `dtype`, or what torch promotes them to."""
    target = result_type(*values) if dtype is None else dtype
    return tuple(cast(value, target) if is_tensor(value) else const(value, target) for value in values)


def _number_type(number: Any) -> ir.DataType:
    if isinstance(number, bool):
        return ir.DataType.BOOL
    return ir.DataType.INT64 if isinstance(number, int) else default_float()


def _category(dtype: ir.DataType) -> int:
    return 0 if dtype == ir.DataType.BOOL else 2 if dtype in FLOATS else 1


def _common_type(left: ir.DataType, right: ir.DataType) -> ir.DataType:
    """The type of two values that count alike."""
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
