"""Bessel functions of the first and second kind, modified ones, spherical j0, and Airy's Ai.

In Cephes the denominators of J, Y and Ai have a leading 1 that is not part of their tables. PyTorch leaves it out,
which moves its results by up to 7e-7; so it is left out here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from onnxscript import opset18 as op

from opbridge.translations.lib.dtypes import computed_in_double
from opbridge.translations.lib.pointwise import select
from opbridge.translations.lib.polynomials import chebyshev, polynomial, rational
from opbridge.translations.registry import builtin
from opbridge.translations.special import bessel_coefficients as table

_INF = math.inf
_ROOT = math.sqrt(2.0 / math.pi)
_Coefficients = Sequence[float]


# J and Y


def _oscillating(x: Any, order: int) -> tuple[Any, Any]:
    """J and Y of an order for x > 5: two waves with slowly changing amplitudes."""
    pp, pq, qp, qq = (
        (table.J0_PP, table.J0_PQ, table.J0_QP, table.J0_QQ)
        if order == 0
        else (table.J1_PP, table.J1_PQ, table.J1_QP, table.J1_QQ)
    )
    ratio = op.Reciprocal(x) * 5.0
    square = ratio * ratio
    even = rational(square, pp, pq)
    odd = ratio * rational(square, qp, qq)
    phase = x - (0.25 + 0.5 * order) * math.pi
    cosine, sine, scale = op.Cos(phase), op.Sin(phase), _ROOT / op.Sqrt(x)
    return (even * cosine - odd * sine) * scale, (even * sine + odd * cosine) * scale


def _j0_near(square: Any) -> Any:
    zeros = (square - 5.78318596294678452118) * (square - 30.4712623436620863991)
    return zeros * rational(square, table.J0_RP, table.J0_RQ)


def _j1_near(x: Any, square: Any) -> Any:
    zeros = (square - 14.6819706421238932572) * (square - 49.2184563216946036703)
    return x * zeros * rational(square, table.J1_RP, table.J1_RQ)


@builtin("aten::special_bessel_j0")
@computed_in_double
def special_bessel_j0(self):
    """special_bessel_j0(Tensor self) -> Tensor"""
    x = op.Abs(self)
    return op.Where(x <= 5.0, _j0_near(x * x), _oscillating(x, 0)[0])


@builtin("aten::special_bessel_j1")
@computed_in_double
def special_bessel_j1(self):
    """special_bessel_j1(Tensor self) -> Tensor"""
    x = op.Abs(self)
    far = _oscillating(x, 1)[0]
    return op.Where(x <= 5.0, _j1_near(self, self * self), op.Where(self < 0.0, -far, far))


@builtin("aten::special_bessel_y0")
@computed_in_double
def special_bessel_y0(self):
    """special_bessel_y0(Tensor self) -> Tensor"""
    square = self * self
    near = rational(square, table.Y0_YP, table.Y0_YQ) + op.Log(self) * _j0_near(square) * (2.0 / math.pi)
    return _for_positive(self, 5.0, near, _oscillating(self, 0)[1], at_zero=-_INF)


@builtin("aten::special_bessel_y1")
@computed_in_double
def special_bessel_y1(self):
    """special_bessel_y1(Tensor self) -> Tensor"""
    square = self * self
    singular = _j1_near(self, square) * op.Log(self) - op.Reciprocal(self)
    near = self * rational(square, table.Y1_YP, table.Y1_YQ) + singular * (2.0 / math.pi)
    return _for_positive(self, 5.0, near, _oscillating(self, 1)[1], at_zero=-_INF)


def _for_positive(x: Any, limit: float, near: Any, far: Any, *, at_zero: float) -> Any:
    """A function that is not defined for negative x and has a pole at 0."""
    return select((op.Equal(x, 0.0), at_zero), (x < 0.0, math.nan), (x <= limit, near), otherwise=far)


# I and K


def _scaled_i(x: Any, near: _Coefficients, far: _Coefficients) -> Any:
    """exp(-x) I(x) for x >= 0; for I1 without the factor x where x <= 8."""
    beyond = chebyshev(op.Reciprocal(x) * 32.0 - 2.0, far) / op.Sqrt(x)
    return chebyshev(x * 0.5 - 2.0, near), beyond


def _i0e(x: Any) -> Any:
    x = op.Abs(x)
    near, far = _scaled_i(x, table.I0_A, table.I0_B)
    return op.Where(x <= 8.0, near, far)


def _i1e(x: Any) -> Any:
    magnitude = op.Abs(x)
    near, far = _scaled_i(magnitude, table.I1_A, table.I1_B)
    return op.Where(magnitude <= 8.0, near * x, op.Where(x < 0.0, -far, far))


@builtin("aten::special_i0e")
@computed_in_double
def special_i0e(self):
    """special_i0e(Tensor self) -> Tensor"""
    return _i0e(self)


@builtin("aten::i0", "aten::special_i0", "aten::special_modified_bessel_i0")
@computed_in_double
def i0(self):
    """i0(Tensor self) -> Tensor"""
    return _i0e(self) * op.Exp(op.Abs(self))


@builtin("aten::special_i1e")
@computed_in_double
def special_i1e(self):
    """special_i1e(Tensor self) -> Tensor"""
    return _i1e(self)


@builtin("aten::special_i1", "aten::special_modified_bessel_i1")
@computed_in_double
def special_i1(self):
    """special_i1(Tensor self) -> Tensor"""
    return _i1e(self) * op.Exp(op.Abs(self))


def _k(x: Any, order: int) -> tuple[Any, Any]:
    """K of an order for x <= 2, and exp(x) K for larger x."""
    square = x * x - 2.0
    logarithm = op.Log(x * 0.5)
    if order == 0:
        near = chebyshev(square, table.K0_A) - logarithm * chebyshev(x * 0.5 - 2.0, table.I0_A) * op.Exp(x)
    else:
        near = chebyshev(square, table.K1_A) / x + logarithm * chebyshev(x * 0.5 - 2.0, table.I1_A) * x * op.Exp(x)
    far = chebyshev(op.Reciprocal(x) * 8.0 - 2.0, table.K0_B if order == 0 else table.K1_B) / op.Sqrt(x)
    return near, far


@builtin("aten::special_modified_bessel_k0")
@computed_in_double
def special_modified_bessel_k0(self):
    """special_modified_bessel_k0(Tensor self) -> Tensor"""
    near, far = _k(self, 0)
    return _for_positive(self, 2.0, near, far * op.Exp(-self), at_zero=_INF)


@builtin("aten::special_modified_bessel_k1")
@computed_in_double
def special_modified_bessel_k1(self):
    """special_modified_bessel_k1(Tensor self) -> Tensor"""
    near, far = _k(self, 1)
    return _for_positive(self, 2.0, near, far * op.Exp(-self), at_zero=_INF)


@builtin("aten::special_scaled_modified_bessel_k0")
@computed_in_double
def special_scaled_modified_bessel_k0(x):
    """special_scaled_modified_bessel_k0(Tensor x) -> Tensor"""
    near, far = _k(x, 0)
    return _for_positive(x, 2.0, near * op.Exp(x), far, at_zero=_INF)


@builtin("aten::special_scaled_modified_bessel_k1")
@computed_in_double
def special_scaled_modified_bessel_k1(x):
    """special_scaled_modified_bessel_k1(Tensor x) -> Tensor"""
    near, far = _k(x, 1)
    return _for_positive(x, 2.0, near * op.Exp(x), far, at_zero=_INF)


# Others


@builtin("aten::special_spherical_bessel_j0")
@computed_in_double
def special_spherical_bessel_j0(x):
    """special_spherical_bessel_j0(Tensor x) -> Tensor"""
    square = x * x
    near = polynomial(square, [(-1.0) ** power / math.factorial(2 * power + 1) for power in range(6, -1, -1)])
    return select((op.Abs(x) < 0.5, near), (op.IsInf(x), 0.0), otherwise=op.Sin(x) / x)


@builtin("aten::special_airy_ai")
@computed_in_double
def special_airy_ai(x):
    """special_airy_ai(Tensor x) -> Tensor"""
    root = op.Sqrt(op.Abs(x))
    zeta = op.Abs(x) * root * (2.0 / 3.0)
    inverse = op.Reciprocal(zeta)
    scale = (1.0 / math.sqrt(math.pi)) / op.Sqrt(root)
    decaying = rational(inverse, table.AIRY_AN, table.AIRY_AD) * scale * 0.5 * op.Exp(-zeta)
    square = inverse * inverse
    phase = zeta + 0.25 * math.pi
    even = square * rational(square, table.AIRY_AFN, table.AIRY_AFD) + 1.0
    odd = inverse * rational(square, table.AIRY_AGN, table.AIRY_AGD)
    waves = scale * (op.Sin(phase) * even - op.Cos(phase) * odd)
    one, other = [1.0], [1.0]
    for index in range(1, 14):
        one.append(one[-1] / ((3 * index - 1) * (3 * index)))
        other.append(other[-1] / ((3 * index) * (3 * index + 1)))
    cube = x * x * x
    near = polynomial(cube, one[::-1]) * 0.3550280538878172 - x * polynomial(cube, other[::-1]) * 0.2588194037928068
    return select((op.IsInf(x), math.nan), (x < -2.09, waves), (x < 2.09, near), otherwise=decaying)
