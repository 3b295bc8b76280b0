"""Pointwise operators of one tensor."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.dtypes import UNSIGNED, cast, cast_like, computed_in_float32, is_double, is_float
from opbridge.translations.lib.pointwise import cosh_by_exp, is_negative
from opbridge.translations.registry import builtin

# Rounding


@builtin("aten::ceil")
def ceil(self):
    """ceil(Tensor self) -> Tensor"""
    return op.Ceil(self) if is_float(self) else op.Identity(self)


@builtin("aten::floor")
def floor(self):
    """floor(Tensor self) -> Tensor"""
    return op.Floor(self) if is_float(self) else op.Identity(self)


@builtin("aten::trunc", "aten::fix")
def trunc(self):
    """trunc(Tensor self) -> Tensor"""
    if not is_float(self):
        return op.Identity(self)
    # Through the sign of the number, so that -0.5 gives -0.0.
    return op.Mul(op.Sign(self), op.Floor(op.Abs(self)))


@builtin("aten::frac")
def frac(self):
    """frac(Tensor self) -> Tensor"""
    return op.Sub(self, op.Mul(op.Sign(self), op.Floor(op.Abs(self))))


@builtin("aten::round")
def round_(self):
    """round(Tensor self) -> Tensor"""
    return op.Round(self) if is_float(self) else op.Identity(self)


@builtin("aten::round.decimals")
@computed_in_float32
def round_decimals(self, decimals: int):
    """round.decimals(Tensor self, *, int decimals) -> Tensor"""
    if not is_float(self):
        return op.Identity(self)
    if decimals == 0:
        return op.Round(self)
    scale = 10.0 ** abs(decimals)
    if decimals < 0:
        return op.Mul(op.Round(op.Div(self, scale)), scale)
    return op.Div(op.Round(op.Mul(self, scale)), scale)


# Signs and kinds of numbers


@builtin("aten::abs", "aten::absolute")
def abs_(self):
    """abs(Tensor self) -> Tensor"""
    return op.Identity(self) if self.dtype in UNSIGNED else op.Abs(self)


@builtin("aten::neg", "aten::negative")
def neg(self):
    """neg(Tensor self) -> Tensor"""
    return op.Sub(cast_like(0, self), self) if self.dtype in UNSIGNED else op.Neg(self)


@builtin("aten::positive", "aten::conj_physical", "aten::real")
def positive(self):
    """positive(Tensor self) -> Tensor"""
    return op.Identity(self)


@builtin("aten::sign", "aten::sgn")
def sign(self):
    """sign(Tensor self) -> Tensor"""
    if self.dtype == ir.DataType.BOOL:
        return op.Identity(self)
    if not is_float(self):
        return op.Sign(self)
    # torch gives 0 for nan.
    return op.Where(op.IsNaN(self), cast_like(0, self), op.Sign(self))


@builtin("aten::signbit")
def signbit(self):
    """signbit(Tensor self) -> Tensor"""
    return _all_false(self) if self.dtype == ir.DataType.BOOL else is_negative(self)


@builtin("aten::isnan")
def isnan(self):
    """isnan(Tensor self) -> Tensor"""
    return op.IsNaN(self) if is_float(self) else _all_false(self)


@builtin("aten::isinf")
def isinf(self):
    """isinf(Tensor self) -> Tensor"""
    return op.Equal(op.Abs(self), cast_like(math.inf, self)) if is_float(self) else _all_false(self)


@builtin("aten::isposinf")
def isposinf(self):
    """isposinf(Tensor self) -> Tensor"""
    return op.Equal(self, cast_like(math.inf, self)) if is_float(self) else _all_false(self)


@builtin("aten::isneginf")
def isneginf(self):
    """isneginf(Tensor self) -> Tensor"""
    return op.Equal(self, cast_like(-math.inf, self)) if is_float(self) else _all_false(self)


@builtin("aten::isfinite")
def isfinite(self):
    """isfinite(Tensor self) -> Tensor"""
    return op.Less(op.Abs(self), cast_like(math.inf, self)) if is_float(self) else op.Equal(self, self)


@builtin("aten::isreal")
def isreal(self):
    """isreal(Tensor self) -> Tensor"""
    everywhere = op.Not(op.IsNaN(self)) if is_float(self) else op.Equal(self, self)
    return op.Or(everywhere, op.Not(everywhere)) if is_float(self) else everywhere


def _all_false(x: Any) -> Any:
    """False for every element of an integer or bool tensor."""
    return op.Not(op.Equal(x, x))


@builtin("aten::nan_to_num")
def nan_to_num(self, nan=None, posinf=None, neginf=None):
    """nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor"""
    if not is_float(self):
        return op.Identity(self)
    kind = self.dtype.numpy()
    limits = ml_dtypes.finfo(kind) if self.dtype == ir.DataType.BFLOAT16 else np.finfo(kind)
    above = float(limits.max) if posinf is None else posinf
    below = float(limits.min) if neginf is None else neginf
    result = op.Where(op.IsNaN(self), cast_like(0.0 if nan is None else nan, self), self)
    result = op.Where(op.Equal(self, cast_like(math.inf, self)), cast_like(above, self), result)
    return op.Where(op.Equal(self, cast_like(-math.inf, self)), cast_like(below, self), result)


@builtin("aten::angle")
def angle(self):
    """angle(Tensor self) -> Tensor"""
    turned = op.Where(op.Less(self, 0.0), cast_like(math.pi, self), cast_like(0.0, self))
    return op.Where(op.IsNaN(self), self, turned)


@builtin("aten::frexp.Tensor")
def frexp(self):
    """frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)"""
    x = cast(self, ir.DataType.DOUBLE)
    kept = op.Or(op.Equal(x, 0.0), op.Not(op.Less(op.Abs(x), math.inf)))
    safe = op.Where(kept, cast_like(1.0, x), x)
    # The logarithm may be off by one at a power of two; the mantissa then shows it. Powers of two are exact.
    exponent = op.Add(op.Floor(op.Div(op.Log(op.Abs(safe)), math.log(2))), 1.0)
    half = op.Floor(op.Mul(exponent, 0.5))
    mantissa = op.Mul(op.Mul(safe, op.Pow(cast_like(2.0, x), -half)), op.Pow(cast_like(2.0, x), half - exponent))
    size = op.Abs(mantissa)
    large, small = op.GreaterOrEqual(size, 1.0), op.Less(size, 0.5)
    mantissa = op.Where(large, mantissa * 0.5, op.Where(small, mantissa * 2.0, mantissa))
    exponent = op.Where(large, exponent + 1.0, op.Where(small, exponent - 1.0, exponent))
    return (
        op.CastLike(op.Where(kept, x, mantissa), self),
        cast(op.Where(kept, cast_like(0.0, x), exponent), ir.DataType.INT32),
    )


# Exponentials and logarithms


@builtin("aten::exp2", "aten::special_exp2")
def exp2(self):
    """exp2(Tensor self) -> Tensor"""
    return op.Pow(cast_like(2.0, self), self)


@builtin("aten::expm1", "aten::special_expm1")
@computed_in_float32
def expm1(self):
    """expm1(Tensor self) -> Tensor"""
    # exp(x) - 1 loses all digits of a small x; this product has no cancellation anywhere.
    return op.Mul(op.Tanh(op.Mul(self, 0.5)), op.Add(op.Exp(self), 1.0))


@builtin("aten::log1p", "aten::special_log1p")
@computed_in_float32
def log1p(self):
    """log1p(Tensor self) -> Tensor"""
    return _log1p(self)


def _log1p(x: Any) -> Any:
    """log(1 + x) to the last digits: the logarithm of the rounded sum, corrected for the rounding (Kahan)."""
    total = op.Add(x, 1.0)
    part = op.Sub(total, 1.0)
    log = op.Log(total)
    corrected = op.Where(op.Equal(part, 0.0), x, op.Mul(log, op.Div(x, part)))
    return op.Where(op.Equal(part, x), log, corrected)


@builtin("aten::log2")
@computed_in_float32
def log2(self):
    """log2(Tensor self) -> Tensor"""
    return op.Div(op.Log(self), math.log(2))


@builtin("aten::log10")
@computed_in_float32
def log10(self):
    """log10(Tensor self) -> Tensor"""
    return op.Div(op.Log(self), math.log(10))


@builtin("aten::logit", "aten::special_logit")
@computed_in_float32
def logit(self, eps=None):
    """logit(Tensor self, float? eps=None) -> Tensor"""
    x = self
    if eps is not None:
        low, high = cast_like(eps, x), cast_like(1.0 - eps, x)
        x = op.Where(op.Less(x, low), low, op.Where(op.Greater(x, high), high, x))
    return op.Log(op.Div(x, op.Sub(1.0, x)))


# Trigonometric and hyperbolic functions. ONNX Runtime has kernels in double for sin, cos, tanh, exp, log and sqrt only.


@builtin("aten::deg2rad")
@computed_in_float32
def deg2rad(self):
    """deg2rad(Tensor self) -> Tensor"""
    return op.Mul(self, math.pi / 180)


@builtin("aten::rad2deg")
@computed_in_float32
def rad2deg(self):
    """rad2deg(Tensor self) -> Tensor"""
    return op.Mul(self, 180 / math.pi)


@builtin("aten::sinc", "aten::special_sinc")
@computed_in_float32
def sinc(self):
    """sinc(Tensor self) -> Tensor"""
    turned = op.Mul(self, math.pi)
    return op.Where(op.Equal(self, 0.0), cast_like(1.0, self), op.Div(op.Sin(turned), turned))


@builtin("aten::tan")
def tan(self):
    """tan(Tensor self) -> Tensor"""
    return op.Div(op.Sin(self), op.Cos(self)) if is_double(self) else op.Tan(self)


@builtin("aten::cosh")
def cosh(self):
    """cosh(Tensor self) -> Tensor"""
    return cosh_by_exp(self) if is_double(self) else op.Cosh(self)


@builtin("aten::sinh")
def sinh(self):
    """sinh(Tensor self) -> Tensor"""
    return op.Mul(op.Tanh(self), cosh_by_exp(self)) if is_double(self) else op.Sinh(self)


@builtin("aten::asinh", "aten::arcsinh")
def asinh(self):
    """asinh(Tensor self) -> Tensor"""
    if not is_double(self):
        return op.Asinh(self)
    size = op.Abs(self)
    inverse = op.Reciprocal(size)
    rest = op.Div(size, op.Add(inverse, op.Sqrt(op.Add(op.Mul(inverse, inverse), 1.0))))
    return op.Mul(op.Sign(self), _log1p(op.Add(size, rest)))


@builtin("aten::acosh", "aten::arccosh")
def acosh(self):
    """acosh(Tensor self) -> Tensor"""
    if not is_double(self):
        return op.Acosh(self)
    beyond = op.Sub(self, 1.0)
    return _log1p(op.Add(beyond, op.Mul(op.Sqrt(beyond), op.Sqrt(op.Add(self, 1.0)))))


@builtin("aten::atanh", "aten::arctanh")
def atanh(self):
    """atanh(Tensor self) -> Tensor"""
    if not is_double(self):
        return op.Atanh(self)
    return op.Mul(_log1p(op.Div(op.Mul(self, 2.0), op.Sub(1.0, self))), 0.5)


@builtin("aten::atan", "aten::arctan")
def atan(self):
    """atan(Tensor self) -> Tensor"""
    return arc_tangent(self)


@builtin("aten::asin", "aten::arcsin")
def asin(self):
    """asin(Tensor self) -> Tensor"""
    if not is_double(self):
        return op.Asin(self)
    guess = cast(op.Asin(cast(self, ir.DataType.FLOAT)), ir.DataType.DOUBLE)
    other = op.Sqrt(op.Mul(op.Sub(1.0, self), op.Add(1.0, self)))
    return op.Add(guess, _small_asin(op.Sub(op.Mul(self, op.Cos(guess)), op.Mul(other, op.Sin(guess)))))


@builtin("aten::acos", "aten::arccos")
def acos(self):
    """acos(Tensor self) -> Tensor"""
    if not is_double(self):
        return op.Acos(self)
    guess = cast(op.Acos(cast(self, ir.DataType.FLOAT)), ir.DataType.DOUBLE)
    other = op.Sqrt(op.Mul(op.Sub(1.0, self), op.Add(1.0, self)))
    return op.Add(guess, _small_asin(op.Sub(op.Mul(other, op.Cos(guess)), op.Mul(self, op.Sin(guess)))))


def arc_tangent(x: Any) -> Any:
    """atan(x). In double: float32's, and the exact arc tangent of what is left, which is small."""
    if not is_double(x):
        return op.Atan(x)
    guess = cast(op.Atan(cast(x, ir.DataType.FLOAT)), ir.DataType.DOUBLE)
    sine, cosine = op.Sin(guess), op.Cos(guess)
    rest = op.Div(op.Sub(op.Mul(x, cosine), sine), op.Add(cosine, op.Mul(x, sine)))
    limit = op.Mul(op.Sign(x), math.pi / 2)
    return op.Where(op.Less(op.Abs(x), 1e300), op.Add(guess, rest), limit)


def _small_asin(x: Any) -> Any:
    """asin of what is near 0."""
    return op.Mul(x, op.Add(op.Div(op.Mul(x, x), 6.0), 1.0))


@builtin("aten::square")
def square(self):
    """square(Tensor self) -> Tensor"""
    return op.Mul(self, self)


@builtin("aten::rsqrt")
@computed_in_float32
def rsqrt(self):
    """rsqrt(Tensor self) -> Tensor"""
    return op.Reciprocal(op.Sqrt(self))


@builtin("aten::reciprocal")
def reciprocal(self):
    """reciprocal(Tensor self) -> Tensor"""
    return op.Reciprocal(self)
