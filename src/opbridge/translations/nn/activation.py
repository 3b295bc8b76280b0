"""Activation functions, softmax and dropout.

Where ONNX has an operator, runtimes have it for float32 alone; float64 is computed by its formula.
"""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op
from onnxscript import opset20 as op20

from opbridge.errors import TranslationError
from opbridge.translations.elementwise.comparison import clamp
from opbridge.translations.elementwise.random_numbers import uniform_of
from opbridge.translations.lib.dims import dims_of, shape_of
from opbridge.translations.lib.dtypes import FLOATS, cast, cast_like, is_double, is_number, is_tensor, widen
from opbridge.translations.registry import builtin
from opbridge.translations.special.error_functions import erf

_DOUBLE = ir.DataType.DOUBLE
_FLOAT = ir.DataType.FLOAT
_INT64 = ir.DataType.INT64


# Piecewise linear


@builtin("aten::relu")
def relu(self):
    """relu(Tensor self) -> Tensor"""
    if self.dtype in FLOATS:
        return op.Relu(self)
    return op.Max(self, 0)


@builtin("aten::hardtanh")
def hardtanh(self, min_val=-1.0, max_val=1.0):
    """hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor"""
    if self.dtype not in FLOATS:
        # torch cuts off the fractions of the bounds.
        return clamp(self, *(cast(each, _INT64) if is_tensor(each) else int(each) for each in (min_val, max_val)))
    return op.Clip(self, cast_like(min_val, self), cast_like(max_val, self))


@builtin("aten::hardtanh_backward")
def hardtanh_backward(grad_output, self, min_val, max_val):
    """hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) -> Tensor"""
    is_cut = op.Or(op.LessOrEqual(self, cast_like(min_val, self)), op.GreaterOrEqual(self, cast_like(max_val, self)))
    return op.Where(is_cut, cast_like(0, grad_output), grad_output)


@builtin("aten::relu6")
def relu6(self):
    """relu6(Tensor self) -> Tensor"""
    return hardtanh(self, 0, 6)


@builtin("aten::leaky_relu")
def leaky_relu(self, negative_slope: float = 0.01):
    """leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor"""
    if is_double(self) or is_tensor(negative_slope):
        x = widen(self)
        return cast(op.Where(op.Greater(x, 0.0), x, op.Mul(x, cast_like(negative_slope, x))), self.dtype)
    return op.LeakyRelu(self, alpha=float(negative_slope))


@builtin("aten::prelu", "aten::_prelu_kernel")
def prelu(self, weight):
    """prelu(Tensor self, Tensor weight) -> Tensor"""
    rank = len(self.shape)
    if rank == 0:
        weight = op.Squeeze(weight)
    elif rank > 2 and len(weight.shape) == 1:
        weight = op.Unsqueeze(weight, list(range(1, rank - 1)))
    if is_double(self):
        return op.Where(op.Greater(self, 0.0), self, op.Mul(self, weight))
    return op.PRelu(self, weight)


@builtin("aten::hardsigmoid")
def hardsigmoid(self):
    """hardsigmoid(Tensor self) -> Tensor"""
    if is_double(self):
        return op.Div(op.Clip(op.Add(self, 3.0), op.CastLike(0, self), op.CastLike(6, self)), 6.0)
    return op.HardSigmoid(self, alpha=1 / 6, beta=0.5)


@builtin("aten::hardswish")
def hardswish(self):
    """hardswish(Tensor self) -> Tensor"""
    return op.Mul(self, hardsigmoid(self))


@builtin("aten::rrelu")
def rrelu(self, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False):
    """rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False, Generator?
    generator=None) -> Tensor"""
    if not training:
        return leaky_relu(self, (lower + upper) / 2)
    return op.Where(op.LessOrEqual(self, 0.0), op.Mul(self, _uniform(self, lower, upper)), self)


@builtin("aten::rrelu_with_noise")
def rrelu_with_noise(self, noise, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False):
    """rrelu_with_noise(Tensor self, Tensor(b!) noise, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool
    training=False, Generator? generator=None) -> Tensor"""
    return rrelu(self, lower, upper, training)


@builtin("aten::rrelu_with_noise_functional")
def rrelu_with_noise_functional(self, noise, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False):
    """rrelu_with_noise_functional(Tensor self, Tensor noise, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool
    training=False, Generator? generator=None) -> (Tensor, Tensor noise_out)"""
    if not training:
        return [leaky_relu(self, (lower + upper) / 2), noise]
    slope = op.Where(op.LessOrEqual(self, 0.0), _uniform(self, lower, upper), op.CastLike(1, self))
    return [op.Mul(self, slope), slope]


def _uniform(like: Any, low: float, high: float) -> Any:
    return op.CastLike(op.Add(op.Mul(uniform_of(op.Shape(like), _FLOAT), high - low), low), like)


# Exponential


@builtin("aten::elu")
def elu(self, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0):
    """elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor"""
    plain = is_number(scale, 1) and is_number(input_scale, 1) and not is_tensor(alpha)
    if plain and not is_double(self):
        return op.Elu(self, alpha=float(alpha))
    x = widen(self)
    factors = [alpha, scale, input_scale]
    if any(map(is_tensor, factors)):
        factors = [cast_like(factor, x) for factor in factors]
    alpha, scale, input_scale = factors
    falling = op.Mul(_expm1(op.Mul(x, input_scale)), alpha * scale)
    return op.Where(op.Greater(x, 0.0), op.Mul(x, scale), falling)


@builtin("aten::celu")
def celu(self, alpha: float = 1.0):
    """celu(Tensor self, Scalar alpha=1.0) -> Tensor"""
    if is_double(self) or is_tensor(alpha):
        x = widen(self)
        return elu(x, alpha, 1.0, 1.0 / (cast_like(alpha, x) if is_tensor(alpha) else alpha))
    return op.Celu(self, alpha=float(alpha))


@builtin("aten::selu")
def selu(self):
    """selu(Tensor self) -> Tensor"""
    alpha, gamma = 1.6732632423543772, 1.0507009873554805
    if is_double(self):
        return elu(self, alpha, gamma)
    return op.Selu(self, alpha=alpha, gamma=gamma)


def _expm1(x: Any) -> Any:
    """exp(x) - 1 for x <= 0, without losing the digits of a small x: tanh(x/2) * (exp(x) + 1)."""
    return op.Mul(op.Tanh(op.Mul(x, 0.5)), op.Add(op.Exp(op.Min(x, op.CastLike(0, x))), 1.0))


def _log1p_exp(x: Any) -> Any:
    """log(1 + exp(x)), for every x, in float64."""
    small = op.Exp(op.Neg(op.Abs(x)))
    # log(1 + e) would lose the digits of a small e; the quotient makes up for what rounding 1 + e took.
    one_more = op.Add(small, 1.0)
    log = op.Mul(op.Log(one_more), op.Div(small, op.Sub(one_more, 1.0)))
    log = op.Where(op.Equal(one_more, 1.0), small, log)
    return op.Add(op.Max(x, op.CastLike(0, x)), log)


@builtin("aten::softplus")
def softplus(self, beta: float = 1.0, threshold: float = 20.0):
    """softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor"""
    is_unscaled = is_number(beta, 1)
    x = self if is_unscaled else widen(self)
    scaled = x if is_unscaled else op.Mul(x, cast_like(beta, x))
    curve = _log1p_exp(scaled) if is_double(x) else op.Softplus(scaled)
    curve = curve if is_unscaled else op.Div(curve, cast_like(beta, x))
    if is_unscaled and not is_tensor(threshold) and threshold >= 20 and not is_double(x):
        # From there on, x and softplus(x) are the same number in float32.
        return curve
    return op.Where(op.Greater(scaled, cast_like(threshold, x)), x, curve)


@builtin("aten::log_sigmoid")
def log_sigmoid(self):
    """log_sigmoid(Tensor self) -> Tensor"""
    x = op.Neg(self)
    return op.Neg(_log1p_exp(x) if is_double(x) else op.Softplus(x))


@builtin("aten::log_sigmoid_forward")
def log_sigmoid_forward(self):
    """log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)"""
    return [log_sigmoid(self), op.Exp(op.Neg(op.Abs(self)))]


@builtin("aten::mish")
def mish(self):
    """mish(Tensor self) -> Tensor"""
    return op.Mul(self, op.Tanh(_log1p_exp(self) if is_double(self) else op.Softplus(self)))


@builtin("aten::silu")
def silu(self):
    """silu(Tensor self) -> Tensor"""
    return op.Mul(self, op.Sigmoid(self))


@builtin("aten::gelu")
def gelu(self, approximate: str = "none"):
    """gelu(Tensor self, *, str approximate="none") -> Tensor"""
    x = widen(self)
    if approximate == "tanh":
        inner = op.Mul(op.Add(x, op.Mul(op.Mul(op.Mul(x, x), x), 0.044715)), math.sqrt(2 / math.pi))
        return op.Mul(op.Mul(x, 0.5), op.Add(op.Tanh(inner), 1.0))
    return op.Mul(op.Mul(x, op.Add(erf(op.Div(x, math.sqrt(2))), 1.0)), 0.5)


@builtin("aten::gelu", opset=20)
def gelu_20(self, approximate: str = "none"):
    """gelu(Tensor self, *, str approximate="none") -> Tensor"""
    if is_double(self):
        return gelu(self, approximate)
    return op20.Gelu(self, approximate=approximate)


@builtin("aten::glu")
def glu(self, dim: int = -1):
    """glu(Tensor self, int dim=-1) -> Tensor"""
    values, gates = op.Split(self, axis=dim, num_outputs=2)
    return op.Mul(values, op.Sigmoid(gates))


# Softmax


@builtin("aten::softmax.int", "aten::special_softmax")
def softmax(self, dim: int, dtype=None):
    """softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"""
    x = self if dtype in (None, -1) else cast(self, ir.DataType(dtype))
    return op.Softmax(x, axis=dim) if len(x.shape) else op.Exp(op.Sub(x, x))


@builtin("aten::_softmax")
def _softmax(self, dim: int, half_to_float: bool):
    """_softmax(Tensor self, int dim, bool half_to_float) -> Tensor"""
    return softmax(self, dim, _FLOAT if half_to_float else None)


@builtin("aten::log_softmax.int", "aten::special_log_softmax")
def log_softmax(self, dim: int, dtype=None):
    """log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"""
    x = self if dtype in (None, -1) else cast(self, ir.DataType(dtype))
    return op.LogSoftmax(x, axis=dim) if len(x.shape) else op.Sub(x, x)


@builtin("aten::_log_softmax")
def _log_softmax(self, dim: int, half_to_float: bool):
    """_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor"""
    return log_softmax(self, dim, _FLOAT if half_to_float else None)


# Dropout


@builtin("aten::dropout")
def dropout(input, p: float, train: bool):
    """dropout(Tensor input, float p, bool train) -> Tensor"""
    return native_dropout(input, p, train)[0]


@builtin("aten::native_dropout")
def native_dropout(input, p: float, train: bool | None):
    """native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)"""
    if train is False or p == 0:
        return [op.Identity(input), op.Expand(op.Constant(value=ir.tensor(True)), op.Shape(input))]
    keep = _kept(input, p, dims_of(input))
    return [_dropped(input, p, keep), keep]


@builtin("aten::feature_dropout")
def feature_dropout(input, p: float, train: bool):
    """feature_dropout(Tensor input, float p, bool train) -> Tensor"""
    return _dropped(input, p, _kept(input, p, _of_features(input))) if train and p else op.Identity(input)


@builtin("aten::alpha_dropout")
def alpha_dropout(input, p: float, train: bool):
    """alpha_dropout(Tensor input, float p, bool train) -> Tensor"""
    return _alpha_dropped(input, p, _kept(input, p, dims_of(input))) if train and p else op.Identity(input)


@builtin("aten::feature_alpha_dropout")
def feature_alpha_dropout(input, p: float, train: bool):
    """feature_alpha_dropout(Tensor input, float p, bool train) -> Tensor"""
    return _alpha_dropped(input, p, _kept(input, p, _of_features(input))) if train and p else op.Identity(input)


def _of_features(input: Any) -> list[Any]:
    if len(input.shape) < 2:
        raise TranslationError(
            "Feature dropout drops whole channels, but its input has no channel dimension. Pass a batch of samples."
        )
    return [*dims_of(input)[:2], *([1] * (len(input.shape) - 2))]


def _kept(input: Any, p: float, shape: list[Any]) -> Any:
    """Which of the elements stay: each with a probability of 1 - p."""
    like = op.Expand(op.Constant(value_float=0.0), shape_of(shape)) if shape else op.Constant(value_float=0.0)
    return op.Less(uniform_of(op.Shape(like), _FLOAT), 1.0 - p)


def _dropped(input: Any, p: float, keep: Any) -> Any:
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return op.Mul(op.Mul(input, op.CastLike(keep, input)), scale)


def _alpha_dropped(input: Any, p: float, keep: Any) -> Any:
    """What is dropped becomes selu's limit, and the rest is scaled so that mean and variance stay."""
    if p == 1:
        return op.Mul(input, 0.0)
    limit = 1.7580993408473766
    a = 1 / math.sqrt((limit * limit * p + 1) * (1 - p))
    noise = op.CastLike(keep, input)
    shift = op.Add(op.Mul(op.Sub(noise, 1.0), limit * a), limit * a * p)
    return op.Add(op.Mul(input, op.Mul(noise, a)), shift)
