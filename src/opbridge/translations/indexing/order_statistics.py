"""Medians, quantiles, modes and k-th values: reductions that sort."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.translations.lib.dims import axis_of, dim_of
from opbridge.translations.lib.dtypes import FLOATS, cast_like
from opbridge.translations.lib.ordering import last_position, sorted_positions, take_along_axis
from opbridge.translations.lib.reduce import is_any, marks
from opbridge.translations.lib.reshaping import reshape
from opbridge.translations.registry import builtin

_INT32, _INT64 = ir.DataType.INT32, ir.DataType.INT64


def _value_and_position(x: Any, position: Any, axis: int, keepdim: bool) -> tuple[Any, Any]:
    value = take_along_axis(x, position, axis)
    return (value, position) if keepdim else (op.Squeeze(value, [axis]), op.Squeeze(position, [axis]))


@builtin("aten::median")
def median(self):
    """median(Tensor self) -> Tensor"""
    if 0 in self.shape and self.dtype in FLOATS:
        return cast_like(math.nan, self)
    return median_dim(reshape(self, [-1]), 0)[0]


@builtin("aten::median.dim")
def median_dim(self, dim: int, keepdim: bool = False):
    """median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    if not self.shape:
        return op.Identity(self), op.Constant(value_int=0)
    axis = axis_of(dim, len(self.shape))
    # The lower one of the two in the middle.
    middle = (dim_of(self, axis) + 1) // 2
    position = last_position(sorted_positions(self, axis, first=middle), axis)
    if self.dtype in FLOATS:
        first_nan = op.ArgMax(op.Cast(op.IsNaN(self), to=_INT32), axis=axis)
        position = op.Where(op.IsNaN(take_along_axis(self, first_nan, axis)), first_nan, position)
    return _value_and_position(self, position, axis, keepdim)


@builtin("aten::nanmedian")
def nanmedian(self):
    """nanmedian(Tensor self) -> Tensor"""
    if 0 in self.shape and self.dtype in FLOATS:
        return cast_like(math.nan, self)
    return nanmedian_dim(reshape(self, [-1]), 0)[0]


@builtin("aten::nanmedian.dim")
def nanmedian_dim(self, dim: int, keepdim: bool = False):
    """nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    if self.dtype not in FLOATS or not self.shape:
        return median_dim(self, dim, keepdim)
    axis = axis_of(dim, len(self.shape))
    numbers = op.ReduceSum(op.Cast(op.Not(op.IsNaN(self)), to=_INT64), [axis])
    # Where there are only nans, the first of them.
    middle = op.Max(op.Div(numbers - 1, 2), 0)
    return _value_and_position(self, take_along_axis(sorted_positions(self, axis), middle, axis), axis, keepdim)


@builtin("aten::kthvalue")
def kthvalue(self, k, dim: int = -1, keepdim: bool = False):
    """kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    if not self.shape:
        return op.Identity(self), op.Constant(value_int=0)
    axis = axis_of(dim, len(self.shape))
    return _value_and_position(self, last_position(sorted_positions(self, axis, first=k), axis), axis, keepdim)


@builtin("aten::mode")
def mode(self, dim: int = -1, keepdim: bool = False):
    """mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    if not self.shape:
        return op.Identity(self), op.Constant(value_int=0)
    axis = axis_of(dim, len(self.shape))
    equal = op.Equal(op.Unsqueeze(self, [axis + 1]), op.Unsqueeze(self, [axis]))
    counts = op.ReduceSum(op.Cast(equal, to=_INT64), [axis + 1], keepdims=0)
    most = op.Equal(counts, op.ReduceMax(counts, [axis]))
    # Of several values the smallest, and of that the last occurrence.
    if self.dtype == ir.DataType.BOOL:
        x, highest = op.Cast(self, to=_INT32), 1.0
    elif self.dtype in FLOATS:
        x, highest = self, math.inf
    else:
        x, highest = self, int(np.iinfo(self.dtype.numpy()).max)
    smallest = op.ReduceMin(op.Where(most, x, highest), [axis])
    position = op.ArgMax(op.Cast(op.Equal(x, smallest), to=_INT32), axis=axis, select_last_index=1)
    return _value_and_position(self, position, axis, keepdim)


# Quantiles


@builtin("aten::quantile", "aten::quantile.scalar")
def quantile(self, q, dim: int | None = None, keepdim: bool = False, interpolation: str = "linear"):
    """quantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation="linear") -> Tensor"""
    return _quantile(self, q, dim, keepdim, interpolation, ignore_nan=False)


@builtin("aten::nanquantile", "aten::nanquantile.scalar")
def nanquantile(self, q, dim: int | None = None, keepdim: bool = False, interpolation: str = "linear"):
    """nanquantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation="linear") -> Tensor"""
    return _quantile(self, q, dim, keepdim, interpolation, ignore_nan=True)


def _quantile(x: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str, *, ignore_nan: bool) -> Any:
    rank = len(x.shape)
    flat = reshape(x, [-1]) if dim is None or rank == 0 else x
    axis = 0 if dim is None or rank == 0 else axis_of(dim, len(x.shape))
    in_order = take_along_axis(flat, sorted_positions(flat, axis), axis)
    is_nan = op.IsNaN(flat)
    if ignore_nan:
        numbers = op.ReduceSum(op.CastLike(op.Not(is_nan), flat), [axis])
        # Without any number the place is that of a nan.
        highest = op.Max(numbers - 1.0, 0.0)
    else:
        last = dim_of(flat, axis) - 1
        highest = float(int(last)) if last.is_known else op.CastLike(last.value, flat)
    one_q = not isinstance(q, ir.Value) or not q.shape
    levels = op.Reshape(cast_like(q, flat), [-1])
    # Each slice gets its places along the axis, one for each level.
    others = [other for other in range(len(flat.shape)) if other != axis]
    places = (op.Unsqueeze(levels, others) if others else levels) * highest
    if not ignore_nan:
        any_nan = is_any(op.ReduceMax(marks(is_nan), [axis]))
        # A nan is the last in order, and the quantile then.
        places = op.Where(any_nan, highest, places)
    result = _interpolate_in_order(in_order, places, axis, interpolation, broadcast=not ignore_nan)
    if dim is None:
        # (levels,) -> (levels, 1, ..., 1), or without the axes that are not kept
        kept = [1] * rank if keepdim else []
        return op.Reshape(result, kept if one_q else [-1, *kept])
    if one_q:
        return op.Squeeze(result, [axis]) if not keepdim or rank == 0 else result
    if rank == 0:
        return result
    front = op.Transpose(result, perm=[axis, *others])
    return op.Unsqueeze(front, [axis + 1]) if keepdim else front


def _interpolate_in_order(in_order: Any, places: Any, axis: int, interpolation: str, *, broadcast: bool) -> Any:
    def at(places: Any) -> Any:
        return take_along_axis(in_order, op.Cast(places, to=_INT64), axis)

    if interpolation == "nearest":
        return at(op.Round(places))
    if interpolation == "lower":
        return at(op.Floor(places))
    if interpolation == "higher":
        return at(op.Ceil(places))
    if interpolation not in ("linear", "midpoint"):
        raise TranslationError(f"quantile: unknown interpolation '{interpolation}'.")
    low_place = op.Floor(places)
    low, high = at(low_place), at(op.Ceil(places))
    gap = high - low
    if interpolation == "midpoint":
        return high - gap * 0.5
    weight = places - low_place
    return op.Where(weight < 0.5, low + weight * gap, high - gap * (1.0 - weight))
