"""Resizing of images of bytes in the fixed-point arithmetic of torch, exactly.

torch takes the weights of a dimension in double, multiplies them by a power of two and rounds them to 16 bits, sums up
the products with the bytes, and rounds each sum to a byte. So it goes for the columns, and then for the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.dtypes import cast, const

__all__ = ["along_columns", "along_rows"]

_DOUBLE = ir.DataType.DOUBLE
_MOST_DIGITS = 22
_LIMIT = 1 << 15


def along_columns(image: Any, weights: Any) -> Any:
    """The last dimension resized by weights of shape (out, length); whole numbers from 0 to 255, in double."""
    numbers, unit = _fixed_point(weights)
    return _as_bytes(op.MatMul(cast(image, _DOUBLE), op.Transpose(numbers, perm=[1, 0])), unit)


def along_rows(image: Any, weights: Any) -> Any:
    """The last dimension but one, likewise."""
    numbers, unit = _fixed_point(weights)
    return _as_bytes(op.MatMul(numbers, cast(image, _DOUBLE)), unit)


def _as_bytes(sums: Any, unit: Any) -> Any:
    """Sums of products, exact in double, rounded to bytes: halves upwards, and beyond the range to its ends."""
    return op.Clip(op.Floor(op.Add(op.Div(sums, unit), 0.5)), const(0.0, _DOUBLE), const(255.0, _DOUBLE))


def _fixed_point(weights: Any) -> tuple[Any, Any]:
    """The weights as whole numbers, in double, and what they are multiples of."""
    known = weights.const_value
    powers = 2.0 ** np.arange(1, _MOST_DIGITS + 1)
    if known is not None:
        array = known.numpy()
        fitting = np.floor(0.5 + array.max() * powers) < _LIMIT
        unit = 2.0 ** int(np.cumprod(fitting).sum())
        return const(np.trunc(array * unit + np.copysign(0.5, array)), _DOUBLE), const(unit, _DOUBLE)
    largest = op.ReduceMax(weights, keepdims=0)
    fitting = op.Less(op.Floor(op.Add(op.Mul(const(powers, _DOUBLE), largest), 0.5)), float(_LIMIT))
    unit = op.Pow(const(2.0, _DOUBLE), op.ReduceSum(cast(fitting, _DOUBLE), keepdims=0))
    scaled = op.Mul(weights, unit)
    return op.Mul(op.Sign(scaled), op.Floor(op.Add(op.Abs(scaled), 0.5))), unit
