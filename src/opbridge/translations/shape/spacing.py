"""The distance to the next floating-point number."""

from __future__ import annotations

import math

import ml_dtypes
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.dtypes import cast_like
from opbridge.translations.lib.pointwise import select
from opbridge.translations.registry import builtin

_DOUBLE = ir.DataType.DOUBLE


@builtin("aten::nextafter")
def nextafter(self, other):
    """nextafter(Tensor self, Tensor other) -> Tensor"""
    format_ = ml_dtypes.finfo(self.dtype.numpy())
    lowest = int(format_.minexp)
    x, towards = op.Cast(self, to=_DOUBLE), op.Cast(other, to=_DOUBLE)
    magnitude = op.Abs(x)
    two = cast_like(2.0, x)
    # The power of two at or below the magnitude: log2 may be one off, and 2 ** k is exact.
    exponent = op.Floor(op.Log(op.Clip(magnitude, 1e-323, 1e308)) * (1.0 / math.log(2.0)))
    exponent = op.Where(op.Pow(two, exponent) > magnitude, exponent - 1.0, exponent)
    exponent = op.Where(op.Pow(two, exponent + 1.0) <= magnitude, exponent + 1.0, exponent)
    exponent = op.Max(exponent, float(lowest))
    power = op.Pow(two, exponent)
    gap = op.Pow(two, exponent - float(format_.nmant))
    # Below a power of two the numbers lie twice as close.
    below = op.Where(op.And(op.Equal(magnitude, power), exponent > float(lowest)), gap * 0.5, gap)
    grows = op.Equal(towards > x, x > 0.0)
    moved = op.Where(grows, magnitude + gap, magnitude - below)
    moved = op.Where(op.IsInf(x), float(format_.max), moved)
    smallest = float(format_.smallest_subnormal)
    result = select(
        (op.Or(op.IsNaN(x), op.IsNaN(towards)), math.nan),
        (op.Equal(x, towards), towards),
        (op.Equal(x, 0.0), op.Where(towards > 0.0, smallest, cast_like(-smallest, x))),
        otherwise=op.Where(x < 0.0, -moved, moved),
    )
    return op.Cast(result, to=self.dtype)
