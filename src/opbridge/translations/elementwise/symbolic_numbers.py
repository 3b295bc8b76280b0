"""Arithmetic of sizes and other numbers that are known only when the model runs: int64, double and bool scalars."""

from __future__ import annotations

import functools
import math
from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.translations.lib.dims import dim_of
from opbridge.translations.lib.dtypes import cast, cast_like, is_float, is_tensor
from opbridge.translations.registry import builtin

_BOOL, _INT64, _DOUBLE = ir.DataType.BOOL, ir.DataType.INT64, ir.DataType.DOUBLE


def _number(value: Any) -> Any:
    """A number in the one integer and the one floating type that Python has."""
    if not is_tensor(value):
        return op.Constant(value=ir.tensor(value, dtype=_DOUBLE if isinstance(value, float) else _INT64))
    if value.dtype == _BOOL:
        return cast(value, _INT64)
    return cast(value, _DOUBLE) if is_float(value) else cast(value, _INT64)


def _numbers(*values: Any, floating: bool = False) -> list[Any]:
    """Numbers of one type: double where one of them is."""
    found = [_number(value) for value in values]
    if floating or any(value.dtype == _DOUBLE for value in found):
        return [cast(value, _DOUBLE) for value in found]
    return found


@builtin("_operator::add")
def add(a, b):
    """a + b"""
    return op.Add(*_numbers(a, b))


@builtin("_operator::sub")
def sub(a, b):
    """a - b"""
    return op.Sub(*_numbers(a, b))


@builtin("_operator::mul")
def mul(a, b):
    """a * b"""
    return op.Mul(*_numbers(a, b))


@builtin("_operator::truediv")
def truediv(a, b):
    """a / b"""
    return op.Div(*_numbers(a, b, floating=True))


@builtin("_operator::floordiv")
def floordiv(a, b):
    """a // b"""
    x, y = _numbers(a, b)
    if x.dtype == _DOUBLE:
        return op.Floor(op.Div(x, y))
    return op.Div(op.Sub(x, op.Mod(x, y)), y)


@builtin("_operator::mod")
def mod(a, b):
    """a % b"""
    x, y = _numbers(a, b)
    return op.Sub(x, op.Mul(op.Floor(op.Div(x, y)), y)) if x.dtype == _DOUBLE else op.Mod(x, y)


@builtin("_operator::pow", "math::pow")
def pow_(a, b):
    """a ** b"""
    if isinstance(b, int) and 0 < b <= 8:
        (x,) = _numbers(a)
        return functools.reduce(op.Mul, [x] * b)
    return op.Pow(*_numbers(a, b))


@builtin("_operator::neg")
def neg(a):
    """-a"""
    return op.Neg(_number(a))


@builtin("_operator::pos")
def pos(a):
    """+a"""
    return op.Identity(a)


@builtin("_operator::abs")
def abs_(a):
    """abs(a)"""
    return op.Abs(_number(a))


@builtin("_operator::eq")
def eq(a, b):
    """a == b"""
    return op.Equal(*_numbers(a, b))


@builtin("_operator::ne")
def ne(a, b):
    """a != b"""
    return op.Not(op.Equal(*_numbers(a, b)))


@builtin("_operator::lt")
def lt(a, b):
    """a < b"""
    return op.Less(*_numbers(a, b))


@builtin("_operator::le")
def le(a, b):
    """a <= b"""
    return op.LessOrEqual(*_numbers(a, b))


@builtin("_operator::gt")
def gt(a, b):
    """a > b"""
    return op.Greater(*_numbers(a, b))


@builtin("_operator::ge")
def ge(a, b):
    """a >= b"""
    return op.GreaterOrEqual(*_numbers(a, b))


def _as_bool(value: Any) -> Any:
    return cast(value, _BOOL) if is_tensor(value) else op.Constant(value=ir.tensor(bool(value)))


@builtin("_operator::and_")
def and_(a, b):
    """a & b"""
    return _bits(a, b, op.And, op.BitwiseAnd)


@builtin("_operator::or_")
def or_(a, b):
    """a | b"""
    return _bits(a, b, op.Or, op.BitwiseOr)


@builtin("_operator::xor")
def xor(a, b):
    """a ^ b"""
    return _bits(a, b, op.Xor, op.BitwiseXor)


def _bits(a: Any, b: Any, of_truths: Any, of_integers: Any) -> Any:
    if any(isinstance(value, bool) or (is_tensor(value) and value.dtype == _BOOL) for value in (a, b)):
        return of_truths(_as_bool(a), _as_bool(b))
    return of_integers(_number(a), _number(b))


@builtin("_operator::not_", "torch::sym_not")
def not_(a):
    """not a"""
    return op.Not(_as_bool(a))


@builtin("_operator::lshift", "_operator::__lshift__")
def lshift(a, b):
    """a << b"""
    x, y = _numbers(a, b)
    return op.Mul(x, op.Pow(cast_like(2, x), y))


@builtin("_operator::rshift", "_operator::__rshift__")
def rshift(a, b):
    """a >> b"""
    x, y = _numbers(a, b)
    return floordiv(x, op.Pow(cast_like(2, x), y))


@builtin("torch::sym_max")
def sym_max(a, b):
    """max(a, b)"""
    return op.Max(*_numbers(a, b))


@builtin("torch::sym_min")
def sym_min(a, b):
    """min(a, b)"""
    return op.Min(*_numbers(a, b))


@builtin("torch::sym_sum")
def sym_sum(args):
    """sum(args)"""
    return functools.reduce(op.Add, _numbers(*args))


@builtin("torch::sym_ite")
def sym_ite(b, t, f):
    """t if b else f"""
    return op.Where(_as_bool(b), *_numbers(t, f))


@builtin("torch::sym_float")
def sym_float(a):
    """float(a)"""
    return cast(_number(a), _DOUBLE)


@builtin("torch::sym_int", "math::trunc")
def sym_int(a):
    """int(a), towards zero"""
    return cast(_number(a), _INT64)


@builtin("math::floor")
def floor(a):
    """The largest integer that is not above a number."""
    x = _number(a)
    return cast(op.Floor(x), _INT64) if is_float(x) else x


@builtin("math::ceil")
def ceil(a):
    """The smallest integer that is not below a number."""
    x = _number(a)
    return cast(op.Ceil(x), _INT64) if is_float(x) else x


@builtin("builtins::round")
def round_(a, ndigits=None):
    """round(a), to the even one of two; with `ndigits`, to that place after the decimal point."""
    x = _number(a)
    if not is_float(x):
        return x
    if ndigits is None:
        return cast(op.Round(x), _INT64)
    if not isinstance(ndigits, int):
        raise TranslationError(
            "The number of decimal places for rounding is computed at run time. Pass ndigits as a number."
        )
    if abs(ndigits) > _EXACT_POWERS:
        raise TranslationError(f"Rounding is supported to at most {_EXACT_POWERS} decimal places.")
    return _rounded_decimal(x, float(10 ** abs(ndigits)), is_fraction=ndigits >= 0)


_EXACT_POWERS = 22
"""Powers of ten up to this one are doubles."""


def _rounded_decimal(x: Any, power: float, *, is_fraction: bool) -> Any:
    """A double rounded as Python does, by its exact value: 2.675, which is a little less, to 2.67.

    What is rounded is the product with the power of ten, or the quotient. Half-way between two integers, which it may
    be by its own rounding alone, what that has left out decides.
    """
    scale = _number(power)
    scaled = op.Mul(x, scale) if is_fraction else op.Div(x, scale)
    product, error = _exact_product(x if is_fraction else scaled, scale)
    error = error if is_fraction else op.Sub(op.Sub(x, product), error)
    below = op.Floor(scaled)
    is_half = op.Equal(op.Sub(scaled, below), _number(0.5))
    by_error = op.Where(op.Greater(error, _number(0.0)), op.Add(below, _number(1.0)), below)
    is_tie = op.Or(op.Not(is_half), op.Equal(error, _number(0.0)))
    rounded = op.Where(is_tie, op.Round(scaled), by_error)
    found = op.Div(rounded, scale) if is_fraction else op.Mul(rounded, scale)
    # From there on, and for what is not finite, there is nothing after the place.
    return op.Where(op.Less(op.Abs(scaled), _number(2.0**52)), found, x)


def _exact_product(x: Any, y: Any) -> tuple[Any, Any]:
    """The product of two doubles, and what its rounding has left out (Dekker's product)."""
    product = op.Mul(x, y)
    (high, low), (other_high, other_low) = _halves(x), _halves(y)
    error = op.Sub(op.Mul(high, other_high), product)
    error = op.Add(op.Add(error, op.Mul(high, other_low)), op.Mul(low, other_high))
    return product, op.Add(error, op.Mul(low, other_low))


def _halves(x: Any) -> tuple[Any, Any]:
    """Two numbers of half as many digits whose sum is a double."""
    large = op.Mul(x, _number(134217729.0))  # 2**27 + 1
    high = op.Sub(large, op.Sub(large, x))
    return high, op.Sub(x, high)


@builtin("math::sqrt", "torch::sym_sqrt", "torch::_sym_sqrt")
def sqrt(a):
    """The square root, in double."""
    return op.Sqrt(cast(_number(a), _DOUBLE))


@builtin("torch::_sym_log2")
def log2(a):
    """The logarithm to the base 2, in double."""
    return op.Div(op.Log(cast(_number(a), _DOUBLE)), math.log(2))


# Numbers out of tensors


@builtin("aten::sym_size.int", "aten::size.int")
def sym_size(self, dim: int):
    """sym_size.int(Tensor self, int dim) -> SymInt"""
    size = dim_of(self, dim)
    return op.Constant(value_int=int(size)) if size.is_known else size.value


@builtin("aten::sym_numel", "aten::numel")
def sym_numel(self):
    """sym_numel(Tensor self) -> SymInt"""
    return op.Size(self)


@builtin("aten::sym_stride.int")
def sym_stride(self, dim: int):
    """sym_stride.int(Tensor self, int dim) -> SymInt

    A tensor of the graph has no strides; those of a contiguous tensor of its size are given.
    """
    dim = dim + len(self.shape) if dim < 0 else dim
    return op.ReduceProd(op.Shape(self, start=dim + 1), keepdims=0)


@builtin("aten::sym_storage_offset")
def sym_storage_offset(self):
    """sym_storage_offset(Tensor self) -> SymInt"""
    return op.Constant(value_int=0)


@builtin("aten::item", "aten::_local_scalar_dense")
def item(self):
    """item(Tensor self) -> Scalar"""
    # Python has one type of integers and one of floating numbers.
    value = self if self.dtype == _BOOL else cast(self, _DOUBLE if is_float(self) else _INT64)
    return op.Reshape(value, op.Constant(value=ir.tensor([], dtype=_INT64)))
