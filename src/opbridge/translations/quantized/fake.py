"""Fake quantisation, as training in quantised numbers uses it: quantize and dequantize in one operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.dtypes import is_float, is_tensor
from opbridge.translations.lib.quantizing import Blocks, dequantize, quantize, range_of
from opbridge.translations.quantized.forms import builtin_in_two_forms

_TYPES = (ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16, ir.DataType.UINT16, ir.DataType.INT32)


@builtin_in_two_forms("aten::fake_quantize_per_tensor_affine", "aten::fake_quantize_per_tensor_affine.tensor_qparams")
def fake_quantize_per_tensor_affine(self, scale, zero_point, quant_min: int, quant_max: int, wide=False):
    """fake_quantize_per_tensor_affine(Tensor self, float scale, int zero_point, int quant_min, int quant_max)
    -> Tensor
    """
    return _fake_quantize(self, scale, zero_point, quant_min, quant_max, Blocks(), wide=wide)


@builtin_in_two_forms("aten::fake_quantize_per_channel_affine")
def fake_quantize_per_channel_affine(self, scale, zero_point, axis: int, quant_min: int, quant_max: int, wide=False):
    """fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min,
    int quant_max) -> Tensor
    """
    return _fake_quantize(self, scale, zero_point, quant_min, quant_max, Blocks(axis), wide=wide)


@builtin_in_two_forms("quantized_decomposed::fake_quant_per_channel")
def fake_quant_per_channel(input, scales, zero_points, axis: int, quant_min: int, quant_max: int, wide=False):
    """fake_quant_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, int quant_min, int quant_max)
    -> Tensor
    """
    return _fake_quantize(input, scales, zero_points, quant_min, quant_max, Blocks(axis), wide=wide)


@builtin_in_two_forms("aten::_fake_quantize_learnable_per_tensor_affine")
def fake_quantize_learnable_per_tensor(
    self, scale, zero_point, quant_min: int, quant_max: int, grad_factor=1.0, wide=False
):
    """_fake_quantize_learnable_per_tensor_affine(Tensor self, Tensor scale, Tensor zero_point, int quant_min,
    int quant_max, float grad_factor=1.) -> Tensor
    """
    whole = _within(zero_point, quant_min, quant_max)
    return _fake_quantize(self, scale, whole, quant_min, quant_max, Blocks(), wide=wide)


@builtin_in_two_forms("aten::_fake_quantize_learnable_per_channel_affine")
def fake_quantize_learnable_per_channel(
    self, scale, zero_point, axis: int, quant_min: int, quant_max: int, grad_factor=1.0, wide=False
):
    """_fake_quantize_learnable_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis,
    int quant_min, int quant_max, float grad_factor=1.) -> Tensor
    """
    whole = _within(zero_point, quant_min, quant_max)
    return _fake_quantize(self, scale, whole, quant_min, quant_max, Blocks(axis), wide=wide)


@builtin_in_two_forms("aten::fused_moving_avg_obs_fake_quant")
def fused_moving_avg_obs_fake_quant(
    self,
    observer_on,
    fake_quant_on,
    running_min,
    running_max,
    scale,
    zero_point,
    averaging_const,
    quant_min: int,
    quant_max: int,
    ch_axis: int,
    per_row_fake_quant: bool = False,
    symmetric_quant: bool = False,
    wide=False,
):
    """fused_moving_avg_obs_fake_quant(Tensor self, Tensor observer_on, Tensor fake_quant_on, Tensor(a!) running_min,
    Tensor(b!) running_max, Tensor(c!) scale, Tensor(d!) zero_point, float averaging_const, int quant_min,
    int quant_max, int ch_axis, bool per_row_fake_quant=False, bool symmetric_quant=False) -> Tensor
    """
    if _switch(observer_on):
        raise NotImplementedError(
            "It still adapts its scale to each input, because eval() does not disable the observers. Before the "
            "export, call model.apply(torch.ao.quantization.disable_observer), or convert the model."
        )
    if not _switch(fake_quant_on):
        return op.Identity(self)
    blocks = Blocks(ch_axis) if per_row_fake_quant else Blocks()
    return _fake_quantize(self, scale, zero_point, quant_min, quant_max, blocks, wide=wide)


def _switch(value: Any) -> bool:
    """Whether something is on, which a buffer of the model says."""
    if value.const_value is None:
        raise NotImplementedError("Whether its observer and its quantization are enabled is known only at run time.")
    return bool(value.const_value.numpy().reshape(-1)[0])


def _within(zero_point: Any, low: int, high: int) -> Any:
    """A zero point that is being learned: rounded, and within the range."""
    whole = op.Round(zero_point) if is_float(zero_point) else op.Cast(zero_point, to=ir.DataType.FLOAT)
    return op.Clip(whole, float(low), float(high))


def _fake_quantize(x: Any, scale: Any, zero_point: Any, low: int, high: int, blocks: Blocks, *, wide: bool) -> Any:
    """What comes back after quantisation, in the type of what went in."""
    dtype = next((each for each in _TYPES if range_of(each)[0] <= low and high <= range_of(each)[1]), None)
    if dtype is None:
        raise NotImplementedError(f"No supported integer type has the range {low} to {high}.")
    quantized = _quantized_weight(x, scale, zero_point, low, high, dtype, blocks)
    if quantized is None:
        quantized = quantize(x, scale, zero_point, low, high, dtype, blocks, wide=wide)
    return dequantize(quantized, scale, zero_point, blocks, x.dtype, wide=wide)


def _quantized_weight(
    x: Any, scale: Any, zero_point: Any, low: int, high: int, dtype: ir.DataType, blocks: Blocks
) -> Any:
    """The integers that a constant becomes, with the product that PyTorch rounds; None for what is not constant.

    QuantizeLinear divides. Where the largest weight of a channel lies in the middle between two steps, as with a scale
    of amax / 127.5, the two round to different steps.
    """
    arrays = [_known(each) for each in (x, scale, zero_point)]
    builder: Any = getattr(x, "builder", None)
    if builder is None or any(each is None for each in arrays):
        return None
    data, factor, shift = arrays
    assert data is not None and factor is not None and shift is not None
    if blocks.axis is not None:
        shape = [-1 if axis == blocks.axis % data.ndim else 1 for axis in range(data.ndim)]
        factor, shift = factor.reshape(shape), shift.reshape(shape)
    steps = np.rint(data.astype(np.float32) * (np.float32(1) / factor.astype(np.float32))) + shift
    integers = np.clip(steps, low, high).astype(dtype.numpy())
    return builder.initializer(f"{x.name}_quantized", ir.tensor(integers, dtype=dtype))


def _known(value: Any) -> np.ndarray | None:
    """The numbers of an argument; None where only a run tells them."""
    if not is_tensor(value):
        return np.asarray(value)
    return None if value.const_value is None else value.const_value.numpy()
