"""Comparisons, logic, bits, bounds and choices."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.dtypes import cast, cast_like, is_float, is_tensor
from opbridge.translations.lib.promotion import promote, result_type
from opbridge.translations.registry import builtin

_BOOL, _INT64, _UINT64 = ir.DataType.BOOL, ir.DataType.INT64, ir.DataType.UINT64

# Comparisons


@builtin("aten::eq.Tensor", "aten::eq.Scalar")
def eq(self, other):
    """eq.Tensor(Tensor self, Tensor other) -> Tensor"""
    return op.Equal(*promote(self, other))


@builtin("aten::ne.Tensor", "aten::ne.Scalar", "aten::not_equal.Tensor", "aten::not_equal.Scalar")
def ne(self, other):
    """ne.Tensor(Tensor self, Tensor other) -> Tensor"""
    return op.Not(op.Equal(*promote(self, other)))


@builtin("aten::lt.Tensor", "aten::lt.Scalar", "aten::less.Tensor", "aten::less.Scalar")
def lt(self, other):
    """lt.Tensor(Tensor self, Tensor other) -> Tensor"""
    return op.Less(*_ordered(self, other))


@builtin("aten::le.Tensor", "aten::le.Scalar", "aten::less_equal.Tensor", "aten::less_equal.Scalar")
def le(self, other):
    """le.Tensor(Tensor self, Tensor other) -> Tensor"""
    return op.LessOrEqual(*_ordered(self, other))


@builtin("aten::gt.Tensor", "aten::gt.Scalar", "aten::greater.Tensor", "aten::greater.Scalar")
def gt(self, other):
    """gt.Tensor(Tensor self, Tensor other) -> Tensor"""
    return op.Greater(*_ordered(self, other))


@builtin("aten::ge.Tensor", "aten::ge.Scalar", "aten::greater_equal.Tensor", "aten::greater_equal.Scalar")
def ge(self, other):
    """ge.Tensor(Tensor self, Tensor other) -> Tensor"""
    return op.GreaterOrEqual(*_ordered(self, other))


def _ordered(x: Any, y: Any) -> tuple[Any, ...]:
    """Two values in a type that has an order: ONNX gives none to bool."""
    dtype = result_type(x, y)
    return promote(x, y, dtype=ir.DataType.INT32 if dtype == _BOOL else dtype)


@builtin("aten::isclose")
def isclose(self, other, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False):
    """isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor"""
    x, y = promote(self, other)
    is_same = op.Equal(x, y)
    if equal_nan and is_float(x):
        is_same = op.Or(is_same, op.And(op.IsNaN(x), op.IsNaN(y)))
    if not is_float(x):
        x, y = promote(x, y, dtype=ir.DataType.FLOAT)
    gap = op.Abs(op.Sub(x, y))
    is_near = op.LessOrEqual(gap, op.Add(op.Abs(op.Mul(y, rtol)), atol))
    return op.Or(is_same, op.And(is_near, op.Less(gap, cast_like(math.inf, gap))))


# Logic and bits


@builtin("aten::logical_not")
def logical_not(self):
    """logical_not(Tensor self) -> Tensor"""
    return op.Not(cast(self, _BOOL))


@builtin("aten::logical_and")
def logical_and(self, other):
    """logical_and(Tensor self, Tensor other) -> Tensor"""
    return op.And(cast(self, _BOOL), cast(other, _BOOL))


@builtin("aten::logical_or")
def logical_or(self, other):
    """logical_or(Tensor self, Tensor other) -> Tensor"""
    return op.Or(cast(self, _BOOL), cast(other, _BOOL))


@builtin("aten::logical_xor")
def logical_xor(self, other):
    """logical_xor(Tensor self, Tensor other) -> Tensor"""
    return op.Xor(cast(self, _BOOL), cast(other, _BOOL))


@builtin("aten::bitwise_not")
def bitwise_not(self):
    """bitwise_not(Tensor self) -> Tensor"""
    return op.Not(self) if self.dtype == _BOOL else op.BitwiseNot(self)


@builtin(
    "aten::bitwise_and.Tensor",
    "aten::bitwise_and.Scalar",
    "aten::bitwise_and.Scalar_Tensor",
    "aten::__and__.Tensor",
    "aten::__and__.Scalar",
)
def bitwise_and(self, other):
    """bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor"""
    x, y = promote(self, other)
    return op.And(x, y) if x.dtype == _BOOL else op.BitwiseAnd(x, y)


@builtin(
    "aten::bitwise_or.Tensor",
    "aten::bitwise_or.Scalar",
    "aten::bitwise_or.Scalar_Tensor",
    "aten::__or__.Tensor",
    "aten::__or__.Scalar",
)
def bitwise_or(self, other):
    """bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor"""
    x, y = promote(self, other)
    return op.Or(x, y) if x.dtype == _BOOL else op.BitwiseOr(x, y)


@builtin(
    "aten::bitwise_xor.Tensor",
    "aten::bitwise_xor.Scalar",
    "aten::bitwise_xor.Scalar_Tensor",
    "aten::__xor__.Tensor",
    "aten::__xor__.Scalar",
)
def bitwise_xor(self, other):
    """bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor"""
    x, y = promote(self, other)
    return op.Xor(x, y) if x.dtype == _BOOL else op.BitwiseXor(x, y)


@builtin(
    "aten::bitwise_left_shift.Tensor",
    "aten::bitwise_left_shift.Tensor_Scalar",
    "aten::bitwise_left_shift.Scalar_Tensor",
    "aten::__lshift__.Tensor",
    "aten::__lshift__.Scalar",
)
def left_shift(self, other):
    """bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor"""
    dtype = result_type(self, other)
    x, count = (cast(each, _INT64) for each in promote(self, other))
    is_possible = _is_shift(count, dtype.bitwidth)
    safe = op.Where(is_possible, count, cast_like(0, count))
    shifted = op.BitShift(cast(x, _UINT64), cast(safe, _UINT64), direction="LEFT")
    return cast(op.Where(is_possible, cast(shifted, _INT64), cast_like(0, x)), dtype)


@builtin(
    "aten::bitwise_right_shift.Tensor",
    "aten::bitwise_right_shift.Tensor_Scalar",
    "aten::bitwise_right_shift.Scalar_Tensor",
    "aten::__rshift__.Tensor",
    "aten::__rshift__.Scalar",
)
def right_shift(self, other):
    """bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor"""
    dtype = result_type(self, other)
    x, count = (cast(each, _INT64) for each in promote(self, other))
    # Past the width only the sign is left; a negative count is a large one.
    count = op.Where(_is_shift(count, 63), count, cast_like(63, count))
    # A shift of the bits alone fills with zeros; of a negative number the inverted bits are shifted.
    is_negative = op.Less(x, 0)
    bits = cast(op.Where(is_negative, op.BitwiseNot(x), x), _UINT64)
    shifted = cast(op.BitShift(bits, cast(count, _UINT64), direction="RIGHT"), _INT64)
    return cast(op.Where(is_negative, op.BitwiseNot(shifted), shifted), dtype)


def _is_shift(count: Any, width: int) -> Any:
    """Whether a number of bits lies in the width of a type."""
    return op.And(op.GreaterOrEqual(count, 0), op.Less(count, width))


# Bounds


@builtin("aten::maximum", "aten::max.other")
def maximum(self, other):
    """maximum(Tensor self, Tensor other) -> Tensor"""
    x, y = promote(self, other)
    return op.Or(x, y) if x.dtype == _BOOL else op.Max(x, y)


@builtin("aten::minimum", "aten::min.other")
def minimum(self, other):
    """minimum(Tensor self, Tensor other) -> Tensor"""
    x, y = promote(self, other)
    return op.And(x, y) if x.dtype == _BOOL else op.Min(x, y)


@builtin("aten::fmax")
def fmax(self, other):
    """fmax(Tensor self, Tensor other) -> Tensor"""
    return _choose_number(self, other, maximum)


@builtin("aten::fmin")
def fmin(self, other):
    """fmin(Tensor self, Tensor other) -> Tensor"""
    return _choose_number(self, other, minimum)


def _choose_number(x: Any, y: Any, choose: Any) -> Any:
    """The choice between two tensors, of which a nan is never chosen over a number."""
    x, y = promote(x, y)
    if not is_float(x):
        return choose(x, y)
    return op.Where(op.IsNaN(x), y, op.Where(op.IsNaN(y), x, choose(x, y)))


@builtin("aten::clamp", "aten::clip", "aten::clamp.Tensor", "aten::clip.Tensor")
def clamp(self, min=None, max=None):
    """clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor"""
    bounds = [bound for bound in (min, max) if bound is not None]
    dtype = result_type(self, *bounds)
    if not dtype.is_floating_point() and dtype != _BOOL:
        # A number beyond the type's range bounds nothing.
        reach = np.iinfo(dtype.numpy())
        min, max = (_within(bound, int(reach.min), int(reach.max)) for bound in (min, max))
        bounds = [bound for bound in (min, max) if bound is not None]
    x, *limits = promote(self, *bounds, dtype=ir.DataType.INT32 if dtype == _BOOL else dtype)
    if len(bounds) == 2 and not any(map(is_tensor, bounds)) and not any(map(math.isnan, bounds)):
        return cast(op.Clip(x, *limits), dtype)
    if min is not None:
        x = op.Max(x, limits[0])
    if max is not None:
        x = op.Min(x, limits[-1])
    return cast(x, dtype)


def _within(bound: Any, lowest: int, highest: int) -> Any:
    """A bound brought into the range of a type of integers."""
    if bound is None:
        return None
    if not is_tensor(bound):
        return builtins.min(builtins.max(bound, lowest), highest)
    if bound.dtype != _INT64:
        return bound
    return op.Min(op.Max(bound, cast_like(lowest, bound)), cast_like(highest, bound))


@builtin("aten::clamp_min", "aten::clamp_min.Tensor")
def clamp_min(self, min):
    """clamp_min(Tensor self, Scalar min) -> Tensor"""
    return clamp(self, min, None)


@builtin("aten::clamp_max", "aten::clamp_max.Tensor")
def clamp_max(self, max):
    """clamp_max(Tensor self, Scalar max) -> Tensor"""
    return clamp(self, None, max)


@builtin("aten::threshold")
def threshold(self, threshold, value):
    """threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor"""
    if self.dtype in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16) and isinstance(threshold, (int, float)):
        threshold = _rounded_down(threshold, self.dtype)
    return op.Where(op.LessOrEqual(self, cast_like(threshold, self)), cast_like(value, self), self)


def _rounded_down(number: float, dtype: ir.DataType) -> float:
    """The largest number of a dtype of 16 bits that is at most this one: PyTorch compares such tensors as float32."""
    exact = np.float32(number)
    rounded = exact.astype(dtype.numpy())
    below = np.nextafter(rounded, np.asarray(-np.inf, dtype.numpy())) if rounded.astype(np.float32) > exact else rounded
    return float(below)


# Choices


@builtin("aten::where.self", "aten::where.Scalar", "aten::where.ScalarSelf", "aten::where.ScalarOther")
def where(condition, self, other):
    """where.self(Tensor condition, Tensor self, Tensor other) -> Tensor"""
    return choose(condition, *promote(self, other))


@builtin("aten::masked_fill.Scalar", "aten::masked_fill.Tensor")
def masked_fill(self, mask, value):
    """masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor"""
    return choose(mask, cast_like(value, self), self)


def choose(condition: Any, x: Any, y: Any) -> Any:
    """Where, of bool tensors too, for which it has no kernel."""
    condition = cast(condition, _BOOL)
    if x.dtype != _BOOL:
        return op.Where(condition, x, y)
    return op.Or(op.And(condition, x), op.And(op.Not(condition), y))
