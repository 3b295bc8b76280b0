"""Sums, products, quotients and powers of tensors and numbers, in the types that torch promotes them to."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
from onnxscript import INT64, script
from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.translations.lib.dtypes import (
    HALVES,
    UNSIGNED,
    cast,
    cast_like,
    computed_in_float32,
    is_float,
    is_tensor,
    rounded,
)
from opbridge.translations.lib.promotion import promote, result_type
from opbridge.translations.registry import builtin

_BOOL, _INT64 = ir.DataType.BOOL, ir.DataType.INT64


def _operands(*values: Any, floating: bool = False) -> tuple[Any, ...]:
    """Tensors of the promoted type. 16-bit tensors beside a number that they cannot hold exactly are widened."""
    dtype = result_type(*values)
    if floating and not dtype.is_floating_point():
        dtype = ir.DataType.FLOAT
    numbers = [value for value in values if not is_tensor(value)]
    with np.errstate(over="ignore"):
        if dtype in HALVES and any(float(dtype.numpy().type(number)) != number for number in numbers):
            dtype = ir.DataType.FLOAT
    return promote(*values, dtype=dtype)


def _factors(*values: Any, floating: bool = False) -> tuple[Any, ...]:
    """`_operands` of a product or quotient, in which a 16-bit number costs no more than the rounding of the result.

    Such a number is rounded to the type of the tensors where it is an ordinary one of that type, so that a model of
    16-bit tensors has no Casts for its scales.
    """
    dtype = result_type(*values)
    if dtype in HALVES and all(is_tensor(value) or _is_ordinary(value, dtype) for value in values):
        return promote(*values, dtype=dtype)
    return _operands(*values, floating=floating)


def _is_ordinary(number: Any, dtype: ir.DataType) -> bool:
    """Whether a number has as many digits in a type as any: it does not overflow, and is no subnormal number."""
    limits = ml_dtypes.finfo(dtype.numpy())
    return number == 0 or float(limits.smallest_normal) <= abs(number) <= float(limits.max)


def _as_promoted(result: Any, *values: Any) -> Any:
    """The result of what `_operands` widened, in the promoted type."""
    dtype = result_type(*values)
    return cast(result, dtype) if dtype in HALVES and result.dtype != dtype else result


# Sums


@builtin("aten::add.Tensor", "aten::add.Scalar")
def add(self, other, alpha=1):
    """add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    x, y = promote(self, other)
    if x.dtype == _BOOL:
        return op.Or(x, op.And(y, cast(alpha, _BOOL))) if is_tensor(alpha) else op.Or(x, y) if alpha else x
    return op.Add(x, y) if not is_tensor(alpha) and alpha == 1 else _add_scaled(x, y, alpha)


@builtin("aten::sub.Tensor", "aten::sub.Scalar", "aten::subtract.Tensor", "aten::subtract.Scalar")
def sub(self, other, alpha=1):
    """sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    x, y = promote(self, other)
    return op.Sub(x, y) if not is_tensor(alpha) and alpha == 1 else _add_scaled(x, y, -alpha)


@builtin("aten::rsub.Tensor", "aten::rsub.Scalar")
def rsub(self, other, alpha=1):
    """rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    y, x = promote(other, self)
    return sub(y, x, alpha)


@computed_in_float32
def _add_scaled(x: Any, y: Any, factor: Any) -> Any:
    """x + factor * y"""
    return op.Add(x, op.Mul(y, cast_like(factor, y)))


# Products and quotients


@builtin("aten::mul.Tensor", "aten::mul.Scalar", "aten::multiply.Tensor", "aten::multiply.Scalar")
def mul(self, other):
    """mul.Tensor(Tensor self, Tensor other) -> Tensor"""
    x, y = _factors(self, other)
    return op.And(x, y) if x.dtype == _BOOL else _as_promoted(op.Mul(x, y), self, other)


@builtin(
    "aten::div.Tensor",
    "aten::div.Scalar",
    "aten::divide.Tensor",
    "aten::divide.Scalar",
    "aten::true_divide.Tensor",
    "aten::true_divide.Scalar",
)
def div(self, other):
    """div.Tensor(Tensor self, Tensor other) -> Tensor"""
    x, y = _factors(self, other, floating=True)
    return _as_promoted(op.Div(x, y), self, other)


@builtin("aten::div.Tensor_mode", "aten::div.Scalar_mode", "aten::divide.Tensor_mode", "aten::divide.Scalar_mode")
def div_mode(self, other, rounding_mode=None):
    """div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor"""
    if rounding_mode == "floor":
        return floor_divide(self, other)
    if rounding_mode is None:
        return div(self, other)
    x, y = _operands(self, other)
    if not is_float(x):
        return op.Div(x, y)
    return _as_promoted(_truncated_quotient(x, y), self, other)


def _truncated_quotient(x: Any, y: Any) -> Any:
    """The quotient of floating tensors, towards zero. torch rounds that of 16-bit tensors to their type first."""
    dtype = x.dtype
    if dtype in HALVES:
        x, y = cast(x, ir.DataType.FLOAT), cast(y, ir.DataType.FLOAT)
    quotient = op.Div(x, y)
    if dtype in HALVES:
        quotient = rounded(quotient, dtype)
    return cast(op.Mul(op.Sign(quotient), op.Floor(op.Abs(quotient))), dtype)


@builtin("aten::floor_divide", "aten::floor_divide.Scalar", "aten::floor_divide_.Tensor")
def floor_divide(self, other):
    """floor_divide(Tensor self, Tensor other) -> Tensor"""
    x, y = _operands(self, other)
    if is_float(x):
        return _as_promoted(_floor_divide_floats(x, y), self, other)
    if x.dtype in UNSIGNED:
        return op.Div(x, y)
    if x.dtype == _INT64:
        return _floor_divide_widest(x, y)
    # What is subtracted may leave the range of a narrow type.
    wide = {ir.DataType.INT8: ir.DataType.INT32, ir.DataType.INT16: ir.DataType.INT32}.get(x.dtype, _INT64)
    left, right = cast(x, wide), cast(y, wide)
    return cast(op.Div(op.Sub(left, op.Mod(left, right)), right), x.dtype)


def _floor_divide_widest(x: Any, y: Any) -> Any:
    """Floor division of integers without numbers beyond their range, for the type that has no wider one."""
    quotient = op.Div(x, y)  # rounded towards zero
    is_rounded = op.Not(op.Equal(op.Mul(quotient, y), x))
    is_below_zero = op.Xor(op.Less(x, 0), op.Less(y, 0))
    return op.Sub(quotient, op.Cast(op.And(is_rounded, is_below_zero), to=_INT64))


def _floor_divide_floats(x: Any, y: Any) -> Any:
    """Python's float floor division, by way of the exact remainder: 1 // 0.1 is 9, not floor(1 / 0.1) = 10."""
    dtype = x.dtype
    if dtype in HALVES:
        x, y = cast(x, ir.DataType.FLOAT), cast(y, ir.DataType.FLOAT)
    rest = op.Mod(x, y, fmod=1)
    is_opposite = op.Less(op.Mul(op.Sign(rest), op.Sign(y)), 0.0)
    quotient = op.Div(op.Sub(x, rest), y)
    # x - rest is a multiple of y up to rounding, so the nearest integer is meant.
    rounded = op.Sub(op.Floor(op.Add(quotient, 0.5)), op.CastLike(is_opposite, x))
    result = op.Where(op.Equal(y, 0.0), op.Div(x, y), rounded)
    return cast(result, dtype)


@builtin("aten::remainder.Tensor", "aten::remainder.Scalar", "aten::remainder.Scalar_Tensor")
def remainder(self, other):
    """remainder.Tensor(Tensor self, Tensor other) -> Tensor"""
    x, y = promote(self, other)  # a number is rounded to 16 bits first, as in torch
    if not is_float(x):
        return op.Mod(x, y)
    if x.dtype in HALVES:
        x, y = cast(x, ir.DataType.FLOAT), cast(y, ir.DataType.FLOAT)
    # With the sign of the divisor, as Python has it.
    rest = op.Mod(x, y, fmod=1)
    if is_tensor(other):
        is_opposite = op.Less(op.Mul(op.Sign(rest), op.Sign(y)), 0.0)
    else:
        is_opposite = op.Less(rest, 0.0) if other > 0 else op.Greater(rest, 0.0)
    return _as_promoted(op.Where(is_opposite, op.Add(rest, y), rest), self, other)


@builtin("aten::fmod.Tensor", "aten::fmod.Scalar")
def fmod(self, other):
    """fmod.Tensor(Tensor self, Tensor other) -> Tensor"""
    return op.Mod(*promote(self, other), fmod=1)


# Powers


@builtin("aten::pow.Tensor_Scalar")
def pow_number(self, exponent):
    """pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor"""
    if is_tensor(exponent) or (self.dtype in HALVES and abs(exponent) == 0.5):
        # Of 16-bit numbers torch takes no root.
        return pow_tensor(self, exponent)
    if self.dtype in HALVES and exponent == 2:
        return op.Mul(self, self)
    if self.dtype == ir.DataType.BFLOAT16 and exponent in (3, -2):
        # torch rounds these products one by one.
        square = op.Mul(self, self)
        return op.Mul(square, self) if exponent == 3 else op.Reciprocal(square)
    if self.dtype in HALVES:
        exponent = float(self.dtype.numpy().type(exponent))
    if self.dtype == ir.DataType.FLOAT16 and exponent in (3, -2):  # one node, which rounds once
        return op.Pow(self, cast_like(exponent, self))
    return _power_of_number(self, exponent)


def _power_of_number(base: Any, exponent: Any) -> Any:
    (x,) = promote(base, dtype=result_type(base, exponent))
    if x.dtype == _BOOL:
        return op.Or(x, op.Not(x)) if exponent == 0 else x
    if not is_float(x):
        return _whole_power(x, int(exponent))
    special = {
        0.5: lambda: op.Sqrt(x),
        1: lambda: op.Identity(x),
        2: lambda: op.Mul(x, x),
        3: lambda: op.Mul(op.Mul(x, x), x),
        -0.5: lambda: op.Reciprocal(op.Sqrt(x)),
        -1: lambda: op.Reciprocal(x),
        -2: lambda: op.Reciprocal(op.Mul(x, x)),
    }
    return special[exponent]() if exponent in special else op.Pow(x, cast_like(exponent, x))


@builtin("aten::pow.Scalar", "aten::pow.Tensor_Tensor", "aten::pow_.Tensor")
def pow_tensor(self, exponent):
    """pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor"""
    x, y = promote(self, exponent)
    if x.dtype == _BOOL:
        return op.Or(x, op.Not(y))
    return op.Pow(x, y) if is_float(x) else _integer_power(x, y)


@builtin("aten::float_power.Tensor_Tensor", "aten::float_power.Tensor_Scalar", "aten::float_power.Scalar")
def float_power(self, exponent):
    """float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor"""
    x, y = promote(self, exponent, dtype=ir.DataType.DOUBLE)
    if not is_tensor(exponent) and exponent in (0.5, -0.5):
        root = op.Sqrt(x)
        return root if exponent > 0 else op.Reciprocal(root)
    return op.Pow(x, y)


def _whole_power(x: Any, exponent: int) -> Any:
    """An integer tensor to a power known at export, by squaring: Pow computes in double, which rounds large powers."""
    if exponent < 0:
        raise TranslationError(
            "PyTorch does not support negative integer powers of integers. Convert the base or the exponent to "
            "floating point."
        )
    result = None
    square = x
    while exponent:
        if exponent & 1:
            result = square if result is None else op.Mul(result, square)
        exponent >>= 1
        if exponent:
            square = op.Mul(square, square)
    if result is None:
        return op.Add(op.Mul(x, cast_like(0, x)), cast_like(1, x))
    return op.Identity(x) if result is x else result


def _integer_power(base: Any, exponent: Any) -> Any:
    """Integer tensors to integer powers. A negative power of what is not 1 or -1 is 0, as torch has it."""
    x, y = cast(base, _INT64), cast(exponent, _INT64)
    if base.dtype not in UNSIGNED:
        is_unit = op.Equal(op.Abs(x), 1)
        x = op.Where(op.Or(op.GreaterOrEqual(y, 0), is_unit), x, cast_like(0, x))
        y = op.Abs(y)
    return cast(_power(op.Expand(x, op.Shape(y)), op.Expand(y, op.Shape(x))), base.dtype)


@script(default_opset=op)
def _power(base: INT64, exponent: INT64) -> INT64:
    """Powers of two tensors of one shape, by squaring, with the overflow that integers have."""
    one = op.Constant(value_int=1)
    two = op.Constant(value_int=2)
    result = op.Expand(one, op.Shape(base))
    # An empty tensor has no largest exponent.
    exponents = op.Concat(op.Reshape(exponent, [-1]), op.Constant(value_ints=[0]), axis=0)
    is_left = op.Cast(op.ReduceMax(exponents, keepdims=0), to=9)
    while is_left:
        is_odd = op.Equal(op.Mod(exponent, two), one)
        result = op.Where(is_odd, op.Mul(result, base), result)
        base = op.Mul(base, base)
        exponent = op.Div(exponent, two)
        is_left = op.Cast(op.ReduceMax(exponent, keepdims=0), to=9)
    return result
