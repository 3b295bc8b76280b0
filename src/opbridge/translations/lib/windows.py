"""Sliding windows out of slices, for the element types that runtimes have no pooling or convolution kernels for."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.dims import Dim, all_known, as_dims, dim_of, dims_of, maximum, product, shape_of
from opbridge.translations.lib.dtypes import described

__all__ = ["end_padding", "gathered_windows", "pad", "pooled_size", "sliding_windows", "strided_slice"]


def pooled_size(length: Any, kernel: int, stride: int, padding: int, dilation: int = 1, ceil: bool = False) -> Dim:
    """How many windows fit along a dimension, as torch counts them."""
    length = Dim(length)
    count = (length + (2 * padding - dilation * (kernel - 1) - 1 + (stride - 1 if ceil else 0))) // stride + 1
    if not ceil:
        return count
    # The last window has to start inside the input or the padding before it.
    last, end = (count - 1) * stride, length + padding
    if all_known(last, end):
        return count - 1 if last >= end else count
    return Dim(op.Where(last.value >= end.value, (count - 1).value, count.value))


def pad(x: Any, before: Sequence[Any], after: Sequence[Any], fill: Any = 0) -> Any:
    """Pads the last dimensions with a constant; negative amounts crop."""
    if all(Dim(amount) == 0 for amount in (*before, *after)):
        return x
    lead = [0] * (len(x.shape) - len(before))
    first, last = as_dims([*lead, *before]), as_dims([*lead, *after])
    result = op.Pad(x, shape_of([*first, *last]), None if fill == 0 else op.CastLike(fill, x))
    lengths = [
        length + int(head) + int(tail) if isinstance(length, int) and all_known(head, tail) else None
        for length, head, tail in zip(x.shape, first, last, strict=True)
    ]
    return described(result, ir.Shape(lengths), x.dtype)


def strided_slice(
    x: Any, axes: Sequence[int], offsets: Sequence[int], counts: Sequence[Any], strides: Sequence[int]
) -> Any:
    """Every `stride`-th element from `offset` on, `count` of them, along each of the axes."""
    ends = [
        offset + (Dim(count) - 1) * stride + 1 for offset, count, stride in zip(offsets, counts, strides, strict=True)
    ]
    return op.Slice(x, list(offsets), shape_of(ends), list(axes), list(strides))


def end_padding(
    lengths: Sequence[Any],
    counts: Sequence[Any],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> list[Dim]:
    """How much padding after each dimension lets the last window end inside it."""
    each = zip(as_dims(lengths), as_dims(counts), kernel, stride, padding, dilation, strict=True)
    return [maximum((n - 1) * s + (d * (k - 1) + 1 - p) - length, 0) for length, n, k, s, p, d in each]


def sliding_windows(
    x: Any,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil: bool = False,
    fill: Any = 0,
) -> tuple[Any, list[Dim]]:
    """All windows over the last dimensions, each laid out along a new last dimension in row-major order.

    Args:
        x: Of shape (..., *spatial).
        kernel: The window's size; as `stride`, `padding` and `dilation` one number a spatial dimension.
        stride: The step from window to window.
        padding: What is added before and after.
        dilation: The step from element to element of a window.
        ceil: Whether windows may reach beyond the padding.
        fill: What is padded with.

    Returns:
        The windows, of shape (..., *counts, prod(kernel)), and the counts.
    """
    axes = list(range(len(x.shape) - len(kernel), len(x.shape)))
    lengths = [dim_of(x, axis) for axis in axes]
    each = zip(lengths, kernel, stride, padding, dilation, strict=True)
    counts = [pooled_size(length, k, s, p, d, ceil) for length, k, s, p, d in each]
    framed = pad(x, padding, end_padding(lengths, counts, kernel, stride, padding, dilation), fill)
    parts = [
        op.Unsqueeze(
            strided_slice(framed, axes, [o * d for o, d in zip(place, dilation, strict=True)], counts, stride), [-1]
        )
        for place in itertools.product(*map(range, kernel))
    ]
    return (parts[0] if len(parts) == 1 else op.Concat(*parts, axis=-1)), counts


def gathered_windows(
    x: Any, kernel: Sequence[Any], stride: Sequence[int], dilation: Sequence[int]
) -> tuple[Any, list[Dim]]:
    """The windows of `sliding_windows` for a window whose size only a run tells: by indices, without padding.

    Args:
        x: Of shape (..., *spatial).
        kernel: The window's size; as `stride` and `dilation` one number a spatial dimension.
        stride: The step from window to window.
        dilation: The step from element to element of a window.

    Returns:
        The windows, of shape (..., *counts, elements), and the counts.
    """
    rank, lead = len(kernel), len(x.shape) - len(kernel)
    each = zip(dims_of(x)[lead:], as_dims(kernel), stride, dilation, strict=True)
    counts = [(length - (size - 1) * d - 1) // s + 1 for length, size, s, d in each]
    found = x
    for axis in reversed(range(rank)):  # the axes before it stay where they are
        starts = op.Mul(op.Range(0, counts[axis].value, 1), stride[axis])
        places = op.Mul(op.Range(0, Dim(kernel[axis]).value, 1), dilation[axis])
        found = op.Gather(found, op.Add(op.Unsqueeze(starts, [-1]), places), axis=lead + axis)
    if rank > 1:
        pairs = [lead + 2 * axis for axis in range(rank)]
        found = op.Transpose(found, perm=[*range(lead), *pairs, *(place + 1 for place in pairs)])
    return op.Reshape(found, shape_of([*dims_of(x)[:lead], *counts, product(kernel)])), counts
