"""Conversions to the types of 8 bits, float8, as torch has them: what becomes of a number beyond the range.

ONNX's Cast gives the largest number of the type there (`saturate=1`), or an infinity or NaN (`saturate=0`).
"""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op
from onnxscript.values import Opset

from opbridge.translations.lib.conventions import conventions

__all__ = ["FLOAT8", "to_float8"]

FLOAT8 = frozenset(
    {
        ir.DataType.FLOAT8E4M3FN,
        ir.DataType.FLOAT8E4M3FNUZ,
        ir.DataType.FLOAT8E5M2,
        ir.DataType.FLOAT8E5M2FNUZ,
        ir.DataType.FLOAT8E8M0,
    }
)

_TO_INFINITY = 61440.0
"""The smallest number that is rounded to the infinity of FLOAT8E5M2, whose largest number is 57344."""

_LEAST_POWER = 2.0**-127
"""The smallest number of FLOAT8E8M0, which holds powers of two alone."""

_BEYOND_POWERS = 1.5 * 2.0**127
"""The smallest number that is rounded beyond FLOAT8E8M0."""


def to_float8(value: Any, dtype: ir.DataType) -> Any:
    """A value in a type of 8 bits, as torch's `.to(dtype)` converts it, from any type.

    Every type is converted by way of float32, as torch does it.
    """
    if value.dtype == dtype:
        return value
    if dtype == ir.DataType.FLOAT8E8M0:
        return _to_power(_as_float(value))
    if dtype == ir.DataType.FLOAT8E4M3FN and conventions().saturates_float8_e4m3fn:
        return op.Cast(value, to=dtype)
    if dtype == ir.DataType.FLOAT8E5M2 and value.dtype not in FLOAT8:
        # ONNX Runtime gives NaN, and not an infinity, for what is rounded up to the first number beyond the range.
        value = _as_float(value)
        value = op.Where(op.Abs(value) >= _TO_INFINITY, value * math.inf, value)
    return Opset("", 19).Cast(value, to=dtype, saturate=0)


def _to_power(value: Any) -> Any:
    """The nearest power of two, without the sign, as FLOAT8E8M0 has no sign, no zero and no infinity."""
    size = op.Abs(value)
    size = op.Where(size < _LEAST_POWER, _LEAST_POWER, size)
    size = op.Where(size >= _BEYOND_POWERS, math.nan, size)
    return Opset("", 24).Cast(size, to=ir.DataType.FLOAT8E8M0, round_mode="nearest")


def _as_float(value: Any) -> Any:
    return value if value.dtype == ir.DataType.FLOAT else op.Cast(value, to=ir.DataType.FLOAT)
