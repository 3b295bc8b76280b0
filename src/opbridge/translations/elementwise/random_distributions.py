"""Random numbers of distributions that have no inverse in closed form: gamma, Dirichlet, Poisson, binomial.

By rejection, as torch draws them: of a number of proposals, the first that is accepted is taken. The number is such
that the chance of none being accepted is below 1e-15 for every parameter. All are computed in double.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.elementwise.random_numbers import normal_of, uniform_of
from opbridge.translations.lib.dtypes import cast, const
from opbridge.translations.registry import builtin
from opbridge.translations.special.gamma_functions import log_gamma

_DOUBLE, _INT64 = ir.DataType.DOUBLE, ir.DataType.INT64

_GAMMA_PROPOSALS = 16  # each accepted with a chance above 0.95
_COUNT_PROPOSALS = 32  # each accepted with a chance above 0.75
_ARRIVALS = 80  # where fewer than 10 are to be expected, the chance of more is below 1e-45


@builtin("aten::_standard_gamma")
def standard_gamma(self):
    """_standard_gamma(Tensor self, Generator? generator=None) -> Tensor"""
    return _at_least_tiny(_gamma(cast(self, _DOUBLE)), self.dtype)


@builtin("aten::_sample_dirichlet")
def sample_dirichlet(self):
    """_sample_dirichlet(Tensor self, Generator? generator=None) -> Tensor"""
    drawn = op.Max(_gamma(cast(self, _DOUBLE)), const(_tiny(_DOUBLE), _DOUBLE))
    shares = op.Div(drawn, op.ReduceSum(drawn, [len(self.shape) - 1], keepdims=1))
    below_one = np.nextafter(self.dtype.numpy().type(1), self.dtype.numpy().type(0))
    return op.Min(_at_least_tiny(shares, self.dtype), const(below_one, self.dtype))


@builtin("aten::poisson")
def poisson(self):
    """poisson(Tensor self, Generator? generator=None) -> Tensor"""
    if 0 in self.shape:
        return op.Identity(self)
    rate = cast(self, _DOUBLE)
    drawn = op.Where(op.Less(rate, 10.0), _few_arrivals(rate), _many_arrivals(op.Max(rate, 10.0), len(self.shape)))
    return cast(op.Where(op.IsNaN(rate), rate, drawn), self.dtype)


@builtin("aten::binomial")
def binomial(count, prob):
    """binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor"""
    zero = op.Mul(cast(count, _DOUBLE), 0.0) + op.Mul(cast(prob, _DOUBLE), 0.0)  # of both shapes; nan where one is
    trials, chance = op.Add(cast(count, _DOUBLE), zero), op.Add(cast(prob, _DOUBLE), zero)
    rank = max(len(count.shape), len(prob.shape))
    if 0 in count.shape or 0 in prob.shape:
        return cast(zero, count.dtype)
    is_likely = op.Greater(chance, 0.5)
    rarer = op.Where(is_likely, op.Sub(1.0, chance), chance)
    is_rare = op.Less(op.Mul(trials, rarer), 10.0)
    # What the other form is asked to draw has to be within its range.
    many = _many_successes(op.Where(is_rare, 40.0, trials), op.Where(is_rare, 0.5, rarer), rank)
    drawn = op.Where(is_rare, _few_successes(trials, rarer), many)
    drawn = op.Where(is_likely, op.Sub(trials, drawn), drawn)
    return cast(op.Where(op.IsNaN(zero), zero, drawn), count.dtype)


def _gamma(shape: Any) -> Any:
    """Numbers of the gamma distribution of a scale of 1 and these shapes.

    G. Marsaglia, W. W. Tsang: A simple method for generating gamma variables. ACM TOMS 26 (2000) 363-372.
    """
    is_small = op.Less(shape, 1.0)
    d = op.Sub(op.Where(is_small, op.Add(shape, 1.0), shape), 1.0 / 3.0)
    wide, sizes = op.Unsqueeze(d, [-1]), _with_proposals(shape, _GAMMA_PROPOSALS)
    x = normal_of(sizes, _DOUBLE)
    root = op.Add(1.0, op.Div(x, op.Sqrt(op.Mul(wide, 9.0))))
    v = op.Mul(op.Mul(root, root), root)
    is_positive = op.Greater(v, 0.0)
    log_v = op.Log(op.Where(is_positive, v, 1.0))
    bound = op.Mul(op.Mul(x, x), 0.5) + op.Mul(wide, op.Add(op.Sub(1.0, v), log_v))
    accepted = op.And(is_positive, op.Less(op.Log(_above_zero(sizes)), bound))
    drawn = op.Mul(d, _first(accepted, v, op.Shape(shape)))
    # A shape below 1 is drawn with 1 added, and brought down by a power of a uniform number.
    exponent = op.Div(1.0, op.Where(op.Greater(shape, 0.0), shape, 1.0))
    power = op.Where(op.Equal(shape, 0.0), 0.0, op.Pow(_above_zero(op.Shape(shape)), exponent))
    return op.Where(is_small, op.Mul(drawn, power), drawn)


def _few_arrivals(rate: Any) -> Any:
    """How many events of a Poisson process of rate 1 fall into a time below 10."""
    times = op.CumSum(op.Neg(op.Log(_above_zero(_with_proposals(rate, _ARRIVALS)))), -1)
    return _count(op.Less(times, op.Unsqueeze(rate, [-1])))


def _many_arrivals(rate: Any, rank: int) -> Any:
    """Numbers of the Poisson distribution of rates of 10 and more, by transformed rejection.

    W. Hoermann: The transformed rejection method for generating Poisson random variables. Insurance: Mathematics and
    Economics 12 (1993) 39-45, PTRS.
    """
    sizes, rate = op.Shape(rate), op.Unsqueeze(rate, [-1])
    b = op.Add(op.Mul(op.Sqrt(rate), 2.53), 0.931)
    a = op.Sub(op.Mul(b, 0.02483), 0.059)
    inverse_alpha = op.Add(op.Div(1.1328, op.Sub(b, 3.4)), 1.1239)
    quick = op.Sub(0.9277, op.Div(3.6224, op.Sub(b, 2.0)))
    number, height, distance = _hat(sizes, a, b, op.Add(rate, 0.43))
    is_impossible = op.Or(op.Less(number, 0.0), _beside(distance, height))
    at_least_zero = op.Max(number, 0.0)
    above = op.Log(op.Div(op.Mul(height, inverse_alpha), op.Add(op.Div(a, op.Mul(distance, distance)), b)))
    log_chance = op.Sub(
        op.Sub(op.Mul(at_least_zero, op.Log(rate)), rate), log_gamma(op.Add(at_least_zero, 1.0), rank + 1)
    )
    return _first(_accepted(distance, height, quick, is_impossible, op.LessOrEqual(above, log_chance)), number, sizes)


def _few_successes(trials: Any, chance: Any) -> Any:
    """How many successes there are where fewer than 10 are to be expected: by the trials between two of them."""
    sizes = _with_proposals(trials, _ARRIVALS)
    log_failure = op.Unsqueeze(_log_of_one_minus(chance), [-1])
    gaps = op.Max(op.Ceil(op.Div(op.Log(_above_zero(sizes)), log_failure)), 1.0)
    gaps = op.Where(op.Less(log_failure, 0.0), gaps, const(np.inf, _DOUBLE))
    return _count(op.LessOrEqual(op.CumSum(gaps, -1), op.Unsqueeze(trials, [-1])))


def _many_successes(trials: Any, chance: Any, rank: int) -> Any:
    """Numbers of the binomial distribution, where 10 or more are to be expected, and the chance is at most 0.5.

    W. Hoermann: The generation of binomial random variates. Journal of Statistical Computation and Simulation 46
    (1993) 101-110, BTRS.
    """
    sizes = op.Shape(trials)
    n, p = op.Unsqueeze(trials, [-1]), op.Unsqueeze(chance, [-1])
    odds = op.Div(p, op.Sub(1.0, p))
    spread = op.Sqrt(op.Mul(op.Mul(n, p), op.Sub(1.0, p)))
    b = op.Add(op.Mul(spread, 2.53), 1.15)
    a = op.Add(op.Add(op.Mul(b, 0.0248), op.Mul(p, 0.01)), -0.0873)
    alpha = op.Mul(op.Add(op.Div(5.1, b), 2.83), spread)
    quick = op.Sub(0.92, op.Div(4.2, b))
    mode = op.Floor(op.Mul(op.Add(n, 1.0), p))
    number, height, distance = _hat(sizes, a, b, op.Add(op.Mul(n, p), 0.5))
    is_impossible = op.Or(op.Or(op.Less(number, 0.0), op.Greater(number, n)), _beside(distance, height))
    k = op.Min(op.Max(number, 0.0), n)
    above = op.Log(op.Div(op.Mul(height, alpha), op.Add(op.Div(a, op.Mul(distance, distance)), b)))
    at_mode = op.Add(log_gamma(op.Add(mode, 1.0), rank + 1), log_gamma(op.Add(op.Sub(n, mode), 1.0), rank + 1))
    at_k = op.Add(log_gamma(op.Add(k, 1.0), rank + 1), log_gamma(op.Add(op.Sub(n, k), 1.0), rank + 1))
    log_ratio = op.Add(op.Sub(at_mode, at_k), op.Mul(op.Sub(k, mode), op.Log(odds)))
    return _first(_accepted(distance, height, quick, is_impossible, op.LessOrEqual(above, log_ratio)), number, sizes)


def _hat(sizes: Any, a: Any, b: Any, centre: Any) -> tuple[Any, Any, Any]:
    """Proposals under the hat of transformed rejection: the whole number, the height, the distance from the edge."""
    proposed = op.Concat(sizes, [_COUNT_PROPOSALS], axis=0)
    place, height = op.Sub(uniform_of(proposed, _DOUBLE), 0.5), _above_zero(proposed)
    distance = op.Max(op.Sub(0.5, op.Abs(place)), 1e-300)
    number = op.Floor(op.Add(op.Mul(op.Add(op.Div(op.Mul(a, 2.0), distance), b), place), centre))
    return number, height, distance


def _beside(distance: Any, height: Any) -> Any:
    return op.And(op.Less(distance, 0.013), op.Greater(height, distance))


def _accepted(distance: Any, height: Any, quick: Any, is_impossible: Any, is_below: Any) -> Any:
    at_once = op.And(op.GreaterOrEqual(distance, 0.07), op.LessOrEqual(height, quick))
    return op.Or(at_once, op.And(op.Not(is_impossible), is_below))


def _log_of_one_minus(x: Any) -> Any:
    """log(1 - x) for x from 0 to 0.5, exact for small x too."""
    rest = op.Sub(1.0, x)
    # What the subtraction lost is made up for (W. Kahan).
    lost = op.Sub(1.0, rest)
    kept = op.Div(op.Mul(op.Log(rest), x), op.Where(op.Equal(lost, 0.0), 1.0, lost))
    return op.Where(op.Equal(lost, 0.0), op.Neg(x), kept)


def _first(accepted: Any, proposals: Any, sizes: Any) -> Any:
    """The first accepted proposal along the last axis; the rest is of shape `sizes`."""
    index = op.ArgMax(cast(accepted, ir.DataType.INT32), axis=-1, keepdims=1)
    # Reshape takes what onnxruntime makes of no elements, which Squeeze does not.
    return op.Reshape(op.GatherElements(proposals, index, axis=-1), sizes, allowzero=1)


def _with_proposals(x: Any, number: int) -> Any:
    return op.Concat(op.Shape(x), [number], axis=0)


def _above_zero(shape: Any) -> Any:
    """Uniform numbers above 0 and up to 1, whose logarithm is finite."""
    return op.Sub(1.0, uniform_of(shape, _DOUBLE))


def _count(marks: Any) -> Any:
    return cast(op.ReduceSum(cast(marks, _INT64), [-1], keepdims=0), _DOUBLE)


def _tiny(dtype: ir.DataType) -> float:
    return float(np.finfo(dtype.numpy()).tiny)


def _at_least_tiny(x: Any, dtype: ir.DataType) -> Any:
    """In a type, and at least its smallest normal number, so that the logarithm is finite."""
    return op.Max(cast(x, dtype), const(_tiny(dtype), dtype))
