"""Arithmetic and elementary functions of complex tensors, which travel as pairs (see `pairs`)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnxscript import opset18 as op

from opbridge.translations.complex.pairs import (
    conjugate,
    divide,
    is_number,
    join,
    magnitude,
    multiply,
    number,
    parts,
    scaled,
    times_i,
    unjoined,
)
from opbridge.translations.elementwise import elementwise
from opbridge.translations.elementwise.elementwise_pairs import atan2, copysign
from opbridge.translations.lib.dtypes import const
from opbridge.translations.registry import builtin

# From pairs to numbers and back


@builtin("aten::view_as_real", "aten::view_as_real_copy", complex=True)
def view_as_real(self):
    """view_as_real(Tensor(a) self) -> Tensor(a)"""
    return self


@builtin("aten::view_as_complex", "aten::view_as_complex_copy")
def view_as_complex(self):
    """view_as_complex(Tensor(a) self) -> Tensor(a)"""
    return self


@builtin("aten::real", complex=True)
def real(self):
    """real(Tensor(a) self) -> Tensor(a)"""
    return op.Gather(self, 0, axis=-1)


@builtin("aten::imag", complex=True)
def imag(self):
    """imag(Tensor(a) self) -> Tensor(a)"""
    return op.Gather(self, 1, axis=-1)


@builtin("aten::complex")
def complex_(real, imag):
    """complex(Tensor real, Tensor imag) -> Tensor"""
    shape = op.Shape(real + imag) if tuple(real.shape) != tuple(imag.shape) else None
    return join(*(part if shape is None else op.Expand(part, shape) for part in (real, imag)))


@builtin("aten::polar")
def polar(abs, angle):
    """polar(Tensor abs, Tensor angle) -> Tensor"""
    return join(abs * op.Cos(angle), abs * op.Sin(angle))


@builtin("aten::_conj", "aten::_conj_copy", "aten::conj", "aten::conj_physical", "aten::_conj_physical", complex=True)
def conj(self):
    """conj(Tensor(a) self) -> Tensor(a)"""
    return conjugate(self)


@builtin("aten::resolve_conj", "aten::resolve_neg", "aten::positive", complex=True)
def resolve_conj(self):
    """resolve_conj(Tensor(a) self) -> Tensor(a)"""
    return self


@builtin("aten::abs", complex=True)
def abs_(self):
    """abs(Tensor self) -> Tensor"""
    return magnitude(self)


@builtin("aten::angle", complex=True)
def angle(self):
    """angle(Tensor self) -> Tensor"""
    x, y = parts(self)
    return atan2(y, x)


@builtin("aten::sgn", complex=True)
def sgn(self):
    """sgn(Tensor self) -> Tensor"""
    size = op.Unsqueeze(magnitude(self), [-1])
    return op.Where(op.Equal(size, 0.0), const(0, self.dtype), self / size)


# Arithmetic


@builtin("aten::add.Tensor", "aten::add.Scalar", complex=True)
def add(self, other, alpha=1):
    """add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    return self + _pair(_scale(other, alpha), self)


@builtin("aten::sub.Tensor", "aten::sub.Scalar", "aten::subtract.Tensor", "aten::subtract.Scalar", complex=True)
def sub(self, other, alpha=1):
    """sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    return self - _pair(_scale(other, alpha), self)


@builtin("aten::rsub.Tensor", "aten::rsub.Scalar", complex=True)
def rsub(self, other, alpha=1):
    """rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    return _pair(other, self) - _scale(self, alpha)


@builtin("aten::mul.Tensor", "aten::mul.Scalar", complex=True)
@builtin("aten::multiply.Tensor", "aten::multiply.Scalar", complex=True)
def mul(self, other):
    """mul.Tensor(Tensor self, Tensor other) -> Tensor"""
    return multiply(self, other)


@builtin("aten::div.Tensor", "aten::div.Scalar", "aten::divide.Tensor", "aten::divide.Scalar", complex=True)
@builtin("aten::true_divide.Tensor", "aten::true_divide.Scalar", complex=True)
def div(self, other):
    """div.Tensor(Tensor self, Tensor other) -> Tensor"""
    return divide(self, other)


@builtin("aten::addcmul", complex=True)
def addcmul(self, tensor1, tensor2, value=1):
    """addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"""
    return self + scaled(multiply(tensor1, tensor2), value)


@builtin("aten::addcdiv", complex=True)
def addcdiv(self, tensor1, tensor2, value=1):
    """addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"""
    return self + scaled(divide(tensor1, tensor2), value)


@builtin("aten::lerp.Tensor", "aten::lerp.Scalar", complex=True)
def lerp(self, end, weight):
    """lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor"""
    return self + multiply(end - self, weight)


@builtin("aten::neg", complex=True)
def neg(self):
    """neg(Tensor self) -> Tensor"""
    return op.Neg(self)


@builtin("aten::square", complex=True)
def square(self):
    """square(Tensor self) -> Tensor"""
    return multiply(self, self)


@builtin("aten::reciprocal", complex=True)
def reciprocal(self):
    """reciprocal(Tensor self) -> Tensor"""
    return divide(1, self)


# Elementary functions


@builtin("aten::exp", complex=True)
def exp(self):
    """exp(Tensor self) -> Tensor"""
    return _exp(self)


@builtin("aten::exp2", complex=True)
def exp2(self):
    """exp2(Tensor self) -> Tensor"""
    return _exp(self * const(math.log(2), self.dtype))


@builtin("aten::expm1", complex=True)
def expm1(self):
    """expm1(Tensor self) -> Tensor"""
    # The real part e^x cos y - 1, written so that little cancels.
    x, y = parts(self)
    half = op.Sin(y * 0.5)
    return join(elementwise.expm1(x) * op.Cos(y) - 2.0 * half * half, op.Exp(x) * op.Sin(y))


@builtin("aten::log", complex=True)
def log(self):
    """log(Tensor self) -> Tensor"""
    return _log(self)


@builtin("aten::log2", complex=True)
def log2(self):
    """log2(Tensor self) -> Tensor"""
    return _log(self) * const(1 / math.log(2), self.dtype)


@builtin("aten::log10", complex=True)
def log10(self):
    """log10(Tensor self) -> Tensor"""
    return _log(self) * const(1 / math.log(10), self.dtype)


@builtin("aten::log1p", complex=True)
def log1p(self):
    """log1p(Tensor self) -> Tensor"""
    # log |1 + z|^2 / 2 = log1p(x (x + 2) + y^2) / 2
    x, y = parts(self)
    return join(0.5 * elementwise.log1p(x * (x + 2.0) + y * y), atan2(y, x + 1.0))


@builtin("aten::sqrt", complex=True)
def sqrt(self):
    """sqrt(Tensor self) -> Tensor"""
    return _sqrt(self)


@builtin("aten::rsqrt", complex=True)
def rsqrt(self):
    """rsqrt(Tensor self) -> Tensor"""
    return divide(1, _sqrt(self))


@builtin("aten::pow.Tensor_Tensor", "aten::pow.Tensor_Scalar", "aten::pow.Scalar", complex=True)
def pow_(self, exponent):
    """pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor"""
    if (is_number(exponent) and exponent == 0) or (is_number(self) and self == 1):
        tensor = exponent if is_number(self) else self
        return op.Expand(number(1, tensor), op.Shape(tensor))
    if is_number(exponent):
        # Those that torch computes in other ways than by its general one, which differ for 0, infinity and nan.
        if exponent == 1:
            return self
        if exponent == 0.5:
            return _sqrt(self)
        if exponent == -0.5:
            return rsqrt(self)
        if exponent in (2, 3, -1, -2):
            power = self
            for _ in range(int(abs(exponent)) - 1):
                power = multiply(power, self)
            return power if exponent in (2, 3) else divide(1, power)
        return _power_like_c(self, number(exponent, self))
    return _power_like_c(_pair(self, exponent), exponent)


@builtin("aten::sinh", complex=True)
def sinh(self):
    """sinh(Tensor self) -> Tensor"""
    return _sinh(self)


@builtin("aten::cosh", complex=True)
def cosh(self):
    """cosh(Tensor self) -> Tensor"""
    return _cosh(self)


@builtin("aten::tanh", complex=True)
def tanh(self):
    """tanh(Tensor self) -> Tensor"""
    return _tanh(self)


@builtin("aten::sin", complex=True)
def sin(self):
    """sin(Tensor self) -> Tensor"""
    return _divided_by_i(_sinh(times_i(self)))


@builtin("aten::cos", complex=True)
def cos(self):
    """cos(Tensor self) -> Tensor"""
    return _cosh(times_i(self))


@builtin("aten::tan", complex=True)
def tan(self):
    """tan(Tensor self) -> Tensor"""
    return _divided_by_i(_tanh(times_i(self)))


@builtin("aten::asinh", complex=True)
def asinh(self):
    """asinh(Tensor self) -> Tensor"""
    return _asinh(self)


@builtin("aten::asin", complex=True)
def asin(self):
    """asin(Tensor self) -> Tensor"""
    return _divided_by_i(_asinh(times_i(self)))


@builtin("aten::acos", complex=True)
def acos(self):
    """acos(Tensor self) -> Tensor"""
    return _acos(self)


@builtin("aten::acosh", complex=True)
def acosh(self):
    """acosh(Tensor self) -> Tensor"""
    one = number(1, self)
    less, more = (parts(_sqrt(z)) for z in (self - one, self + one))
    return join(elementwise.asinh(less[0] * more[0] + less[1] * more[1]), 2.0 * atan2(less[1], more[0]))


@builtin("aten::atanh", complex=True)
def atanh(self):
    """atanh(Tensor self) -> Tensor"""
    return _atanh(self)


@builtin("aten::atan", complex=True)
def atan(self):
    """atan(Tensor self) -> Tensor"""
    return _divided_by_i(_atanh(times_i(self)))


@builtin("aten::sigmoid", complex=True)
def sigmoid(self):
    """sigmoid(Tensor self) -> Tensor"""
    return divide(1, _exp(op.Neg(self)) + number(1, self))


@builtin("aten::silu", complex=True)
def silu(self):
    """silu(Tensor self) -> Tensor"""
    return divide(self, _exp(op.Neg(self)) + number(1, self))


# How they are computed


def _scale(value: Any, factor: Any) -> Any:
    """A tensor of pairs or a number, times a number."""
    return value * factor if is_number(value) else scaled(value, factor)


def _pair(value: Any, like: Any) -> Any:
    """A number as a pair; a tensor of pairs as it is."""
    return number(value, like) if is_number(value) else value


def _divided_by_i(x: Any) -> Any:
    """x / i."""
    return op.Neg(times_i(x))


def _exp(z: Any) -> Any:
    """exp z as C has it: real for real z, also where e^x is infinite, and 0 or infinite where x alone decides that."""
    x, y = parts(z)
    # In two steps, as e^x may leave the type's range where e^x cos y does not.
    half = op.Exp(x * 0.5)
    is_decided = op.And(op.IsInf(x), op.Not(op.Abs(y) < np.inf))
    cosine = op.Where(is_decided, const(1, z.dtype), op.Cos(y))
    sine = op.Where(is_decided, const(0, z.dtype), op.Sin(y))
    return join(half * cosine * half, op.Where(op.Equal(y, 0.0), y, half * sine * half))


def _log(z: Any) -> Any:
    x, y = parts(z)
    return join(op.Log(magnitude(z)), atan2(y, x))


def _sqrt(z: Any) -> Any:
    x, y = parts(z)
    near = op.Sqrt((op.Abs(x) + magnitude(z)) * 0.5)
    far = op.Where(op.Equal(near, 0.0), y, y / (near * 2.0))
    is_left, is_infinite = x < 0.0, op.IsInf(y)
    real = op.Where(is_infinite, op.Abs(y), op.Where(is_left, op.Abs(far), near))
    return join(real, op.Where(is_infinite, y, op.Where(is_left, copysign(near, y), far)))


def _power_like_c(z: Any, exponent: Any) -> Any:
    """exp(exponent * log z) as C has it: a power of 0 is 0 or infinite or nan, as the exponent says."""
    return _exp(_multiply_like_c(exponent, _log(z)))


def _multiply_like_c(x: Any, y: Any) -> Any:
    """The product by the rules of C: an infinite factor may make it infinite where both of its parts would be nan."""
    real, imaginary = unjoined(x)
    first, second = real * y, imaginary * times_i(y)
    product = first + second
    has_infinity = [_any_part(op.IsInf(each)) for each in (x, y)]
    is_infinite = op.Or(op.Or(*has_infinity), _any_part(op.Or(op.IsInf(first), op.IsInf(second))))
    is_lost = op.Not(_any_part(op.Not(op.IsNaN(product))))
    directions = [_direction(each, has) for each, has in zip((x, y), has_infinity, strict=True)]
    again = multiply(*directions) * const(np.inf, y.dtype)
    return op.Where(op.And(is_lost, is_infinite), again, product)


def _direction(z: Any, has_infinity: Any) -> Any:
    """An infinite number as one of size 1 that points the same way; nan counts as 0."""
    zero = const(0, z.dtype)
    finite = op.Where(op.Or(has_infinity, op.IsNaN(z)), zero, z)
    return op.Where(op.IsInf(z), op.Sign(z), finite)


def _any_part(flags: Any) -> Any:
    """Whether something holds for one of the parts; the last dimension stays, with size 1."""
    return op.Or(*op.Split(flags, num_outputs=2, axis=-1))


def _sinh(z: Any) -> Any:
    x, y = parts(z)
    return join(elementwise.sinh(x) * op.Cos(y), elementwise.cosh(x) * op.Sin(y))


def _cosh(z: Any) -> Any:
    x, y = parts(z)
    return join(elementwise.cosh(x) * op.Cos(y), elementwise.sinh(x) * op.Sin(y))


def _tanh(z: Any) -> Any:
    # With t = tan y and h = tanh x: (h (1 + t^2) + i t (1 - h^2)) / (1 + h^2 t^2), where 1 - h^2 = 1 / cosh^2 x.
    x, y = parts(z)
    slope, height, width = elementwise.tan(y), op.Tanh(x), op.Reciprocal(elementwise.cosh(x))
    below = height * height * slope * slope + 1.0
    return join(height * (slope * slope + 1.0) / below, slope * width * width / below)


def _asinh(z: Any) -> Any:
    # Kahan's forms, which cancel nowhere.
    iz, one = times_i(z), number(1, z)
    more, less = (parts(_sqrt(each)) for each in (one - iz, one + iz))
    real = elementwise.asinh(less[0] * more[1] - more[0] * less[1])
    _, y = parts(z)
    return join(op.Neg(real), atan2(y, less[0] * more[0] - less[1] * more[1]))


def _acos(z: Any) -> Any:
    one = number(1, z)
    less, more = (parts(_sqrt(each)) for each in (one - z, one + z))
    return join(2.0 * atan2(less[0], more[0]), elementwise.asinh(more[0] * less[1] - more[1] * less[0]))


def _atanh(z: Any) -> Any:
    x, y = parts(z)
    size = op.Abs(x)
    real = elementwise.log1p(4.0 * size / ((1.0 - size) * (1.0 - size) + y * y))
    return join(0.25 * op.Sign(x) * real, 0.5 * atan2(2.0 * y, (1.0 - x) * (1.0 + x) - y * y))
