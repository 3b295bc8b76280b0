"""Chebyshev, Hermite, Laguerre and Legendre polynomials."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.translations.lib.dtypes import cast_like, computed_in_double, const
from opbridge.translations.lib.pointwise import cosh_by_exp, select
from opbridge.translations.registry import builtin

_DOUBLE, _FLOAT, _INT64 = ir.DataType.DOUBLE, ir.DataType.FLOAT, ir.DataType.INT64
_LONGEST = 128


def _register(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """For the three overloads: two tensors, and a number for either."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        def polynomial(x, n):
            return function(x if isinstance(x, ir.Value) else const(float(x), np.float64), n)

        polynomial.__name__, polynomial.__doc__ = function.__name__, function.__doc__
        operator = f"aten::special_{name}"
        return builtin(operator, f"{operator}.x_scalar", f"{operator}.n_scalar")(computed_in_double(polynomial))

    return decorate


# Chebyshev's, at any degree: with x = cos(angle) they are quotients of sines and cosines of its multiples, and beyond
# [-1, 1] of hyperbolic ones.


@_register("chebyshev_polynomial_t")
def chebyshev_polynomial_t(x, n):
    """special_chebyshev_polynomial_t(Tensor x, Tensor n) -> Tensor"""
    return _first_kind(x, n)


@_register("chebyshev_polynomial_u")
def chebyshev_polynomial_u(x, n):
    """special_chebyshev_polynomial_u(Tensor x, Tensor n) -> Tensor"""
    return _second_kind(x, n)


@_register("chebyshev_polynomial_v")
def chebyshev_polynomial_v(x, n):
    """special_chebyshev_polynomial_v(Tensor x, Tensor n) -> Tensor"""
    return _third_kind(x, n)


@_register("chebyshev_polynomial_w")
def chebyshev_polynomial_w(x, n):
    """special_chebyshev_polynomial_w(Tensor x, Tensor n) -> Tensor"""
    return _fourth_kind(x, n)


@_register("shifted_chebyshev_polynomial_t")
def shifted_chebyshev_polynomial_t(x, n):
    """special_shifted_chebyshev_polynomial_t(Tensor x, Tensor n) -> Tensor"""
    return _first_kind(x * 2.0 - 1.0, n)


@_register("shifted_chebyshev_polynomial_u")
def shifted_chebyshev_polynomial_u(x, n):
    """special_shifted_chebyshev_polynomial_u(Tensor x, Tensor n) -> Tensor"""
    return _second_kind(x * 2.0 - 1.0, n)


@_register("shifted_chebyshev_polynomial_v")
def shifted_chebyshev_polynomial_v(x, n):
    """special_shifted_chebyshev_polynomial_v(Tensor x, Tensor n) -> Tensor"""
    return _third_kind(x * 2.0 - 1.0, n)


@_register("shifted_chebyshev_polynomial_w")
def shifted_chebyshev_polynomial_w(x, n):
    """special_shifted_chebyshev_polynomial_w(Tensor x, Tensor n) -> Tensor"""
    return _fourth_kind(x * 2.0 - 1.0, n)


def _first_kind(x: Any, n: Any) -> Any:
    degree, odd, angle, growth = _terms(x, n)
    inside = op.Cos(degree * angle)
    beyond = _signed(cosh_by_exp(degree * growth), op.And(x < 0.0, odd))
    return _by_range(x, degree, inside, beyond)


def _second_kind(x: Any, n: Any) -> Any:
    degree, odd, angle, growth = _terms(x, n)
    more = degree + 1.0
    inside = op.Sin(more * angle) / op.Sin(angle)
    beyond = _signed(_sinh(more * growth) / _sinh(growth), op.And(x < 0.0, odd))
    at_end = _signed(more, op.And(x < 0.0, odd))
    return _by_range(x, degree, inside, beyond, at_end)


def _third_kind(x: Any, n: Any) -> Any:
    degree, odd, angle, growth = _terms(x, n)
    more = degree + 0.5
    inside = op.Cos(more * angle) / op.Cos(angle * 0.5)
    right = cosh_by_exp(more * growth) / cosh_by_exp(growth * 0.5)
    left = _signed(_sinh(more * growth) / _sinh(growth * 0.5), odd)
    at_end = op.Where(x > 0.0, 1.0, _signed(degree * 2.0 + 1.0, odd))
    return _by_range(x, degree, inside, op.Where(x > 0.0, right, left), at_end)


def _fourth_kind(x: Any, n: Any) -> Any:
    degree, odd, angle, growth = _terms(x, n)
    more = degree + 0.5
    inside = op.Sin(more * angle) / op.Sin(angle * 0.5)
    right = _sinh(more * growth) / _sinh(growth * 0.5)
    left = _signed(cosh_by_exp(more * growth) / cosh_by_exp(growth * 0.5), odd)
    one = op.Where(odd, -1.0, cast_like(1.0, degree))
    at_end = op.Where(x > 0.0, degree * 2.0 + 1.0, one)
    return _by_range(x, degree, inside, op.Where(x > 0.0, right, left), at_end)


def _terms(x: Any, n: Any) -> tuple[Any, Any, Any, Any]:
    """The degree, a whole number, whether it is odd, and the angle and its counterpart beyond [-1, 1]."""
    given = n if isinstance(n, ir.Value) else op.Constant(value_float=float(n))
    degree = op.Cast(op.Cast(given, to=_INT64), to=_DOUBLE)
    odd = op.Equal(op.Mod(degree, 2.0, fmod=1), 1.0)
    magnitude = op.Abs(x)
    # angle = 2 asin(sqrt((1 - |x|) / 2)), which is exact at the ends too; ONNX Runtime's Asin is float, so one step
    # of Newton's method follows.
    chord = op.Sqrt(op.Max((1.0 - magnitude) * 0.5, 0.0))
    half = op.Cast(op.Asin(op.Cast(chord, to=_FLOAT)), to=_DOUBLE)
    half = half - (op.Sin(half) - chord) / op.Cos(half)
    angle = op.Where(x < 0.0, math.pi - half * 2.0, half * 2.0)
    # acosh(|x|), without cancellation near 1.
    excess = op.Max(magnitude - 1.0, 0.0)
    rest = excess + op.Sqrt(excess * (excess + 2.0))
    return degree, odd, angle, _log1p_to_first_order(rest)


def _log1p_to_first_order(x: Any) -> Any:
    """log(1 + x), with fewer operators than the translation of aten::log1p."""
    rounded = x + 1.0
    # What rounding took from 1 + x is put back to first order.
    return op.Log(rounded) + (x - (rounded - 1.0)) / rounded


def _sinh(x: Any) -> Any:
    """For quotients: at small x by its series, where the difference of the exponentials would cancel."""
    square = x * x
    return op.Where(x < 0.01, x * (square * (square * (1 / 120) + 1 / 6) + 1.0), (op.Exp(x) - op.Exp(-x)) * 0.5)


def _signed(value: Any, negative: Any) -> Any:
    return op.Where(negative, -value, value)


def _by_range(x: Any, degree: Any, inside: Any, beyond: Any, at_end: Any = None) -> Any:
    magnitude = op.Abs(x)
    ends = [] if at_end is None else [(op.Equal(magnitude, 1.0), at_end)]
    return select((degree < 0.0, 0.0), *ends, (magnitude < 1.0, inside), otherwise=beyond)


# The others, by their recurrences: of constant degree


@_register("hermite_polynomial_h")
def hermite_polynomial_h(x, n):
    """special_hermite_polynomial_h(Tensor x, Tensor n) -> Tensor"""
    return _recurrence("hermite_polynomial_h", x, n, lambda x: x * 2.0, lambda x, k, q, p: x * 2.0 * q - p * (2.0 * k))


@_register("hermite_polynomial_he")
def hermite_polynomial_he(x, n):
    """special_hermite_polynomial_he(Tensor x, Tensor n) -> Tensor"""
    return _recurrence("hermite_polynomial_he", x, n, lambda x: x, lambda x, k, q, p: x * q - p * float(k))


@_register("laguerre_polynomial_l")
def laguerre_polynomial_l(x, n):
    """special_laguerre_polynomial_l(Tensor x, Tensor n) -> Tensor"""

    def following(x: Any, k: int, q: Any, p: Any) -> Any:
        return ((2.0 * k + 1.0 - x) * q - p * float(k)) * (1.0 / (k + 1))

    return _recurrence("laguerre_polynomial_l", x, n, lambda x: 1.0 - x, following)


@_register("legendre_polynomial_p")
def legendre_polynomial_p(x, n):
    """special_legendre_polynomial_p(Tensor x, Tensor n) -> Tensor"""

    def following(x: Any, k: int, q: Any, p: Any) -> Any:
        return (x * q * (2.0 * k + 1.0) - p * float(k)) * (1.0 / (k + 1))

    return _recurrence("legendre_polynomial_p", x, n, lambda x: x, following)


def _recurrence(
    name: str, x: Any, n: Any, first: Callable[[Any], Any], following: Callable[[Any, int, Any, Any], Any]
) -> Any:
    """p(0) = 1, p(1) = first, p(k + 1) = following(x, k, p(k), p(k - 1))."""
    known = n if not isinstance(n, ir.Value) else _constant(n)
    if known is None:
        raise TranslationError(
            f"special_{name} is supported only for degrees that are known at export. Pass n as a number."
        )
    listed = [known] if not hasattr(known, "ravel") else known.ravel().tolist()
    if not all(map(math.isfinite, listed)):
        raise TranslationError(f"special_{name} has no finite degree here. Pass n as a number.")
    degrees = [int(degree) for degree in listed]
    highest = max(degrees, default=0)
    if highest > _LONGEST:
        raise TranslationError(
            f"special_{name} of degree {highest} would require {highest} steps, but at most {_LONGEST} are "
            "supported. Compute it in the model with the operators of its closed form."
        )
    values = [x * 0.0 + 1.0, first(x)]
    for k in range(1, highest):
        values.append(following(x, k, values[-1], values[-2]))
    if not isinstance(n, ir.Value):
        return values[degrees[0]] if degrees[0] >= 0 else x * 0.0
    whole = op.Cast(n, to=_INT64)
    result = x * 0.0
    for degree in sorted({degree for degree in degrees if degree >= 0}):
        result = op.Where(op.Equal(whole, degree), values[degree], result)
    return result


def _constant(value: Any) -> Any:
    """The numbers of a value that is known at export, also behind a conversion."""
    while value is not None and value.const_value is None:
        producer = value.producer()
        if producer is None or producer.op_type != "Cast":
            return None
        value = producer.inputs[0]
    return None if value is None else value.const_value.numpy()
