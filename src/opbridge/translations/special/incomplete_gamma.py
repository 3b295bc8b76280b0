"""The regularized incomplete gamma functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.dtypes import computed_in_double, const
from opbridge.translations.lib.pointwise import select
from opbridge.translations.registry import builtin
from opbridge.translations.special.gamma_functions import log_gamma

_NODES, _WEIGHTS = np.polynomial.laguerre.laggauss(64)


@builtin("aten::igamma", "aten::special_gammainc")
@computed_in_double
def igamma(self, other):
    """igamma(Tensor self, Tensor other) -> Tensor"""
    lower, upper, is_small = _lower_and_upper(self, other)
    return _with_limits(self, other, op.Where(is_small, lower, 1.0 - upper), at_zero=0.0, at_infinity=1.0)


@builtin("aten::igammac", "aten::special_gammaincc")
@computed_in_double
def igammac(self, other):
    """igammac(Tensor self, Tensor other) -> Tensor"""
    lower, upper, is_small = _lower_and_upper(self, other)
    return _with_limits(self, other, op.Where(is_small, 1.0 - lower, upper), at_zero=1.0, at_infinity=0.0)


def _lower_and_upper(a: Any, x: Any) -> tuple[Any, Any, Any]:
    """The lower function where x is at most a little above a, the upper one elsewhere, and which of the two applies.

    In their places neither has cancelling terms, and the other one is 1 minus it.
    """
    rank = max(len(a.shape), len(x.shape))
    is_small = x < a + op.Sqrt(op.Abs(a)) * 1.3 + 1.0
    # x ** a exp(-x) / gamma(a + 1)
    front = op.Exp(a * op.Log(x) - x - log_gamma(a + 1.0, rank))
    return front * _series(a, x, is_small, rank), front * a * _integral(a, x, rank), is_small


def _series(a: Any, x: Any, is_small: Any, rank: int) -> Any:
    """1 + x / (a + 1) + x ** 2 / ((a + 1) (a + 2)) + ...: as many terms as the largest a needs."""
    a, x = op.Where(is_small, op.Abs(a), 0.0), op.Where(is_small, op.Abs(x), 0.0)
    steps = op.Clip(op.Sqrt(op.ReduceMax(a, keepdims=0)) * 11.0 + 60.0, 60.0, 20000.0)
    counts = op.Cast(op.Range(1, op.Cast(steps, to=ir.DataType.INT64), 1), to=ir.DataType.DOUBLE)
    ratios = op.Unsqueeze(x, [rank]) / (op.Unsqueeze(a, [rank]) + counts)
    terms = op.Exp(op.CumSum(op.Log(ratios), rank))
    return op.ReduceSum(terms, [rank], keepdims=0) + 1.0


def _integral(a: Any, x: Any, rank: int) -> Any:
    """The integral of exp(-v) exp((a - 1) (log(1 + v / h) - v / h)) over v >= 0, over h = x - a + 1, by quadrature."""
    slope = op.Max(x - a + 1.0, 1e-3)
    v = const(_NODES) / op.Unsqueeze(slope, [rank])
    curve = op.Unsqueeze(a - 1.0, [rank]) * (op.Log(v + 1.0) - v)
    return op.ReduceSum(op.Exp(curve) * const(_WEIGHTS), [rank], keepdims=0) / slope


def _with_limits(a: Any, x: Any, value: Any, *, at_zero: float, at_infinity: float) -> Any:
    """torch's values where an argument is zero, infinite or negative."""
    infinite_a, infinite_x = op.IsInf(a), op.IsInf(x)
    zero_a, zero_x = op.Equal(a, 0.0), op.Equal(x, 0.0)
    undefined = op.Or(op.Or(a < 0.0, x < 0.0), op.Or(op.And(zero_a, zero_x), op.And(infinite_a, infinite_x)))
    return select(
        (undefined, math.nan),
        (op.Or(zero_x, infinite_a), at_zero),
        (op.Or(zero_a, infinite_x), at_infinity),
        otherwise=value,
    )
