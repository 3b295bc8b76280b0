"""Sliding windows out of slices, for the element types that runtimes have no pooling or convolution kernels for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.common import size

__all__ = ["padded", "pooled_size", "shifted", "tails", "windows"]


def pooled_size(length: Any, kernel: int, stride: int, padding: int, dilation: int = 1, ceil: bool = False) -> Any:
    """How many windows fit along a dimension, as torch counts them; an int if `length` is one, else a value."""
    room = length + (2 * padding - dilation * (kernel - 1) - 1 + (stride - 1 if ceil else 0))
    if isinstance(length, int):
        count = room // stride + 1
        return count - 1 if ceil and (count - 1) * stride >= length + padding else count
    count = op.Div(room, stride) + 1
    if not ceil:
        return count
    # The last window has to start inside the input or the padding before it.
    return op.Where((count - 1) * stride >= length + padding, count - 1, count)


def padded(value: Any, before: Sequence[Any], after: Sequence[Any], fill: Any = 0) -> Any:
    """Pads the last dimensions with a constant; negative amounts crop."""
    amounts = [*before, *after]
    if all(isinstance(amount, int) and amount == 0 for amount in amounts):
        return value
    fill = None if fill == 0 else op.CastLike(fill, value)
    lead = [0] * (len(value.shape) - len(before))
    result = op.Pad(value, [*lead, *before, *lead, *after], fill)
    lengths = [
        length + head + tail if all(isinstance(part, int) for part in (length, head, tail)) else None
        for length, head, tail in zip(value.shape, [*lead, *before], [*lead, *after], strict=True)
    ]
    result.shape, result.dtype = ir.Shape(lengths), value.dtype
    return result


def shifted(
    value: Any, axes: Sequence[int], offsets: Sequence[int], counts: Sequence[Any], strides: Sequence[int]
) -> Any:
    """Every `stride`-th element from `offset` on, `count` of them, along each of the axes."""
    ends = [offset + (count - 1) * stride + 1 for offset, count, stride in zip(offsets, counts, strides, strict=True)]
    return op.Slice(value, list(offsets), ends, list(axes), list(strides))


def tails(
    lengths: Sequence[Any],
    counts: Sequence[Any],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> list[Any]:
    """How much padding after each dimension lets the last window end inside it."""
    reach = [
        (n - 1) * s + (d * (k - 1) + 1 - p) - length
        for length, n, k, s, p, d in zip(lengths, counts, kernel, stride, padding, dilation, strict=True)
    ]
    return [max(tail, 0) if isinstance(tail, int) else op.Max(tail, 0) for tail in reach]


def windows(
    value: Any,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil: bool = False,
    fill: Any = 0,
) -> tuple[Any, list[Any]]:
    """All windows over the last dimensions, each laid out along a new last dimension in row-major order.

    Args:
        value: Of shape (..., *spatial).
        kernel: The window's size; as `stride`, `padding` and `dilation` one number a spatial dimension.
        stride: The step from window to window.
        padding: What is added before and after.
        dilation: The step from element to element of a window.
        ceil: Whether windows may reach beyond the padding.
        fill: What is padded with.

    Returns:
        The windows, of shape (..., *counts, prod(kernel)), and the counts.
    """
    axes = list(range(len(value.shape) - len(kernel), len(value.shape)))
    lengths = [size(value, axis) for axis in axes]
    each = zip(lengths, kernel, stride, padding, dilation, strict=True)
    counts = [pooled_size(length, k, s, p, d, ceil) for length, k, s, p, d in each]
    framed = padded(value, padding, tails(lengths, counts, kernel, stride, padding, dilation), fill)
    parts = [
        op.Unsqueeze(shifted(framed, axes, [o * d for o, d in zip(place, dilation, strict=True)], counts, stride), [-1])
        for place in product(*map(range, kernel))
    ]
    return (parts[0] if len(parts) == 1 else op.Concat(*parts, axis=-1)), counts
