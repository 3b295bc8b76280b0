"""Random numbers: of the right distribution, new in each run of a session, and not those that torch would draw.

ONNX Runtime has kernels of the random operators up to opset 21. From opset 22 on its one source of chance is Dropout,
whose mask of even odds gives random bits.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op
from onnxscript import opset22 as op22

from opbridge.translations.lib.dtypes import cast, const, convert, is_tensor
from opbridge.translations.lib.promotion import promote
from opbridge.translations.registry import builtin

_INT64, _FLOAT, _DOUBLE = ir.DataType.INT64, ir.DataType.FLOAT, ir.DataType.DOUBLE


class _Source(NamedTuple):
    """Where chance comes from: functions of a shape and a type, float or double."""

    uniform: Callable[[Any, ir.DataType], Any]
    normal: Callable[[Any, ir.DataType], Any]


def _blank(shape: Any) -> Any:
    """A tensor that gives its shape to a random operator; one byte an element costs least."""
    return op.ConstantOfShape(shape, value=ir.tensor([0], dtype=ir.DataType.INT8))


def _uniform_by_operator(shape: Any, dtype: ir.DataType) -> Any:
    return op.RandomUniformLike(_blank(shape), dtype=dtype)


def _normal_by_operator(shape: Any, dtype: ir.DataType) -> Any:
    return op.RandomNormalLike(_blank(shape), dtype=dtype)


def _uniform_by_bits(shape: Any, dtype: ir.DataType) -> Any:
    """As many random bits as a number of the type has, put together as its binary digits; exact in any order."""
    bits = 24 if dtype == _FLOAT else 48
    digits = const(0.5 ** np.arange(1, bits + 1).reshape(1, bits), dtype)
    count = op.ReduceProd(shape, keepdims=1)
    zeros = op.ConstantOfShape(op.Concat([bits], count, axis=0), value=ir.tensor([0.0], dtype=_FLOAT))
    _, mask = op22.Dropout(zeros, const(0.5, _FLOAT), const(True))
    return op.Reshape(op.MatMul(digits, cast(mask, dtype)), shape, allowzero=1)


def _normal_by_bits(shape: Any, dtype: ir.DataType) -> Any:
    """Box and Muller's way: a random length in a random direction."""
    length = op.Sqrt(op.Mul(op.Log(op.Sub(1.0, _uniform_by_bits(shape, _DOUBLE))), -2.0))
    angle = op.Mul(_uniform_by_bits(shape, _DOUBLE), 2 * math.pi)
    return cast(op.Mul(length, op.Cos(angle)), dtype)


_SOURCES = {
    18: _Source(_uniform_by_operator, _normal_by_operator),
    22: _Source(_uniform_by_bits, _normal_by_bits),
}


def _random(*operators: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a translation once for each source of chance, which it takes as `source`."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for opset, source in _SOURCES.items():
            builtin(*operators, opset=opset)(_drawing_from(source, function))
        return function

    return register


def _drawing_from(source: _Source, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function without its parameter `source`, which its signature does not show either."""

    @functools.wraps(function)
    def drawing(*args: Any, **kwargs: Any) -> Any:
        return function(*args, source=source, **kwargs)

    signature = inspect.signature(function)
    shown = [parameter for name, parameter in signature.parameters.items() if name != "source"]
    drawing.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    del drawing.__wrapped__
    return drawing


def _shape(size: Any) -> Any:
    """Sizes as a tensor."""
    if is_tensor(size):
        return size
    if all(isinstance(each, int) for each in size):
        return const(list(size), _INT64)
    parts = [op.Reshape(each, [1]) if is_tensor(each) else const([each], _INT64) for each in size]
    return op.Concat(*parts, axis=0)


def _type(dtype: Any, otherwise: Any = _FLOAT) -> ir.DataType:
    return ir.DataType(otherwise if dtype in (None, -1) else dtype)


def _drawn(draw: Callable[[Any, ir.DataType], Any], shape: Any, dtype: ir.DataType) -> Any:
    """Numbers of a type; of 16-bit types from float32's, which may not round up to 1."""
    numbers = draw(shape, _DOUBLE if dtype == _DOUBLE else _FLOAT)
    if dtype in (_DOUBLE, _FLOAT):
        return numbers
    steps = {ir.DataType.FLOAT16: 2.0**11, ir.DataType.BFLOAT16: 2.0**8}[dtype]
    return cast(op.Div(op.Floor(op.Mul(numbers, steps)), steps), dtype)


# Uniform numbers


@_random("aten::rand")
def rand(size, dtype=None, *, source):
    """rand(SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return _drawn(source.uniform, _shape(size), _type(dtype))


@_random("aten::rand_like")
def rand_like(self, dtype=None, *, source):
    """rand_like(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor"""
    return _drawn(source.uniform, op.Shape(self), _type(dtype, self.dtype))


@_random("aten::uniform", "aten::uniform_")
def uniform(self, *bounds, source, **named):
    """uniform(Tensor self, float from=0, float to=1, *, Generator? generator=None) -> Tensor"""
    # The schema calls its first bound "from", which Python does not.
    low = bounds[0] if bounds else named.get("from", 0.0)
    high = bounds[1] if len(bounds) > 1 else named.get("to", 1.0)
    numbers = _drawn(source.uniform, op.Shape(self), self.dtype)
    return op.Add(op.Mul(numbers, float(high - low)), float(low))


def _integers(shape: Any, low: Any, high: Any, dtype: ir.DataType, source: _Source) -> Any:
    """Integers from `low` on and below `high`."""
    low, high = (cast(each, _DOUBLE) if is_tensor(each) else const(each, _DOUBLE) for each in (low, high))
    steps = op.Floor(op.Mul(source.uniform(shape, _DOUBLE), op.Sub(high, low)))
    return convert(op.Add(steps, low), dtype)


@_random("aten::randint")
def randint(high, size, dtype=None, *, source):
    """randint(SymInt high, SymInt[] size, *, ScalarType? dtype=long, ...) -> Tensor"""
    return _integers(_shape(size), 0, high, _type(dtype, _INT64), source)


@_random("aten::randint.low")
def randint_low(low, high, size, dtype=None, *, source):
    """randint.low(SymInt low, SymInt high, SymInt[] size, *, ScalarType? dtype=long, ...) -> Tensor"""
    return _integers(_shape(size), low, high, _type(dtype, _INT64), source)


@_random("aten::randint_like", "aten::randint_like.Tensor")
def randint_like(self, high, dtype=None, *, source):
    """randint_like(Tensor self, SymInt high, *, ScalarType? dtype=None, ...) -> Tensor"""
    return _integers(op.Shape(self), 0, high, _type(dtype, self.dtype), source)


@_random("aten::randint_like.low_dtype")
def randint_like_low(self, low, high, dtype=None, *, source):
    """randint_like.low_dtype(Tensor self, SymInt low, SymInt high, *, ScalarType? dtype=None, ...) -> Tensor"""
    return _integers(op.Shape(self), low, high, _type(dtype, self.dtype), source)


@_random("aten::random_.to", "aten::random.to")
def random_to(self, to, *, source):
    """random.to(Tensor self, int to, *, Generator? generator=None) -> Tensor"""
    return _integers(op.Shape(self), 0, to, self.dtype, source)


@_random("aten::randperm")
def randperm(n, dtype=None, *, source):
    """randperm(SymInt n, *, ScalarType? dtype=long, ...) -> Tensor"""
    count = op.Reshape(n, [1]) if is_tensor(n) else const([n], _INT64)
    _, order = op.TopK(source.uniform(count, _DOUBLE), count)
    return cast(order, _type(dtype, _INT64))


# Normal numbers


@_random("aten::randn")
def randn(size, dtype=None, *, source):
    """randn(SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return _normal(_shape(size), _type(dtype), source)


@_random("aten::randn_like")
def randn_like(self, dtype=None, *, source):
    """randn_like(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor"""
    return _normal(op.Shape(self), _type(dtype, self.dtype), source)


def _normal(shape: Any, dtype: ir.DataType, source: _Source) -> Any:
    return cast(source.normal(shape, _DOUBLE if dtype == _DOUBLE else _FLOAT), dtype)


@_random("aten::normal_", "aten::normal_functional")
def normal_like(self, mean=0.0, std=1.0, *, source):
    """normal_functional(Tensor self, float mean=0, float std=1, *, Generator? generator=None) -> Tensor"""
    return _scaled(_normal(op.Shape(self), self.dtype, source), mean, std)


@_random("aten::normal.float_float")
def normal_numbers(mean, std, size, dtype=None, *, source):
    """normal.float_float(float mean, float std, SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return _scaled(_normal(_shape(size), _type(dtype), source), mean, std)


@_random("aten::normal.Tensor_float", "aten::normal.float_Tensor", "aten::normal.Tensor_Tensor")
def normal_tensors(mean, std=1.0, *, source):
    """normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor"""
    given = next(each for each in (mean, std) if is_tensor(each))
    mean, std = promote(mean, std, dtype=given.dtype)
    return _scaled(_normal(op.Shape(op.Add(mean, std)), given.dtype, source), mean, std)


def _scaled(numbers: Any, mean: Any, std: Any) -> Any:
    return op.Add(op.Mul(numbers, std), mean)


@_random("aten::log_normal", "aten::log_normal_")
def log_normal(self, mean=1.0, std=2.0, *, source):
    """log_normal(Tensor self, float mean=1, float std=2, *, Generator? generator=None) -> Tensor"""
    return op.Exp(_scaled(_normal(op.Shape(self), self.dtype, source), mean, std))


# Others


@_random("aten::bernoulli")
def bernoulli(self, *, source):
    """bernoulli(Tensor self, *, Generator? generator=None) -> Tensor"""
    return _bernoulli(op.Shape(self), self, self.dtype, source)


@_random("aten::bernoulli.p", "aten::bernoulli_.float")
def bernoulli_number(self, p=0.5, *, source):
    """bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor"""
    return _bernoulli(op.Shape(self), p, self.dtype, source)


@_random("aten::bernoulli.Tensor", "aten::bernoulli_.Tensor")
def bernoulli_tensor(self, p, *, source):
    """bernoulli.Tensor(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor"""
    return _bernoulli(op.Shape(self), p, self.dtype, source)


def _bernoulli(shape: Any, chance: Any, dtype: ir.DataType, source: _Source) -> Any:
    """1 with a chance, else 0. ONNX Runtime's own Bernoulli has 1 and 0 the other way round."""
    wanted = cast(chance, _DOUBLE) if is_tensor(chance) else const(chance, _DOUBLE)
    return cast(op.Less(source.uniform(shape, _DOUBLE), wanted), dtype)


@_random("aten::exponential", "aten::exponential_")
def exponential(self, lambd=1.0, *, source):
    """exponential(Tensor self, float lambd=1, *, Generator? generator=None) -> Tensor"""
    return cast(op.Div(_exponential(op.Shape(self), source), float(lambd)), self.dtype)


def _exponential(shape: Any, source: _Source) -> Any:
    # 1 minus a number below 1 is above 0, so the logarithm is finite.
    return op.Neg(op.Log(op.Sub(1.0, source.uniform(shape, _DOUBLE))))


@_random("aten::geometric", "aten::geometric_")
def geometric(self, p, *, source):
    """geometric(Tensor self, float p, *, Generator? generator=None) -> Tensor"""
    trials = op.Ceil(op.Div(_exponential(op.Shape(self), source), -math.log1p(-p)))
    return convert(op.Max(trials, 1.0), self.dtype)


@_random("aten::cauchy", "aten::cauchy_")
def cauchy(self, median=0.0, sigma=1.0, *, source):
    """cauchy(Tensor self, float median=0, float sigma=1, *, Generator? generator=None) -> Tensor"""
    turned = op.Mul(op.Sub(source.uniform(op.Shape(self), _DOUBLE), 0.5), math.pi)
    slope = op.Div(op.Sin(turned), op.Cos(turned))
    return cast(op.Add(op.Mul(slope, float(sigma)), float(median)), self.dtype)


@_random("aten::multinomial")
def multinomial(self, num_samples, replacement: bool = False, *, source):
    """multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor"""
    weights = cast(self, _DOUBLE)
    count = op.Reshape(num_samples, [1]) if is_tensor(num_samples) else const([num_samples], _INT64)
    if not replacement and not (isinstance(num_samples, int) and num_samples == 1):
        # The first of several exponential clocks rings for one of them with the chance that its rate gives it.
        times = op.Div(weights, _exponential(op.Shape(self), source))
        return op.TopK(times, count)[1]
    chances = op.CumSum(weights, -1)
    chances = op.Div(chances, op.Gather(chances, [-1], axis=len(self.shape) - 1))
    drawn = source.uniform(op.Concat(op.Shape(self, start=0, end=-1), count, axis=0), _DOUBLE)
    passed = op.LessOrEqual(op.Unsqueeze(chances, [-2]), op.Unsqueeze(drawn, [-1]))
    return op.ReduceSum(cast(passed, _INT64), [-1], keepdims=0)
