"""The operators that PT2E writes into a quantised model: quantize, dequantize, and the choice of their parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.dtypes import cast, const, is_tensor, widen
from opbridge.translations.lib.quantizing import Blocks, dequantize, grouped, quantize
from opbridge.translations.quantized.forms import builtin_in_two_forms
from opbridge.translations.registry import builtin

_FLOAT, _DOUBLE, _INT64 = ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT64
_EPS = float(np.finfo(np.float32).eps)
_CASTS = frozenset({"Cast", "Reshape", "Unsqueeze"})


@builtin_in_two_forms(
    "quantized_decomposed::quantize_per_tensor",
    "quantized_decomposed::quantize_per_tensor.tensor",
    "quantized_decomposed::quantize_per_tensor.tensor2",
)
def quantize_per_tensor(input, scale, zero_point, quant_min, quant_max, dtype, wide=False):
    """quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype)
    -> Tensor
    """
    low, high = _number(quant_min), _number(quant_max)
    known = _quantized_dynamically(input, scale, zero_point, (low, high), dtype)
    if known is not None:
        return known
    return quantize(input, scale, zero_point, low, high, dtype, Blocks(), wide=wide)


@builtin_in_two_forms(
    "quantized_decomposed::dequantize_per_tensor",
    "quantized_decomposed::dequantize_per_tensor.tensor",
    "quantized_decomposed::dequantize_per_tensor.tensor2",
)
def dequantize_per_tensor(input, scale, zero_point, quant_min, quant_max, dtype, out_dtype=None, wide=False):
    """dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype,
    *, ScalarType? out_dtype=None) -> Tensor
    """
    return dequantize(input, scale, zero_point, Blocks(), out_dtype, wide=wide)


@builtin_in_two_forms("quantized_decomposed::quantize_per_channel")
def quantize_per_channel(input, scales, zero_points, axis: int, quant_min, quant_max, dtype, wide=False):
    """quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, int quant_min, int quant_max,
    ScalarType dtype) -> Tensor
    """
    return quantize(input, scales, zero_points, quant_min, quant_max, dtype, Blocks(axis), wide=wide)


@builtin_in_two_forms("quantized_decomposed::dequantize_per_channel")
def dequantize_per_channel(
    input, scales, zero_points, axis: int, quant_min, quant_max, dtype, out_dtype=None, wide=False
):
    """dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max,
    ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor
    """
    return dequantize(input, scales, zero_points, Blocks(axis), out_dtype, wide=wide)


@builtin_in_two_forms("quantized_decomposed::quantize_per_channel_group")
def quantize_per_channel_group(
    input, scales, zero_points, quant_min, quant_max, dtype, group_size: int = 128, wide=False
):
    """quantize_per_channel_group(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max,
    ScalarType dtype, int group_size) -> Tensor
    """
    blocks = grouped(_group_size(input, scales, group_size))
    return quantize(input, scales, zero_points, quant_min, quant_max, dtype, blocks, wide=wide)


@builtin_in_two_forms("quantized_decomposed::dequantize_per_channel_group")
def dequantize_per_channel_group(
    w_int8, scales, zero_points, quant_min, quant_max, dtype, group_size: int = 128, output_dtype=_FLOAT, wide=False
):
    """dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, int quant_min, int quant_max,
    ScalarType dtype, int group_size, ScalarType output_dtype) -> Tensor
    """
    blocks = grouped(_group_size(w_int8, scales, group_size))
    return dequantize(w_int8, scales, zero_points, blocks, output_dtype, wide=wide)


@builtin_in_two_forms("quantized_decomposed::quantize_per_token")
def quantize_per_token(input, scales, zero_points, quant_min, quant_max, dtype, wide=False):
    """quantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max,
    ScalarType dtype) -> Tensor
    """
    return quantize(input, scales, zero_points, quant_min, quant_max, dtype, _rows(input), wide=wide)


@builtin_in_two_forms("quantized_decomposed::dequantize_per_token")
def dequantize_per_token(input, scales, zero_points, quant_min, quant_max, dtype, output_dtype=_FLOAT, wide=False):
    """dequantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max,
    ScalarType dtype, ScalarType output_dtype) -> Tensor
    """
    return dequantize(input, scales, zero_points, _rows(input), output_dtype, wide=wide)


@builtin("quantized_decomposed::choose_qparams.tensor")
def choose_qparams(input, quant_min: int, quant_max: int, eps: float, dtype):
    """choose_qparams.tensor(Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype)
    -> (Tensor, Tensor)
    """
    if (quant_min, quant_max, dtype) == (0, 255, ir.DataType.UINT8) and eps <= _EPS:
        # A scale below eps, of numbers that are all as good as zero, is not raised to eps.
        _, scale, zero_point = op.DynamicQuantizeLinear(cast(input, _FLOAT))
        return _as_vectors(scale, zero_point)
    low, high = _extremes(input)
    scale = op.Max(op.Div(op.Sub(high, low), float(quant_max - quant_min)), eps)
    zero_point = op.Sub(float(quant_min), op.Round(op.Div(low, scale)))
    return _as_vectors(scale, op.Clip(zero_point, float(quant_min), float(quant_max)))


@builtin("quantized_decomposed::choose_qparams_symmetric.tensor")
def choose_qparams_symmetric(input, quant_min: int, quant_max: int, eps: float, dtype):
    """choose_qparams_symmetric.tensor(Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype)
    -> (Tensor, Tensor)
    """
    low, high = _extremes(input)
    scale = op.Max(op.Div(op.Max(op.Neg(low), high), (quant_max - quant_min) / 2), eps)
    # torch asks whether the range is that of the type only to tell these two apart.
    middle = 128 if (quant_min, quant_max) == (0, 255) else (quant_min + quant_max) // 2
    return _as_vectors(scale, const(middle if dtype == ir.DataType.UINT8 else 0, _INT64))


@builtin("quantized_decomposed::choose_qparams_per_token")
def choose_qparams_per_token(input, dtype):
    """choose_qparams_per_token(Tensor input, ScalarType dtype) -> (Tensor, Tensor)"""
    largest = op.ReduceMax(op.Abs(widen(input)), [-1], keepdims=1)
    scales = op.Div(op.Max(largest, 1e-5), 127.0)
    # What the operator says of its results: torch gives them in other types where it runs than where it is captured.
    return cast(scales, _DOUBLE), op.Expand(const(0, _INT64), op.Shape(scales))


@builtin(
    "quantized_decomposed::choose_qparams_per_token_asymmetric",
    "quantized_decomposed::_choose_qparams_per_token_asymmetric_impl",
)
def choose_qparams_per_token_asymmetric(input, dtype):
    """choose_qparams_per_token_asymmetric(Tensor input, ScalarType dtype) -> (Tensor, Tensor)"""
    low, high = _extremes(input, [-1])
    scale = op.Max(op.Div(op.Sub(high, low), 255.0), _EPS)
    lower, upper = op.Div(low, scale), op.Div(high, scale)
    is_low_nearer = op.Greater(op.Add(op.Add(-128.0, lower), op.Add(127.0, upper)), 0.0)
    zero_point = op.Where(is_low_nearer, op.Sub(-128.0, lower), op.Sub(127.0, upper))
    return cast(scale, _DOUBLE), cast(op.Round(op.Clip(zero_point, -128.0, 127.0)), _INT64)


def _number(value: Any) -> int:
    """A limit, which one overload of the operator takes as a tensor."""
    if not is_tensor(value):
        return int(value)
    if value.const_value is None:
        raise NotImplementedError("The minimum and the maximum value are computed at run time.")
    return int(value.const_value.numpy().reshape(-1)[0])


def _group_size(x: Any, scales: Any, size: int) -> int:
    """The size of a group, which may be more than a row has."""
    row = x.shape[-1]
    return row if isinstance(row, int) and size > row and scales.shape[-1] == 1 else size


def _rows(x: Any) -> Blocks:
    """One block for each row along the last axis."""
    size = x.shape[-1]
    if not isinstance(size, int):
        raise NotImplementedError("The size of a token must be known at export.")
    return grouped(size)


def _extremes(x: Any, axes: list[int] | None = None) -> tuple[Any, Any]:
    """The least number, at most 0, and the greatest, at least 0: over all axes, or over some that stay, of size 1."""
    x = cast(x, _FLOAT)
    if axes is None:
        low, high = op.ReduceMin(x, keepdims=0), op.ReduceMax(x, keepdims=0)
    else:
        low, high = op.ReduceMin(x, axes, keepdims=1), op.ReduceMax(x, axes, keepdims=1)
    return op.Min(low, 0.0), op.Max(high, 0.0)


def _as_vectors(scale: Any, zero_point: Any) -> tuple[Any, Any]:
    """A scale and a zero point of one tensor as torch gives them: double and int64, of shape [1]."""
    return op.Reshape(cast(scale, _DOUBLE), [1]), op.Reshape(cast(zero_point, _INT64), [1])


def _quantized_dynamically(x: Any, scale: Any, zero_point: Any, limits: tuple[int, int], dtype: Any) -> Any:
    """What DynamicQuantizeLinear has made of a tensor, where the scale and the zero point come from there."""
    if not (is_tensor(scale) and is_tensor(zero_point)) or (limits, dtype) != ((0, 255), ir.DataType.UINT8):
        return None
    chosen = _source(scale)
    node = chosen.producer()
    if node is None or node.op_type != "DynamicQuantizeLinear" or chosen is not node.outputs[1]:
        return None
    same = _source(zero_point) is node.outputs[2] and node.inputs[0] is cast(x, _FLOAT)
    return node.outputs[0] if same else None


def _source(value: Any) -> Any:
    """What a value was before it was cast and given another shape."""
    node = value.producer()
    while node is not None and node.op_type in _CASTS:
        value = node.inputs[0]
        node = value.producer()
    return value
