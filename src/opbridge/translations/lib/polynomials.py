"""Polynomials, their quotients and Chebyshev series, of which functions that ONNX does not have are made."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from opbridge.translations.lib.dtypes import is_tensor

__all__ = ["chebyshev", "polynomial", "rational"]


def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """A polynomial, given by its coefficients from the highest power on."""
    result: Any = coefficients[0]
    for coefficient in coefficients[1:]:
        # A factor of 1 needs no node.
        result = (x if result == 1.0 else x * result) if not is_tensor(result) else result * x
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
