"""The gamma function's logarithm and its derivatives, and the zeta function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.dtypes import computed_in_double, const, widen
from opbridge.translations.lib.pointwise import select
from opbridge.translations.lib.polynomials import polynomial
from opbridge.translations.registry import builtin

__all__ = ["log_gamma"]

# Bernoulli's numbers B2, B4, ..., B16: the asymptotic series of all functions here are made of them.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_SHIFT = 10


def _shifted_arguments(x: Any, rank: int) -> Any:
    """x, x + 1, ..., x + 9, along a last axis."""
    return op.Unsqueeze(x, [rank]) + const(np.arange(float(_SHIFT)))


def _sine_of_pi(x: Any) -> Any:
    """|sin(pi x)|, 0 for whole numbers."""
    return op.Sin((x - op.Floor(x)) * math.pi)


def log_gamma(x: Any, rank: int) -> Any:
    """The logarithm of |gamma(x)| for x in double, of rank `rank`."""
    reflected = x < 0.5
    positive = op.Where(reflected, 1.0 - x, x)
    # Stirling's series wants large arguments: gamma(x) = gamma(x + 10) / (x (x + 1) ... (x + 9)).
    small = positive < float(_SHIFT)
    large = op.Where(small, positive + float(_SHIFT), positive)
    product = op.ReduceProd(_shifted_arguments(op.Where(small, positive, 1.0), rank), [rank], keepdims=0)
    inverse = op.Reciprocal(large)
    series = [number / (2 * k * (2 * k - 1)) for k, number in enumerate(_BERNOULLI, 1)]
    value = (large - 0.5) * (op.Log(large) - 1.0) + inverse * polynomial(inverse * inverse, series[::-1])
    value = value + (0.5 * math.log(2.0 * math.pi) - 0.5)
    value = op.Where(small, value - op.Log(product), value)
    value = op.Where(reflected, math.log(math.pi) - op.Log(_sine_of_pi(x)) - value, value)
    return op.Where(op.IsInf(x), math.inf, value)


@builtin("aten::lgamma", "aten::special_gammaln")
@computed_in_double
def lgamma(self):
    """lgamma(Tensor self) -> Tensor"""
    return log_gamma(self, len(self.shape))


@builtin("aten::mvlgamma", "aten::special_multigammaln")
@computed_in_double
def mvlgamma(self, p: int):
    """mvlgamma(Tensor self, int p) -> Tensor"""
    rank = len(self.shape)
    total: Any = p * (p - 1) * math.log(math.pi) / 4
    for index in range(p):
        total = log_gamma(self - index * 0.5, rank) + total
    return total


def _digamma(x: Any, rank: int) -> Any:
    negative = x < 0.0
    positive = op.Where(negative, 1.0 - x, x)
    small = positive < float(_SHIFT)
    large = op.Where(small, positive + float(_SHIFT), positive)
    reciprocals = op.ReduceSum(op.Reciprocal(_shifted_arguments(positive, rank)), [rank], keepdims=0)
    inverse = op.Reciprocal(large)
    square = inverse * inverse
    series = [number / (2 * k) for k, number in enumerate(_BERNOULLI, 1)]
    value = op.Log(large) - inverse * 0.5 - square * polynomial(square, series[::-1])
    value = op.Where(small, value - reciprocals, value)
    turn = (x - op.Floor(x)) * math.pi
    value = op.Where(negative, value - op.Cos(turn) / op.Sin(turn) * math.pi, value)
    # At 0 the sign of the infinity is opposite to that of the zero; there is none at the other poles.
    return select(
        (op.Equal(x, 0.0), -op.Reciprocal(x)), (op.And(negative, op.Equal(x, op.Floor(x))), math.nan), otherwise=value
    )


@builtin("aten::digamma", "aten::special_digamma", "aten::special_psi")
@computed_in_double
def digamma(self):
    """digamma(Tensor self) -> Tensor"""
    return _digamma(self, len(self.shape))


@builtin("aten::polygamma")
def polygamma(n: int, self):
    """polygamma(int n, Tensor self) -> Tensor"""
    rank = len(self.shape)
    wide = op.Cast(self, to=ir.DataType.DOUBLE)
    if n == 0:
        value = _digamma(wide, rank)
    elif n == 1:
        value = _trigamma(widen(self), wide, rank)
    else:
        value = _zeta(n + 1.0, wide, rank) * float((-1) ** (n + 1) * math.factorial(n))
    return op.Cast(value, to=self.dtype)


def _trigamma(own: Any, x: Any, rank: int) -> Any:
    """The derivative of digamma, by torch's formula; `own` is x in the type of the input."""
    reflected = x < 0.5
    positive = op.Where(reflected, 1.0 - x, x)
    squares = op.Unsqueeze(positive, [rank]) + const(np.arange(6.0))
    total = op.ReduceSum(op.Reciprocal(squares * squares), [rank], keepdims=0)
    inverse = op.Reciprocal(positive + 6.0)
    square = inverse * inverse
    total = total + inverse * (inverse * 0.5 + square * polynomial(square, _BERNOULLI[2::-1]) + 1.0)
    # The sine is taken in the input's type: near the poles its rounding decides on torch's results.
    sine = op.Cast(op.Sin(own * math.pi), to=ir.DataType.DOUBLE)
    return op.Where(reflected, math.pi**2 / (sine * sine) - total, total)


# Hurwitz's zeta function


@builtin("aten::special_zeta", "aten::special_zeta.other_scalar", "aten::special_zeta.self_scalar")
@computed_in_double
def special_zeta(self, other):
    """special_zeta(Tensor self, Tensor other) -> Tensor"""
    tensors: list[Any] = [each for each in (self, other) if isinstance(each, ir.Value)]
    rank = max(len(each.shape) for each in tensors)
    return _zeta(self, other, rank)


def _zeta(x: Any, q: Any, rank: int) -> Any:
    """The sum of (q + k) ** -x over k >= 0: the first terms one by one, the rest by Euler and Maclaurin's formula."""
    if not isinstance(x, ir.Value):
        x = const(float(x), np.float64)
    if not isinstance(q, ir.Value):
        q = const(float(q), np.float64)
    lowest = op.ReduceMin(q, keepdims=0)
    # As many terms more as the lowest q is below zero.
    more = op.Cast(op.Clip(-op.Floor(lowest), 0.0, 10000.0), to=ir.DataType.INT64)
    terms = more + 16
    shifts = op.Cast(op.Range(0, terms, 1), to=ir.DataType.DOUBLE)
    exponent = -x
    addends = op.Pow(op.Unsqueeze(q, [-1]) + shifts, op.Unsqueeze(exponent, [-1]))
    total = op.ReduceSum(addends, [rank], keepdims=0)
    rest = q + op.Cast(terms, to=ir.DataType.DOUBLE)
    power = op.Pow(rest, exponent)
    total = total + power * (rest / (x - 1.0) + 0.5)
    inverse = op.Reciprocal(rest)
    square = inverse * inverse
    factor = x * inverse * power
    for k, number in enumerate(_BERNOULLI, 1):
        total = total + factor * (number / math.factorial(2 * k))
        if k < len(_BERNOULLI):
            factor = factor * square * (x + (2.0 * k - 1.0)) * (x + 2.0 * k)
    whole_q, whole_x = op.Equal(q, op.Floor(q)), op.Equal(x, op.Floor(x))
    not_positive = q <= 0.0
    return select(
        (op.Equal(x, 1.0), math.inf),
        (x < 1.0, math.nan),
        (op.And(not_positive, whole_q), math.inf),
        (op.And(not_positive, op.Not(whole_x)), math.nan),
        otherwise=total,
    )
