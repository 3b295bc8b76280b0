"""Polynomials and the like, for functions that ONNX does not have.

They are evaluated in double whatever the type of the input, so that one set of coefficients is exact enough for all.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.common import FLOATS

__all__ = ["chebyshev", "in_double", "polynomial", "rational", "select"]


def in_double(function: Callable[..., Any]) -> Callable[..., Any]:
    """A translation that computes in double and gives the type of its first floating tensor, or else float."""

    @functools.wraps(function)
    def wide(*args: Any, **kwargs: Any) -> Any:
        tensors = [value for value in args if isinstance(value, ir.Value)]
        dtype = next((value.dtype for value in tensors if value.dtype in FLOATS), ir.DataType.FLOAT)

        def widen(value: Any) -> Any:
            if not isinstance(value, ir.Value) or value.dtype == ir.DataType.DOUBLE:
                return value
            cast = op.Cast(value, to=ir.DataType.DOUBLE)
            if cast.shape is None:
                cast.shape = value.shape
            return cast

        return op.Cast(function(*map(widen, args), **kwargs), to=dtype)

    return wide


def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """A polynomial, given by its coefficients from the highest power on."""
    result: Any = coefficients[0]
    for coefficient in coefficients[1:]:
        # A factor of 1 needs no node.
        result = (x if result == 1.0 else x * result) if not isinstance(result, ir.Value) else result * x
        result = result + coefficient
    return result


def rational(x: Any, above: Sequence[float], below: Sequence[float]) -> Any:
    """The quotient of two polynomials."""
    return polynomial(x, above) / polynomial(x, below)


def chebyshev(x: Any, coefficients: Sequence[float]) -> Any:
    """A series of Chebyshev polynomials of x / 2, from the highest on, the lowest one halved, as Cephes has them."""
    return polynomial(x, _powers(tuple(coefficients)))


@functools.cache
def _powers(coefficients: tuple[float, ...]) -> tuple[float, ...]:
    """The same series in powers of x, which takes one operation less a term and loses nothing for |x| <= 2."""
    total = [Fraction(0)] * len(coefficients)
    previous, current = [Fraction(1)], [Fraction(0), Fraction(1, 2)]
    for order, coefficient in enumerate(reversed(coefficients)):
        for power, factor in enumerate(previous):
            total[power] += Fraction(coefficient) * factor / (1 if order else 2)
        # T(n + 1) = 2 (x / 2) T(n) - T(n - 1)
        following = [Fraction(0), *current]
        for power, factor in enumerate(previous):
            following[power] -= factor
        previous, current = current, following
    return tuple(float(value) for value in reversed(total))


def select(*cases: tuple[Any, Any], otherwise: Any) -> Any:
    """The value of the first case that holds; `cases` are pairs of condition and value."""
    result = otherwise
    for condition, value in reversed(cases):
        result = op.Where(condition, value, result)
    return result
