"""Random numbers: of the right distribution, new in each run of a session, and not those that torch would draw.

ONNX Runtime has kernels of the random operators up to opset 21. For models from opset 22 on, random bits are taken from
the mask of a Dropout that drops half of its input, the one random operator whose newest form it runs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op
from onnxscript import opset22 as op22

from opbridge.translations.lib.dtypes import cast, const, convert, default_float, is_tensor
from opbridge.translations.lib.promotion import promote
from opbridge.translations.registry import builtin

__all__ = ["normal_of", "uniform_of"]

_INT64, _FLOAT, _DOUBLE = ir.DataType.INT64, ir.DataType.FLOAT, ir.DataType.DOUBLE

# What random numbers are made of


def _has_random_kernels(shape: Any) -> bool:
    """Whether ONNX Runtime has kernels of the random operators at the opset of the model that a value belongs to."""
    builder = getattr(shape, "builder", None)
    # Other exporters than opbridge's build for opset 18.
    return builder is None or builder.opset < 22


def uniform_of(shape: Any, dtype: ir.DataType) -> Any:
    """Numbers from 0 on and below 1, of a shape that is a tensor; `dtype` is float or double."""
    if _has_random_kernels(shape):
        return op.RandomUniformLike(_blank(shape), dtype=dtype)
    # As many random bits as the type has binary digits, 24 to a float32: exact in any order of summation.
    parts = 1 if dtype == _FLOAT else 2
    digits = const(np.kron(np.eye(parts), 0.5 ** np.arange(1, 25)), _FLOAT)
    count = op.ReduceProd(shape, keepdims=1)
    zeros = op.ConstantOfShape(op.Concat([24 * parts], count, axis=0), value=ir.tensor([0.0], dtype=_FLOAT))
    _, mask = op22.Dropout(zeros, const(0.5, _FLOAT), const(True))
    numbers = op.MatMul(digits, cast(mask, _FLOAT))
    if dtype == _DOUBLE:
        numbers = op.MatMul(const([[1.0, 0.5**24]], _DOUBLE), cast(numbers, _DOUBLE))
    return op.Reshape(numbers, shape, allowzero=1)


def normal_of(shape: Any, dtype: ir.DataType) -> Any:
    """Numbers of the standard normal distribution, of any floating type."""
    drawn = _DOUBLE if dtype == _DOUBLE else _FLOAT
    if _has_random_kernels(shape):
        return cast(op.RandomNormalLike(_blank(shape), dtype=drawn), dtype)
    # The Box-Muller transform.
    length = op.Sqrt(op.Mul(op.Log(op.Sub(1.0, uniform_of(shape, _DOUBLE))), -2.0))
    angle = op.Mul(uniform_of(shape, _DOUBLE), 2 * math.pi)
    return cast(cast(op.Mul(length, op.Cos(angle)), drawn), dtype)


def _blank(shape: Any) -> Any:
    """A tensor that gives its shape to a random operator; one byte an element costs least."""
    return op.ConstantOfShape(shape, value=ir.tensor([0], dtype=ir.DataType.INT8))


def _shape(size: Any) -> Any:
    """Sizes as a tensor."""
    if is_tensor(size):
        return size
    if all(isinstance(each, int) for each in size):
        return const(list(size), _INT64)
    parts = [op.Reshape(each, [1]) if is_tensor(each) else const([each], _INT64) for each in size]
    return op.Concat(*parts, axis=0)


def _type(dtype: Any, otherwise: Any = None) -> ir.DataType:
    return ir.DataType((otherwise or default_float()) if dtype in (None, -1) else dtype)


def _uniform_as(shape: Any, dtype: ir.DataType) -> Any:
    """Numbers from 0 on and below 1, of any floating type; those of 16 bits are rounded down, as 1 is left out."""
    numbers = uniform_of(shape, _DOUBLE if dtype == _DOUBLE else _FLOAT)
    if dtype in (_DOUBLE, _FLOAT):
        return numbers
    steps = {ir.DataType.FLOAT16: 2.0**11, ir.DataType.BFLOAT16: 2.0**8}[dtype]
    return cast(op.Div(op.Floor(op.Mul(numbers, steps)), steps), dtype)


# Uniform numbers


@builtin("aten::rand", "aten::rand.generator")
def rand(size, dtype=None):
    """rand(SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return _uniform_as(_shape(size), _type(dtype))


@builtin("aten::rand_like", "aten::rand_like.generator")
def rand_like(self, dtype=None):
    """rand_like(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor"""
    return _uniform_as(op.Shape(self), _type(dtype, self.dtype))


@builtin("aten::uniform", "aten::uniform_")
def uniform(self, low=0.0, high=1.0):
    """uniform(Tensor self, float from=0, float to=1, *, Generator? generator=None) -> Tensor"""
    numbers = _uniform_as(op.Shape(self), self.dtype)
    return op.Add(op.Mul(numbers, float(high - low)), float(low))


def _integers(shape: Any, low: Any, high: Any, dtype: ir.DataType) -> Any:
    """Integers from `low` on and below `high`."""
    low, high = (cast(each, _DOUBLE) if is_tensor(each) else const(each, _DOUBLE) for each in (low, high))
    steps = op.Floor(op.Mul(uniform_of(shape, _DOUBLE), op.Sub(high, low)))
    return convert(op.Add(steps, low), dtype)


@builtin("aten::randint", "aten::randint.generator")
def randint(high, size, dtype=_INT64):
    """randint(SymInt high, SymInt[] size, *, ScalarType? dtype=long, ...) -> Tensor"""
    return _integers(_shape(size), 0, high, _type(dtype, _INT64))


@builtin("aten::randint.low", "aten::randint.low_generator")
def randint_low(low, high, size, dtype=_INT64):
    """randint.low(SymInt low, SymInt high, SymInt[] size, *, ScalarType? dtype=long, ...) -> Tensor"""
    return _integers(_shape(size), low, high, _type(dtype, _INT64))


@builtin(
    "aten::randint_like",
    "aten::randint_like.Tensor",
    "aten::randint_like.generator",
    "aten::randint_like.Tensor_generator",
)
def randint_like(self, high, dtype=None):
    """randint_like(Tensor self, SymInt high, *, ScalarType? dtype=None, ...) -> Tensor"""
    return _integers(op.Shape(self), 0, high, _type(dtype, self.dtype))


@builtin("aten::randint_like.low_dtype", "aten::randint_like.low_generator_dtype")
def randint_like_low(self, low, high, dtype=None):
    """randint_like.low_dtype(Tensor self, SymInt low, SymInt high, *, ScalarType? dtype=None, ...) -> Tensor"""
    return _integers(op.Shape(self), low, high, _type(dtype, self.dtype))


@builtin("aten::random_.to", "aten::random.to")
def random_to(self, to):
    """random.to(Tensor self, int to, *, Generator? generator=None) -> Tensor"""
    return _integers(op.Shape(self), 0, to, self.dtype)


@builtin("aten::random_.from", "aten::random.from")
def random_from(self, low, high):
    """random.from(Tensor self, int from, int? to, *, Generator? generator=None) -> Tensor"""
    # Without an end, up to the largest number that the type holds exactly.
    return _integers(op.Shape(self), low, _largest(self.dtype) + 1 if high is None else high, self.dtype)


@builtin("aten::random_", "aten::random")
def random_(self):
    """random(Tensor self, *, Generator? generator=None) -> Tensor"""
    return _integers(op.Shape(self), 0, _largest(self.dtype) + 1, self.dtype)


def _largest(dtype: ir.DataType) -> int:
    """The largest integer that torch draws for a type; where it is floating, all up to that are exact in it."""
    if dtype == ir.DataType.BOOL:
        return 1
    if dtype in _DIGITS:
        return 1 << _DIGITS[dtype]
    return int(np.iinfo(dtype.numpy()).max)


_DIGITS = {ir.DataType.FLOAT16: 11, ir.DataType.BFLOAT16: 8, _FLOAT: 24, _DOUBLE: 53}


@builtin("aten::randperm", "aten::randperm.generator")
def randperm(n, dtype=_INT64):
    """randperm(SymInt n, *, ScalarType? dtype=long, ...) -> Tensor"""
    count = op.Reshape(n, [1]) if is_tensor(n) else const([n], _INT64)
    _, order = op.TopK(uniform_of(count, _DOUBLE), count)
    return cast(order, _type(dtype, _INT64))


# Normal numbers


@builtin("aten::randn", "aten::randn.generator")
def randn(size, dtype=None):
    """randn(SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return normal_of(_shape(size), _type(dtype))


@builtin("aten::randn_like", "aten::randn_like.generator")
def randn_like(self, dtype=None):
    """randn_like(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor"""
    return normal_of(op.Shape(self), _type(dtype, self.dtype))


@builtin("aten::normal_", "aten::normal_functional")
def normal_like(self, mean=0.0, std=1.0):
    """normal_functional(Tensor self, float mean=0, float std=1, *, Generator? generator=None) -> Tensor"""
    return _scaled(normal_of(op.Shape(self), self.dtype), mean, std)


@builtin("aten::normal.float_float")
def normal_numbers(mean, std, size, dtype=None):
    """normal.float_float(float mean, float std, SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return _scaled(normal_of(_shape(size), _type(dtype)), mean, std)


@builtin("aten::normal.Tensor_float", "aten::normal.float_Tensor", "aten::normal.Tensor_Tensor")
def normal_tensors(mean, std=1.0):
    """normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor"""
    given = next(each for each in (mean, std) if is_tensor(each))
    mean, std = promote(mean, std, dtype=given.dtype)
    return _scaled(normal_of(op.Shape(op.Add(mean, std)), given.dtype), mean, std)


def _scaled(numbers: Any, mean: Any, std: Any) -> Any:
    return op.Add(op.Mul(numbers, std), mean)


@builtin("aten::log_normal", "aten::log_normal_")
def log_normal(self, mean=1.0, std=2.0):
    """log_normal(Tensor self, float mean=1, float std=2, *, Generator? generator=None) -> Tensor"""
    return op.Exp(_scaled(normal_of(op.Shape(self), self.dtype), mean, std))


# Others


@builtin("aten::bernoulli")
def bernoulli(self):
    """bernoulli(Tensor self, *, Generator? generator=None) -> Tensor"""
    return _bernoulli(op.Shape(self), self, self.dtype)


@builtin("aten::bernoulli.p", "aten::bernoulli_.float")
def bernoulli_number(self, p=0.5):
    """bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor"""
    return _bernoulli(op.Shape(self), p, self.dtype)


@builtin("aten::bernoulli.Tensor", "aten::bernoulli_.Tensor")
def bernoulli_tensor(self, p):
    """bernoulli.Tensor(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor"""
    return _bernoulli(op.Shape(self), p, self.dtype)


def _bernoulli(shape: Any, chance: Any, dtype: ir.DataType) -> Any:
    """1 with a chance, else 0. ONNX Runtime's own Bernoulli has 1 and 0 the other way round."""
    wanted = cast(chance, _DOUBLE) if is_tensor(chance) else const(chance, _DOUBLE)
    return cast(op.Less(uniform_of(shape, _DOUBLE), wanted), dtype)


@builtin("aten::exponential", "aten::exponential_")
def exponential(self, lambd=1.0):
    """exponential(Tensor self, float lambd=1, *, Generator? generator=None) -> Tensor"""
    return cast(op.Div(_exponential(op.Shape(self)), float(lambd)), self.dtype)


def _exponential(shape: Any) -> Any:
    # 1 minus a number below 1 is above 0, so the logarithm is finite.
    return op.Neg(op.Log(op.Sub(1.0, uniform_of(shape, _DOUBLE))))


@builtin("aten::geometric", "aten::geometric_")
def geometric(self, p):
    """geometric(Tensor self, float p, *, Generator? generator=None) -> Tensor"""
    trials = op.Ceil(op.Div(_exponential(op.Shape(self)), -math.log1p(-p)))
    return convert(op.Max(trials, 1.0), self.dtype)


@builtin("aten::cauchy", "aten::cauchy_")
def cauchy(self, median=0.0, sigma=1.0):
    """cauchy(Tensor self, float median=0, float sigma=1, *, Generator? generator=None) -> Tensor"""
    turned = op.Mul(op.Sub(uniform_of(op.Shape(self), _DOUBLE), 0.5), math.pi)
    slope = op.Div(op.Sin(turned), op.Cos(turned))
    return cast(op.Add(op.Mul(slope, float(sigma)), float(median)), self.dtype)


@builtin("aten::multinomial")
def multinomial(self, num_samples, replacement: bool = False):
    """multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor"""
    weights = cast(self, _DOUBLE)
    count = op.Reshape(num_samples, [1]) if is_tensor(num_samples) else const([num_samples], _INT64)
    if not replacement and not (isinstance(num_samples, int) and num_samples == 1):
        # The first of several exponential clocks rings for one of them with the chance that its rate gives it.
        times = op.Div(weights, _exponential(op.Shape(self)))
        return op.TopK(times, count)[1]
    chances = op.CumSum(weights, -1)
    chances = op.Div(chances, op.Gather(chances, [-1], axis=len(self.shape) - 1))
    drawn = uniform_of(op.Concat(op.Shape(self, start=0, end=-1), count, axis=0), _DOUBLE)
    passed = op.LessOrEqual(op.Unsqueeze(chances, [-2]), op.Unsqueeze(drawn, [-1]))
    return op.ReduceSum(cast(passed, _INT64), [-1], keepdims=0)
