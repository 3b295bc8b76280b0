"""Normalisation: over the batch, a layer, groups of channels, the root mean square; and of weights."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op
from onnxscript import opset23 as op23

from opbridge.translations.lib.dims import Dim, all_known, dim_of, dims_of, element_count, shape_of
from opbridge.translations.lib.dtypes import cast, const, widen
from opbridge.translations.lib.reshaping import reshape
from opbridge.translations.registry import builtin

_DOUBLE = ir.DataType.DOUBLE


# Over the batch


@builtin("aten::batch_norm")
def batch_norm(
    input, weight, bias, running_mean, running_var, training: bool, momentum: float, eps: float,
    cudnn_enabled: bool = True,
):  # fmt: skip
    """batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training,
    float momentum, float eps, bool cudnn_enabled) -> Tensor"""
    if 0 in input.shape:
        return op.Identity(input)
    if training:
        return _with_batch_statistics(input, weight, bias, eps)[0]
    return _with_given_statistics(input, weight, bias, running_mean, running_var, eps)


@builtin("aten::native_batch_norm", "aten::_native_batch_norm_legit")
def native_batch_norm(input, weight, bias, running_mean, running_var, training: bool, momentum: float, eps: float):
    """native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool
    training, float momentum, float eps) -> (Tensor, Tensor, Tensor)"""
    if training:
        return _with_batch_statistics(input, weight, bias, eps)[:3]
    # What is saved for the gradient is the batch's statistics, and there are none.
    out = _with_given_statistics(input, weight, bias, running_mean, running_var, eps)
    return [out, const([], np.float32), const([], np.float32)]


@builtin("aten::_native_batch_norm_legit.no_stats")
def native_batch_norm_no_stats(input, weight, bias, training: bool, momentum: float, eps: float):
    """_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum,
    float eps) -> (Tensor, Tensor, Tensor)"""
    return _with_batch_statistics(input, weight, bias, eps)[:3]


@builtin("aten::_native_batch_norm_legit_no_training")
def native_batch_norm_no_training(input, weight, bias, running_mean, running_var, momentum: float, eps: float):
    """_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor
    running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)"""
    return native_batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps)


@builtin("aten::_native_batch_norm_legit_functional")
def native_batch_norm_functional(
    input, weight, bias, running_mean, running_var, training: bool, momentum: float, eps: float
):
    """_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor
    running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor
    running_var_out)"""
    outputs = native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)
    if not training:
        return [*outputs, running_mean, running_var]
    return [*outputs, *_updated_statistics(input, running_mean, running_var, momentum)]


@builtin("aten::_batch_norm_with_update")
def batch_norm_with_update(input, weight, bias, running_mean, running_var, momentum: float, eps: float):
    """_batch_norm_with_update(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!)
    running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)"""
    return [*_with_batch_statistics(input, weight, bias, eps)[:3], const([], np.uint8)]


@builtin("aten::_batch_norm_with_update_functional")
def batch_norm_with_update_functional(input, weight, bias, running_mean, running_var, momentum: float, eps: float):
    """_batch_norm_with_update_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor
    running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor
    running_var_out)"""
    outputs = batch_norm_with_update(input, weight, bias, running_mean, running_var, momentum, eps)
    return [*outputs, *_updated_statistics(input, running_mean, running_var, momentum)]


@builtin("aten::_batch_norm_no_update")
def batch_norm_no_update(input, weight, bias, running_mean, running_var, momentum: float, eps: float):
    """_batch_norm_no_update(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var,
    float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)"""
    outputs = native_batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps)
    return [*outputs, const([], np.uint8)]


def _with_given_statistics(input: Any, weight: Any, bias: Any, mean: Any, variance: Any, eps: float) -> Any:
    """With given statistics: ONNX's operator, which runtimes merge into the convolution before it."""
    weight = _for_each_channel(1, input, mean.dtype) if weight is None else weight
    bias = _for_each_channel(0, input, weight.dtype) if bias is None else bias
    return op.BatchNormalization(input, weight, bias, mean, variance, epsilon=eps)


def _with_batch_statistics(input: Any, weight: Any, bias: Any, eps: float) -> list[Any]:
    """With the batch's own statistics; then those: mean, reciprocal standard deviation and biased variance."""
    rank = len(input.shape)
    normal, mean, scale, variance = _standardized(widen(input), [0, *range(2, rank)], eps)
    out = _affine(normal, weight, bias, list(range(1, rank - 1)))
    return [out, *(op.Reshape(each, [-1]) for each in (mean, scale, variance))]


def _updated_statistics(input: Any, running_mean: Any, running_var: Any, momentum: float) -> list[Any]:
    """The running statistics after this batch. torch keeps the unbiased variance."""
    axes = [0, *range(2, len(input.shape))]
    _, mean, _, variance = _with_batch_statistics(input, None, None, 0.0)
    number = element_count(input, axes)
    factor = int(number) / (int(number) - 1) if number.is_known else _ratio(number, variance)
    moved = []
    for old, new in ((running_mean, mean), (running_var, op.Mul(variance, factor))):
        new = op.Mul(op.CastLike(new, old), momentum)
        moved.append(op.Add(new, op.Mul(old, 1 - momentum)))
    return moved


def _ratio(number: Dim, like: Any) -> Any:
    return op.Div(op.CastLike(number.value, like), op.CastLike((number - 1).value, like))


def _standardized(x: Any, axes: list[int], eps: float) -> tuple[Any, Any, Any, Any]:
    """A tensor less its mean, by its standard deviation; the mean, that deviation's reciprocal, and the variance."""
    mean = op.ReduceMean(x, axes, keepdims=1)
    centred = op.Sub(x, mean)
    variance = op.ReduceMean(op.Mul(centred, centred), axes, keepdims=1)
    deviation = op.Sqrt(op.Add(variance, eps))
    return op.Div(centred, deviation), mean, op.Reciprocal(deviation), variance


def _affine(x: Any, weight: Any, bias: Any, later: list[int]) -> Any:
    """Times a weight and plus a bias for each channel; `later` are the dimensions that these lack behind theirs."""
    for apply, given in ((op.Mul, weight), (op.Add, bias)):
        if given is not None:
            each = cast(given, x.dtype)
            x = apply(x, op.Unsqueeze(each, later) if later else each)
    return x


def _for_each_channel(number: int, input: Any, dtype: ir.DataType) -> Any:
    """One number for each channel."""
    channels = dim_of(input, 1)
    if channels.is_known:
        return const(np.full(channels, number), dtype)
    return op.Expand(const(number, dtype), shape_of([channels]))


# Over each sample's channels


@builtin("aten::instance_norm")
def instance_norm(
    input, weight, bias, running_mean, running_var, use_input_stats: bool, momentum: float, eps: float,
    cudnn_enabled: bool = True,
):  # fmt: skip
    """instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool
    use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor"""
    if not use_input_stats:
        return _with_given_statistics(input, weight, bias, running_mean, running_var, eps)
    return _with_instance_statistics(input, weight, bias, eps)


def _with_instance_statistics(x: Any, weight: Any, bias: Any, eps: float) -> Any:
    rank = len(x.shape)
    if x.dtype == _DOUBLE:
        # ONNX's operator is for float32 alone in onnxruntime.
        normal = _standardized(x, list(range(2, rank)), eps)[0]
        return _affine(normal, weight, bias, list(range(1, rank - 1)))
    weight = _for_each_channel(1, x, x.dtype) if weight is None else cast(weight, x.dtype)
    bias = _for_each_channel(0, x, x.dtype) if bias is None else cast(bias, x.dtype)
    return op.InstanceNormalization(x, weight, bias, epsilon=eps)


@builtin("aten::group_norm")
def group_norm(input, num_groups: int, weight=None, bias=None, eps: float = 1e-5, cudnn_enabled: bool = True):
    """group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool
    cudnn_enabled=True) -> Tensor"""
    rank = len(input.shape)
    if dim_of(input, 1) == num_groups and rank > 2:
        return _with_instance_statistics(input, weight, bias, eps)
    normal = _with_instance_statistics(_split_into_groups(input, num_groups), None, None, eps)
    return _affine(reshape(normal, dims_of(input)), weight, bias, list(range(1, rank - 1)))


@builtin("aten::native_group_norm")
def native_group_norm(input, weight, bias, N, C, HxW, group: int, eps: float):
    """native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float
    eps) -> (Tensor, Tensor, Tensor)"""
    _, mean, scale, _ = _standardized(_split_into_groups(widen(input), group), [2], eps)
    out = group_norm(input, group, weight, bias, eps)
    return [out, *(op.Reshape(each, shape_of([dim_of(input, 0), group])) for each in (mean, scale))]


def _split_into_groups(x: Any, groups: int) -> Any:
    """Of shape (N, groups, elements of a group)."""
    number = element_count(x, range(1, len(x.shape)))
    return reshape(x, [dim_of(x, 0), groups, number // groups])


# Over a layer


@builtin("aten::layer_norm")
def layer_norm(input, normalized_shape, weight=None, bias=None, eps: float = 1e-5, cudnn_enable: bool = True):
    """layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool
    cudnn_enable=True) -> Tensor"""
    weight = _ones(input, normalized_shape) if weight is None else cast(weight, input.dtype)
    bias = None if bias is None else cast(bias, input.dtype)
    return op.LayerNormalization(input, weight, bias, axis=-len(normalized_shape), epsilon=eps)[0]


def _ones(input: Any, shape: list[Any]) -> Any:
    if all_known(*shape) and prod(shape) <= 1 << 16:
        return const(np.ones(shape), input.dtype)
    return op.Expand(const(1, input.dtype), shape_of(shape))


@builtin("aten::native_layer_norm")
def native_layer_norm(input, normalized_shape, weight, bias, eps: float):
    """native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor,
    Tensor, Tensor)"""
    axes = list(range(-len(normalized_shape), 0))
    _, mean, scale, _ = _standardized(widen(input), axes, eps)
    return [layer_norm(input, normalized_shape, weight, bias, eps), mean, scale]


@builtin("aten::rms_norm")
def rms_norm(input, normalized_shape, weight=None, eps=None):
    """rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor"""
    out, _ = _divided_by_rms(input, normalized_shape, eps)
    return out if weight is None else op.Mul(out, cast(weight, out.dtype))


@builtin("aten::rms_norm", opset=23)
def rms_norm_23(input, normalized_shape, weight=None, eps=None):
    """rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor"""
    weight = _ones(input, normalized_shape) if weight is None else cast(weight, input.dtype)
    return op23.RMSNormalization(input, weight, axis=-len(normalized_shape), epsilon=_epsilon(input, eps))


@builtin("aten::_fused_rms_norm")
def fused_rms_norm(input, normalized_shape, weight, eps):
    """_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)"""
    out, scale = _divided_by_rms(input, normalized_shape, eps)
    return [out if weight is None else op.Mul(out, cast(weight, out.dtype)), scale]


def _divided_by_rms(input: Any, shape: list[Any], eps: Any) -> tuple[Any, Any]:
    x = widen(input)
    mean = op.ReduceMean(op.Mul(x, x), list(range(-len(shape), 0)), keepdims=1)
    root = op.Sqrt(op.Add(mean, _epsilon(input, eps)))
    return op.Div(x, root), op.Reciprocal(root)


def _epsilon(input: Any, eps: Any) -> float:
    """torch's default is the smallest step at 1 of the type that it computes in."""
    return eps if eps is not None else 2.0**-52 if input.dtype == _DOUBLE else 2.0**-23


# Of weights


@builtin("aten::_weight_norm")
def weight_norm(v, g, dim: int = 0):
    """_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor"""
    return weight_norm_interface(v, g, dim)[0]


@builtin("aten::_weight_norm_interface")
def weight_norm_interface(v, g, dim: int = 0):
    """_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)"""
    x = widen(v)
    rank = len(v.shape)
    axes = list(range(rank)) if dim == -1 else [axis for axis in range(rank) if axis != dim]
    norm = op.ReduceL2(x, axes, keepdims=1)
    norm = op.Reshape(norm, []) if dim == -1 and len(g.shape) == 0 else norm
    return [op.Mul(x, op.Div(cast(g, x.dtype), norm)), norm]
