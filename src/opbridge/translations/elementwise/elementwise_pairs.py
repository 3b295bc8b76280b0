"""Pointwise operators of two and three tensors that are no plain arithmetic."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir
from onnxscript import INT64, script
from onnxscript import opset18 as op

from opbridge.translations.elementwise.elementwise import arc_tangent
from opbridge.translations.lib.dtypes import cast, cast_like, computed_in_float32, is_number, is_tensor
from opbridge.translations.lib.pointwise import is_negative, with_sign_of_zero
from opbridge.translations.registry import builtin


@builtin("aten::atan2", "aten::arctan2")
@computed_in_float32
def atan2(self, other):
    """atan2(Tensor self, Tensor other) -> Tensor"""
    y, x = with_sign_of_zero(self), with_sign_of_zero(other)
    # y / x has no value where both are 0 or both are infinite: there the ratio is that of the signs.
    is_same = op.Equal(op.Abs(y), op.Abs(x))
    ratio = op.Where(is_same, op.Mul(op.Sign(y), op.Sign(x)), op.Div(y, x))
    half_turn = _copysign(cast_like(math.pi, y), y)
    angle = op.Add(arc_tangent(ratio), op.Where(is_negative(x), half_turn, cast_like(0.0, y)))
    # 0 and -0.0, which a sum cannot keep apart.
    return op.Where(op.Equal(angle, 0.0), op.Mul(y, 0.0), angle)


@builtin("aten::copysign.Tensor")
def copysign(self, other):
    """copysign.Tensor(Tensor self, Tensor other) -> Tensor"""
    return _copysign(self, other)


@builtin("aten::copysign.Scalar")
def copysign_scalar(self, other):
    """copysign.Scalar(Tensor self, Scalar other) -> Tensor"""
    if is_tensor(other):
        return _copysign(self, cast_like(other, self))
    size = op.Abs(self)
    return op.Neg(size) if math.copysign(1.0, other) < 0 else size


def _copysign(x: Any, sign: Any) -> Any:
    size = op.Abs(x)
    return op.Where(is_negative(sign), op.Neg(size), size)


@builtin("aten::heaviside")
def heaviside(self, values):
    """heaviside(Tensor self, Tensor values) -> Tensor"""
    if self.dtype == ir.DataType.BOOL:
        return op.Or(self, values)
    return op.Where(op.Equal(self, cast_like(0, self)), values, op.CastLike(op.Greater(self, cast_like(0, self)), self))


@builtin("aten::hypot")
@computed_in_float32
def hypot(self, other):
    """hypot(Tensor self, Tensor other) -> Tensor"""
    x, y = op.Abs(self), op.Abs(other)
    is_swapped = op.Greater(y, x)
    large, small = op.Where(is_swapped, y, x), op.Where(is_swapped, x, y)
    # Squares of large numbers overflow, their ratio does not.
    ratio = op.Div(small, op.Where(op.Equal(large, 0.0), cast_like(1.0, large), large))
    length = op.Mul(large, op.Sqrt(op.Add(op.Mul(ratio, ratio), 1.0)))
    is_infinite = op.Or(op.Equal(x, math.inf), op.Equal(y, math.inf))
    return op.Where(is_infinite, cast_like(math.inf, length), length)


@builtin("aten::logaddexp")
@computed_in_float32
def logaddexp(self, other):
    """logaddexp(Tensor self, Tensor other) -> Tensor"""
    return _add_exponents(self, other, math.e)


@builtin("aten::logaddexp2")
@computed_in_float32
def logaddexp2(self, other):
    """logaddexp2(Tensor self, Tensor other) -> Tensor"""
    return _add_exponents(self, other, 2.0)


def _add_exponents(x: Any, y: Any, base: float) -> Any:
    """log(base**x + base**y): the larger exponent and what the smaller adds to it."""
    scale = math.log(base)
    larger = op.Where(op.Greater(x, y), x, y)
    gap = op.Neg(op.Abs(op.Sub(x, y)))
    added = op.Div(op.Log(op.Add(op.Exp(op.Mul(gap, scale)), 1.0)), scale)
    # Two equal infinities have no gap.
    is_same_infinity = op.And(op.Equal(x, y), op.Equal(op.Abs(x), math.inf))
    return op.Where(is_same_infinity, x, op.Add(op.Where(op.IsNaN(gap), gap, larger), added))


@builtin(
    "aten::xlogy.Tensor",
    "aten::xlogy.Scalar_Self",
    "aten::xlogy.Scalar_Other",
    "aten::special_xlogy",
    "aten::special_xlogy.self_scalar",
    "aten::special_xlogy.other_scalar",
)
def xlogy(self, other):
    """xlogy.Tensor(Tensor self, Tensor other) -> Tensor"""
    x, y = (self, cast_like(other, self)) if is_tensor(self) else (cast_like(self, other), other)
    product = op.Where(op.Equal(x, 0.0), op.Mul(x, 0.0), op.Mul(x, op.Log(y)))
    return op.Where(op.IsNaN(y), y, product)


@builtin("aten::lerp.Scalar")
@computed_in_float32
def lerp_scalar(self, end, weight):
    """lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor"""
    if is_tensor(weight):
        return lerp_tensor(self, end, cast_like(weight, self))
    # From the nearer end, so that a weight of 1 gives exactly `end`.
    gap = op.Sub(end, self)
    if weight < 0.5:
        return op.Add(self, op.Mul(gap, float(weight)))
    return op.Sub(end, op.Mul(gap, 1.0 - weight))


@builtin("aten::lerp.Tensor")
@computed_in_float32
def lerp_tensor(self, end, weight):
    """lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor"""
    gap = op.Sub(end, self)
    near, far = op.Add(self, op.Mul(gap, weight)), op.Sub(end, op.Mul(gap, op.Sub(1.0, weight)))
    return op.Where(op.Less(op.Abs(weight), 0.5), near, far)


@builtin("aten::addcmul")
@computed_in_float32
def addcmul(self, tensor1, tensor2, value=1):
    """addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"""
    factor = tensor1 if is_number(value, 1) else op.Mul(tensor1, cast_like(value, self))
    return op.Add(self, op.Mul(factor, tensor2))


@builtin("aten::addcdiv")
@computed_in_float32
def addcdiv(self, tensor1, tensor2, value=1):
    """addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"""
    factor = tensor1 if is_number(value, 1) else op.Mul(tensor1, cast_like(value, self))
    return op.Add(self, op.Div(factor, tensor2))


@builtin("aten::ldexp.Tensor")
def ldexp(self, other):
    """ldexp.Tensor(Tensor self, Tensor other) -> Tensor"""
    x = self if self.dtype.is_floating_point() else cast(self, ir.DataType.FLOAT)
    return op.Mul(x, op.Pow(cast_like(2.0, x), op.CastLike(other, x)))


@script(default_opset=op)
def _euclid(a: INT64, b: INT64) -> INT64:
    """The greatest common divisors of two tensors of integers that are not negative, of one shape."""
    zero = op.Constant(value_int=0)
    one = op.Constant(value_int=1)
    size = op.Size(b)
    some = op.Cast(op.ReduceMax(op.Concat(op.Reshape(b, [-1]), op.Constant(value_ints=[0]), axis=0), keepdims=0), to=9)
    unfinished = op.And(some, size > zero)
    while unfinished:
        done = op.Equal(b, zero)
        rest = op.Mod(a, op.Where(done, one, b))
        a = op.Where(done, a, b)
        b = op.Where(done, zero, rest)
        unfinished = op.Cast(op.ReduceMax(b, keepdims=0), to=9)
    return a


def _divisor(x: Any, y: Any) -> Any:
    x, y = op.Abs(cast(x, ir.DataType.INT64)), op.Abs(cast(y, ir.DataType.INT64))
    return _euclid(op.Expand(x, op.Shape(y)), op.Expand(y, op.Shape(x)))


@builtin("aten::gcd")
def gcd(self, other):
    """gcd(Tensor self, Tensor other) -> Tensor"""
    return cast(_divisor(self, other), self.dtype)


@builtin("aten::lcm")
def lcm(self, other):
    """lcm(Tensor self, Tensor other) -> Tensor"""
    divisor = cast(_divisor(self, other), self.dtype)
    is_zero = op.Equal(divisor, cast_like(0, self))
    part = op.Div(self, op.Where(is_zero, cast_like(1, self), divisor))
    return op.Abs(op.Mul(part, other))
