"""Running sums, products, extremes and log-sums.

Of these ONNX has CumSum only. The others are built of whole-tensor operators, in one of two ways: for few or
an unknown number of elements each prefix is laid out in a row of its own and reduced; for many, results over 1, 2, 4
and more elements are combined.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.elementwise.extremes import amax, amin
from opbridge.translations.lib.dims import axis_of, dim_of, positions
from opbridge.translations.lib.dtypes import FLOATS, cast_like, const, widen
from opbridge.translations.lib.integer_reductions import product_over_axis
from opbridge.translations.lib.reduce import cast_for_sum
from opbridge.translations.lib.reshaping import unsqueeze_around
from opbridge.translations.registry import builtin

_FEW = 32
_INT64 = ir.DataType.INT64


@builtin("aten::cumsum")
def cumsum(self, dim: int, dtype=None):
    """cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"""
    x = cast_for_sum(self, dtype)
    return op.CumSum(x, axis_of(dim, len(self.shape))) if self.shape else op.Identity(x)


@builtin("aten::cumprod")
def cumprod(self, dim: int, dtype=None):
    """cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"""
    x = widen(cast_for_sum(self, dtype))
    if not self.shape:
        return op.Identity(x)
    axis = axis_of(dim, len(self.shape))

    def of_rows(rows: Any) -> Any:
        if x.dtype == _INT64:
            return product_over_axis(rows, axis + 1, len(self.shape) + 1, self.shape[axis])
        return op.ReduceProd(rows, [axis + 1], keepdims=0)

    return _running(x, self, axis, 1, of_rows, op.Mul)


@builtin("aten::logcumsumexp")
def logcumsumexp(self, dim: int):
    """logcumsumexp(Tensor self, int dim) -> Tensor"""
    if not self.shape:
        return op.Identity(self)
    axis = axis_of(dim, len(self.shape))

    def combine(one: Any, other: Any) -> Any:
        # Of two equal terms the difference is not taken, since inf - inf would be nan.
        sum_of_two = op.Max(one, other) + op.Log(op.Exp(-op.Abs(one - other)) + 1.0)
        return op.Where(op.Equal(one, other), one + math.log(2.0), sum_of_two)

    def of_rows(rows: Any) -> Any:
        return op.ReduceLogSumExp(rows, [axis + 1], keepdims=0)

    return _running(widen(self), self, axis, -math.inf, of_rows, combine)


@builtin("aten::cummax")
def cummax(self, dim: int):
    """cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)"""
    return _running_extreme(self, dim, largest=True)


@builtin("aten::cummin")
def cummin(self, dim: int):
    """cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)"""
    return _running_extreme(self, dim, largest=False)


def _running_extreme(x: Any, dim: int, *, largest: bool) -> tuple[Any, Any]:
    """The running extreme, a nan being one too, and the position of its last occurrence so far."""
    if not x.shape:
        return op.Identity(x), op.Constant(value_int=0)
    axis = axis_of(dim, len(x.shape))
    if x.dtype == ir.DataType.BOOL:
        bytes_ = op.Cast(x, to=ir.DataType.UINT8)
        bytes_.shape = x.shape
        values, indices = _running_extreme(bytes_, dim, largest=largest)
        return op.Cast(values, to=ir.DataType.BOOL), indices
    values = _running(
        x,
        x,
        axis,
        _neutral_for_extreme(x.dtype, largest),
        lambda rows: (amax if largest else amin)(_with_rank(rows, len(x.shape) + 1), axis + 1),
        op.Max if largest else op.Min,
    )
    reached = op.Equal(x, values)
    if x.dtype in FLOATS:
        reached = op.Or(reached, op.IsNaN(x))
    own = unsqueeze_around(positions(dim_of(x, axis)), axis, len(x.shape))
    places = op.Where(reached, own, 0)
    return values, _running(places, x, axis, 0, lambda rows: op.ReduceMax(rows, [axis + 1], keepdims=0), op.Max)


def _running(
    x: Any,
    like: Any,
    axis: int,
    neutral: Any,
    of_rows: Callable[[Any], Any],
    combine: Callable[[Any, Any], Any],
) -> Any:
    """What `combine` makes of the elements up to each one.

    Args:
        x: The elements.
        like: A value of the same sizes, which are known.
        axis: The axis that is run along.
        neutral: An element that changes nothing.
        of_rows: Reduces axis + 1 of a tensor that has one more axis.
        combine: Makes one result of two.
    """
    rank = len(like.shape)
    length = dim_of(like, axis)
    if length.is_known and length > _FEW:
        step = 1
        while step < length:
            pads = const([step, -step], np.int64)
            x = combine(x, op.Pad(x, pads, cast_like(neutral, x), [axis]))
            step *= 2
        return x
    places = positions(length)
    before = op.GreaterOrEqual(op.Unsqueeze(places, [1]), places)
    mask = op.Unsqueeze(before, [*range(axis), *range(axis + 2, rank + 1)]) if rank > 1 else before
    return of_rows(op.Where(mask, op.Unsqueeze(x, [axis]), neutral))


def _with_rank(x: Any, rank: int) -> Any:
    x.shape = ir.Shape([None] * rank)
    return x


def _neutral_for_extreme(dtype: Any, largest: bool) -> Any:
    """The element that loses against every other."""
    if dtype in FLOATS:
        return -math.inf if largest else math.inf
    limits = np.iinfo(dtype.numpy())
    return int(limits.min if largest else limits.max)
