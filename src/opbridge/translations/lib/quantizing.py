"""QuantizeLinear and DequantizeLinear with the arguments that PyTorch's operators have.

What PyTorch computes and ONNX does not, exactly:

- PyTorch multiplies by the reciprocal of the scale, ONNX divides by the scale; some of PyTorch's operators add the zero
  point before they round. Where a number lies in the middle between two steps, the results may differ by one step. A
  scale that only a run tells is multiplied by as PyTorch does it: the largest number is in the middle then, by the
  choice of the scale.
- What nan becomes is not defined in either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op
from onnxscript import opset21

from opbridge.errors import TranslationError
from opbridge.translations.lib.dims import Dim, dim_of, dims_of, shape_of
from opbridge.translations.lib.dtypes import cast, const, described, is_tensor

__all__ = ["BLOCKS_SINCE", "Blocks", "blocks_of", "dequantize", "grouped", "quantize", "range_of"]

BLOCKS_SINCE = 21
"""The opset from which QuantizeLinear and DequantizeLinear take blocks and 16-bit integers."""

_FLOAT = ir.DataType.FLOAT
_BYTES = frozenset({ir.DataType.INT8, ir.DataType.UINT8})
_WORDS = frozenset({ir.DataType.INT16, ir.DataType.UINT16})


@dataclass(frozen=True)
class Blocks:
    """Which elements share a scale and a zero point.

    Attributes:
        axis: The axis along which they change; None where all elements share one.
        size: How many elements along that axis share one. 1 with `per_row` off: one for each index of the axis.
        per_row: Whether they also change along all other axes.
    """

    axis: int | None = None
    size: int = 1
    per_row: bool = False


def range_of(dtype: Any) -> tuple[int, int]:
    """The least and the greatest number of an integer type."""
    limits = ir.DataType(dtype).numpy()
    import ml_dtypes
    import numpy as np

    info: Any = ml_dtypes.iinfo(limits) if ir.DataType(dtype).bitwidth < 8 else np.iinfo(limits)
    return int(info.min), int(info.max)


def grouped(size: int) -> Blocks:
    """Groups of a number of elements along the last axis of a matrix, each row for itself."""
    return Blocks(-1, size, per_row=True)


def blocks_of(x: Any, block_size: Sequence[Any]) -> Blocks | None:
    """The blocks that torchao's argument `block_size` means, None where ONNX's operators have no word for them.

    Args:
        x: What is quantised.
        block_size: The size of a block along each axis.
    """
    sizes, dims = [Dim(size) for size in block_size], dims_of(x)
    whole = [_is_whole(size, dim) for size, dim in zip(sizes, dims, strict=True)]
    if all(whole):
        return Blocks()
    divided = [axis for axis, is_whole in enumerate(whole) if not is_whole]
    if len(divided) == 1 and sizes[divided[0]] == 1:
        return Blocks(divided[0])
    long = [axis for axis, size in enumerate(sizes) if size != 1]
    if len(long) == 1 and sizes[long[0]].is_known:
        return Blocks(long[0], int(sizes[long[0]]), per_row=True)
    return None


def _is_whole(size: Dim, dim: Dim) -> bool:
    """Whether a block is as long as the axis; of sizes that only a run tells, one that is no number is."""
    if size.is_known and dim.is_known:
        return size == dim
    return not size.is_known and not dim.is_known


def quantize(
    x: Any, scale: Any, zero_point: Any, low: int, high: int, dtype: int, blocks: Blocks | None, *, wide: bool
) -> Any:
    """A tensor of integers: x / scale + zero_point, rounded to the nearest (to the even one of two), from low to high.

    Args:
        x: A floating tensor; it is quantised as float32, as PyTorch does it.
        scale: A number or a tensor.
        zero_point: A number, a tensor, or None for 0.
        low: The least number of the result.
        high: The greatest.
        dtype: The type of the result.
        blocks: Which elements share a scale.
        wide: Whether the opset has blocks and 16-bit integers.

    Raises:
        NotImplementedError: `blocks` is None.
    """
    x, target = cast(x, _FLOAT), ir.DataType(dtype)
    blocks = _known(blocks)
    least, greatest = range_of(target)
    low, high = max(low, least), min(high, greatest)
    if is_tensor(zero_point) and zero_point.const_value is None:
        if _is_zero(zero_point):
            zero_point = None
        elif target == ir.DataType.INT8 and blocks.axis is None:
            shifted = quantize(
                x, scale, _plus_128(zero_point), low + 128, high + 128, ir.DataType.UINT8, blocks, wide=wide
            )
            return described(op.Cast(op.Sub(cast(shifted, ir.DataType.INT32), 128), to=target), x.shape, target)
    if is_tensor(scale) and scale.const_value is None:
        split = _Split(x, blocks)
        x = described(split.whole(op.Mul(split.data, op.Reciprocal(split.parameter(scale)))), x.shape, _FLOAT)
        if not is_tensor(zero_point):
            scale, blocks = 1.0, Blocks()
        else:
            scale = op.Expand(const(1, _FLOAT), op.Shape(zero_point))
    if not _has_operator(target, blocks, wide):
        return _quantize_by_steps(x, scale, zero_point, low, high, target, blocks)
    scale, zero_point = _parameters(x, scale, zero_point, target, blocks)
    if zero_point is None:  # without one the result would be uint8
        zero_point = op.Expand(const(0, target), op.Shape(scale)) if blocks.axis is not None else const(0, target)
    result = _in_blocks(op.QuantizeLinear, opset21.QuantizeLinear, x, scale, zero_point, blocks)
    result = described(result, x.shape, target)
    if (low, high) == (least, greatest):
        return result
    return op.Clip(result, const(low, target), const(high, target))


def dequantize(x: Any, scale: Any, zero_point: Any, blocks: Blocks | None, out_dtype: Any, *, wide: bool) -> Any:
    """A floating tensor: (x - zero_point) * scale.

    Args:
        x: A tensor of integers.
        scale: A number or a tensor.
        zero_point: A number, a tensor, or None for 0.
        blocks: Which elements share a scale.
        out_dtype: The type of the result; None and -1 for float32.
        wide: Whether the opset has blocks and 16-bit integers.

    Raises:
        NotImplementedError: `blocks` is None.
    """
    blocks = _known(blocks)
    if is_tensor(zero_point) and zero_point.const_value is None:
        as_bytes = _shifted(x)
        if _is_zero(zero_point):
            zero_point = None
        elif as_bytes is not None and blocks.axis is None:
            x, zero_point = as_bytes, _plus_128(zero_point)
    out = _FLOAT if out_dtype in (None, -1) else ir.DataType(out_dtype)
    is_plain_int32 = x.dtype == ir.DataType.INT32 and not is_tensor(zero_point) and not zero_point
    # Of a product of two dequantised matrices in blocks, ONNX Runtime makes none of its own.
    is_token = blocks.per_row and is_tensor(scale) and x.const_value is None and scale.const_value is None
    if is_token or not (_has_operator(x.dtype, blocks, wide) or (is_plain_int32 and not blocks.per_row)):
        return cast(_dequantize_by_steps(x, scale, zero_point, blocks), out)
    scale, zero_point = _parameters(x, scale, None if is_plain_int32 else zero_point, x.dtype, blocks)
    if zero_point is None and blocks.axis is not None and _is_quantized_at_once(x):
        # ONNX Runtime would take the single zero point of the QuantizeLinear before it for that of every channel.
        zero_point = op.Expand(const(0, x.dtype), op.Shape(scale))
    result = _in_blocks(op.DequantizeLinear, opset21.DequantizeLinear, x, scale, zero_point, blocks)
    return cast(described(result, x.shape, _FLOAT), out)


def _in_blocks(
    operator: Callable[..., Any], newer: Callable[..., Any], x: Any, scale: Any, zero_point: Any, blocks: Blocks
) -> Any:
    """QuantizeLinear or DequantizeLinear; blocks of several elements in a row are in its form of opset 21 only."""
    if blocks.axis is None:
        return operator(x, scale, zero_point)
    if not blocks.per_row:
        return operator(x, scale, zero_point, axis=blocks.axis)
    return newer(x, scale, zero_point, axis=blocks.axis % len(x.shape), block_size=blocks.size)


def _known(blocks: Blocks | None) -> Blocks:
    if blocks is None:
        raise NotImplementedError(
            "It is supported only if a block is a row, a column, a group within a row, or the whole tensor."
        )
    return blocks


def _plus_128(zero_point: Any) -> Any:
    """The zero point of the same numbers as uint8, where they were int8."""
    return op.Add(cast(zero_point, ir.DataType.INT32), 128)


def _shifted(x: Any) -> Any:
    """The uint8 numbers that int8 numbers were made of by `quantize`, None where they were not.

    ONNX Runtime's products of quantised matrices take uint8 only where the zero point is known at run time.
    """
    for op_type in ("Cast", "Sub", "Cast"):
        node = x.producer()
        if node is None or node.op_type != op_type:
            return None
        x = node.inputs[0]
    return x if x.dtype == ir.DataType.UINT8 else None


def _is_quantized_at_once(x: Any) -> bool:
    """Whether integers come from a QuantizeLinear with one scale for all of them."""
    node = x.producer()
    return node is not None and node.op_type == "QuantizeLinear" and node.inputs[1].shape == ()


def _is_zero(zero_point: Any) -> bool:
    """Whether a computed zero point is known to be 0 everywhere."""
    node = zero_point.producer()
    while node is not None and node.op_type in ("Cast", "Expand", "Reshape"):
        zero_point = node.inputs[0]
        node = zero_point.producer()
    if node is not None and node.op_type == "ConstantOfShape":
        value = node.attributes.get("value")
        return value is None or not value.as_tensor().numpy().any()
    return zero_point.const_value is not None and not zero_point.const_value.numpy().any()


def _has_operator(dtype: Any, blocks: Blocks, wide: bool) -> bool:
    """Whether ONNX's operators take these integers in these blocks."""
    if blocks.per_row and not wide:
        return False
    return dtype in _BYTES or (wide and dtype in _WORDS)


def _parameters(x: Any, scale: Any, zero_point: Any, dtype: Any, blocks: Blocks) -> tuple[Any, Any]:
    """The scale and the zero point in the types and shapes that ONNX's operators take."""
    if blocks.axis is None:
        shape: Any = []
    elif not blocks.per_row:
        shape = [dim_of(x, blocks.axis)]
    else:
        shape = _shape_of_blocks(x, blocks)
    scale = _in_shape(cast(scale, _FLOAT), shape) if is_tensor(scale) else const(scale, _FLOAT)
    if zero_point is None:
        return scale, None
    if not is_tensor(zero_point):
        return scale, const(zero_point, dtype)
    return scale, _in_shape(cast(zero_point, dtype), shape)


def _shape_of_blocks(x: Any, blocks: Blocks) -> list[Dim]:
    """The sizes of a tensor that has one element for each block."""
    assert blocks.axis is not None
    axis = blocks.axis % len(x.shape)
    length = dim_of(x, axis)
    if length.is_known and int(length) % blocks.size:
        raise TranslationError(f"Blocks of {blocks.size} elements do not divide an axis of {int(length)}.")
    dims = dims_of(x)
    return [*dims[:axis], length // blocks.size, *dims[axis + 1 :]]


def _in_shape(value: Any, shape: Sequence[Dim]) -> Any:
    """A parameter in the shape that ONNX's operators take; itself where it has it."""
    if len(value.shape) == len(shape) and all(
        Dim(have) == want if isinstance(have, int) else not want.is_known
        for have, want in zip(value.shape, shape, strict=True)
    ):
        return value
    known = [dim.is_known for dim in shape]
    if known.count(False) == 1:  # then the size that a run tells need not be computed
        return op.Reshape(value, [int(dim) if dim.is_known else -1 for dim in shape])
    return op.Reshape(value, shape_of(shape))


def _quantize_by_steps(
    x: Any, scale: Any, zero_point: Any, low: int, high: int, dtype: ir.DataType, blocks: Blocks
) -> Any:
    split = _Split(x, blocks)
    steps = op.Round(op.Div(split.data, split.parameter(scale)))
    if zero_point is not None:
        steps = op.Add(steps, split.parameter(zero_point))
    # As double for 32-bit integers, whose limits are no float32.
    if dtype.bitwidth > 16:
        steps = op.Cast(steps, to=ir.DataType.DOUBLE)
    limited = op.Clip(steps, const(low, steps.dtype), const(high, steps.dtype))
    return described(op.Cast(split.whole(limited), to=dtype), x.shape, dtype)


def _dequantize_by_steps(x: Any, scale: Any, zero_point: Any, blocks: Blocks) -> Any:
    if x.dtype not in (ir.DataType.INT32, ir.DataType.INT64):
        x = cast(x, ir.DataType.INT32)
    split = _Split(x, blocks)
    centred = split.data
    if zero_point is not None:
        centred = op.Sub(centred, split.parameter(zero_point, x.dtype))
    return described(split.whole(op.Mul(cast(centred, _FLOAT), split.parameter(scale))), x.shape, _FLOAT)


class _Split:
    """A tensor in a shape in which its parameters, one for each block, broadcast with it."""

    def __init__(self, x: Any, blocks: Blocks) -> None:
        self._x = x
        self._is_split = False
        self.data = x
        self._shape = self._shape_of_parameters(blocks)

    def _shape_of_parameters(self, blocks: Blocks) -> list[Dim]:
        x = self._x
        if blocks.axis is None:
            return []
        rank = len(x.shape)
        axis = blocks.axis % rank
        if not blocks.per_row:
            return [dim_of(x, axis) if each == axis else Dim(1) for each in range(rank)]
        parts = _shape_of_blocks(x, blocks)
        if parts[axis] == 1:
            return parts
        # The block gets an axis of its own.
        self._is_split = True
        self.data = op.Reshape(x, shape_of([*parts[: axis + 1], Dim(blocks.size), *parts[axis + 1 :]]))
        return [*parts[: axis + 1], Dim(1), *parts[axis + 1 :]]

    def parameter(self, value: Any, dtype: ir.DataType = _FLOAT) -> Any:
        """A scale or zero point in a shape that broadcasts with `data`."""
        return _in_shape(cast(value, dtype), self._shape) if is_tensor(value) else const(value, dtype)

    def whole(self, data: Any) -> Any:
        """What was computed from `data`, in the shape of the tensor."""
        return op.Reshape(data, shape_of(dims_of(self._x))) if self._is_split else data
