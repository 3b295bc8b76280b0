"""The error function's relatives: scaled, complementary, inverse, and the normal distribution's."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.dtypes import computed_in_double, widen
from opbridge.translations.lib.pointwise import select
from opbridge.translations.lib.polynomials import rational
from opbridge.translations.registry import builtin

_ROOT_HALF = math.sqrt(0.5)
_DOUBLE = ir.DataType.DOUBLE

# W. J. Cody, "Rational Chebyshev approximations for the error function", Math. Comp. 23 (1969): for |x| <= 0.46875,
# for |x| <= 4 and beyond; highest power first.
_ERF = (
    (1.85777706184603153e-1, 3.16112374387056560, 1.13864154151050156e2, 3.77485237685302021e2, 3.20937758913846947e3),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3),
)
_ERFCX = (
    (
        *(2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594, 6.61191906371416295e1),
        *(2.98635138197400131e2, 8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3),
        1.23033935479799725e3,
    ),
    (
        *(1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3),
        *(3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3),
    ),
)
_ERFCX_FAR = (
    (
        *(1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1),
        *(1.60837851487422766e-2, 6.58749161529837803e-4),
    ),
    (
        *(1.0, 2.56852019228982242, 1.87295284992346725, 5.27905102951428412e-1, 6.05183413124413191e-2),
        2.33520497626869185e-3,
    ),
)


def _erf_near(x: Any) -> Any:
    return x * rational(x * x, *_ERF)


def _erfcx_of_positive(x: Any) -> Any:
    """exp(x * x) erfc(x) for x > 0.46875."""
    inverse = op.Reciprocal(x)
    square = inverse * inverse
    far = inverse * (1.0 / math.sqrt(math.pi) - square * rational(square, *_ERFCX_FAR))
    return op.Where(x <= 4.0, rational(x, *_ERFCX), far)


def _erfcx(x: Any, square: Any) -> Any:
    magnitude = op.Abs(x)
    power = op.Exp(square)
    tail = _erfcx_of_positive(magnitude)
    # 2 exp(x * x) overflows to inf below -26.6, as the function does.
    return select((magnitude <= 0.46875, power * (1.0 - _erf_near(x))), (x < 0.0, power * 2.0 - tail), otherwise=tail)


def _erfc(x: Any) -> Any:
    magnitude = op.Abs(x)
    tail = _erfcx_of_positive(magnitude) * op.Exp(-(x * x))
    return select((magnitude <= 0.46875, 1.0 - _erf_near(x)), (x < 0.0, 2.0 - tail), otherwise=tail)


def _erf(x: Any) -> Any:
    magnitude = op.Abs(x)
    tail = 1.0 - _erfcx_of_positive(magnitude) * op.Exp(-(x * x))
    return select((magnitude <= 0.46875, _erf_near(x)), (x < 0.0, -tail), otherwise=tail)


@builtin("aten::erf", "aten::special_erf")
def erf(self):
    """erf(Tensor self) -> Tensor"""
    # ONNX Runtime has no kernel for double.
    return _erf(self) if self.dtype == _DOUBLE else op.Erf(self)


@builtin("aten::erfc", "aten::special_erfc")
@computed_in_double
def erfc(self):
    """erfc(Tensor self) -> Tensor"""
    return _erfc(self)


@builtin("aten::special_erfcx")
def special_erfcx(self):
    """special_erfcx(Tensor self) -> Tensor"""
    # The square is taken in the input's type: its rounding error, which exp makes larger, is part of torch's results.
    square = op.Cast(widen(self) * widen(self), to=_DOUBLE)
    return op.Cast(_erfcx(op.Cast(self, to=_DOUBLE), square), to=self.dtype)


@builtin("aten::special_log_ndtr")
@computed_in_double
def special_log_ndtr(self):
    """special_log_ndtr(Tensor self) -> Tensor"""
    scaled = self * _ROOT_HALF
    # The log of a small probability by way of erfcx, which does not underflow; of a large one as log(1 - p).
    square = scaled * scaled
    small = op.Log(_erfcx(-scaled, square) * 0.5) - square
    complement = _erfc(scaled) * 0.5
    rounded = 1.0 - complement
    # log1p: what rounding took from 1 - p is put back to first order.
    large = op.Log(rounded) - (complement - (1.0 - rounded)) / rounded
    return op.Where(self < -1.0, small, large)


# Inverses

# S. L. Moshier, Cephes: for |p - 1/2| <= 3/8, for sqrt(-2 log p) < 8 and beyond; highest power first.
_NDTRI = (
    (
        *(-5.99633501014107895267e1, 9.80010754185999661536e1, -5.66762857469070293439e1),
        *(1.39312609387279679503e1, -1.23916583867381258016),
    ),
    (
        *(1.0, 1.95448858338141759834, 4.67627912898881538453, 8.63602421390890590575e1),
        *(-2.25462687854119370527e2, 2.00260212380060660359e2, -8.20372256168333339912e1),
        *(1.59056225126211695515e1, -1.18331621121330003142),
    ),
)
_NDTRI_TAIL = (
    (
        *(4.05544892305962419923, 3.15251094599893866154e1, 5.71628192246421288162e1, 4.40805073893200834700e1),
        *(1.46849561928858024014e1, 2.18663306850790267539, -1.40256079171354495875e-1),
        *(-3.50424626827848203418e-2, -8.57456785154685413611e-4),
    ),
    (
        *(1.0, 1.57799883256466749731e1, 4.53907635128879210584e1, 4.13172038254672030440e1),
        *(1.50425385692907503408e1, 2.50464946208309415979, -1.42182922854787788574e-1),
        *(-3.80806407691578277194e-2, -9.33259480895457427372e-4),
    ),
)
_NDTRI_FAR = (
    (
        *(3.23774891776946035970, 6.91522889068984211695, 3.93881025292474443415, 1.33303460815807542389),
        *(2.01485389549179081538e-1, 1.23716634817820021358e-2, 3.01581553508235416007e-4),
        *(2.65806974686737550832e-6, 6.23974539184983293730e-9),
    ),
    (
        *(1.0, 6.02427039364742014255, 3.67983563856160859403, 1.37702099489081330271),
        *(2.16236993594496635890e-1, 1.34204006088543189037e-2, 3.28014464682127739104e-4),
        *(2.89247864745380683936e-6, 6.79019408009981274425e-9),
    ),
)
_EXP_MINUS_2 = math.exp(-2.0)


def _upper_quantile(probability: Any) -> Any:
    """Where the normal distribution leaves less than exp(-2) above it."""
    x = op.Sqrt(op.Log(probability) * -2.0)
    z = op.Reciprocal(x)
    tail = op.Where(x < 8.0, rational(z, *_NDTRI_TAIL), rational(z, *_NDTRI_FAR))
    return x - op.Log(x) * z - z * tail


def _central_quantile(offset: Any) -> Any:
    """Where the distribution reaches 1/2 + offset."""
    square = offset * offset
    return (offset + offset * square * rational(square, *_NDTRI)) * math.sqrt(2.0 * math.pi)


@builtin("aten::special_ndtri")
@computed_in_double
def special_ndtri(self):
    """special_ndtri(Tensor self) -> Tensor"""
    high = self > 1.0 - _EXP_MINUS_2
    rest = op.Where(high, 1.0 - self, self)
    tail = _upper_quantile(rest)
    return select(
        (op.Equal(self, 0.0), -math.inf),
        (op.Equal(self, 1.0), math.inf),
        (op.Not(op.And(self > 0.0, self < 1.0)), math.nan),
        (rest > _EXP_MINUS_2, _central_quantile(rest - 0.5)),
        otherwise=op.Where(high, tail, -tail),
    )


@builtin("aten::erfinv", "aten::special_erfinv")
@computed_in_double
def erfinv(self):
    """erfinv(Tensor self) -> Tensor"""
    magnitude = op.Abs(self)
    # erfinv(y) = ndtri((1 + y) / 2) / sqrt(2), with the tail's probability (1 - |y|) / 2 free of cancellation.
    rest = (1.0 - magnitude) * 0.5
    tail = _upper_quantile(rest)
    return select(
        (op.Equal(magnitude, 1.0), self * math.inf),
        (op.Not(magnitude < 1.0), math.nan),
        (rest > _EXP_MINUS_2, _central_quantile(self * 0.5) * _ROOT_HALF),
        otherwise=op.Where(self < 0.0, -tail, tail) * _ROOT_HALF,
    )
