"""Pooling: average, maximum, and both to a given size."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm, prod
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.dims import (
    Dim,
    all_known,
    as_dims,
    dims_of,
    element_count,
    maximum,
    per_dim,
    positions,
    product,
    shape_of,
)
from opbridge.translations.lib.dtypes import FLOATS, HALVES, cast, const, widen
from opbridge.translations.lib.reshaping import reshape, with_batch
from opbridge.translations.lib.windows import end_padding, pad, pooled_size, sliding_windows, strided_slice
from opbridge.translations.registry import builtin


@builtin("aten::avg_pool1d")
def avg_pool1d(self, kernel_size, stride=(), padding=0, ceil_mode: bool = False, count_include_pad: bool = True):
    """avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, bool ceil_mode=False, bool
    count_include_pad=True) -> Tensor"""
    return _avg_pool(self, 1, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@builtin("aten::avg_pool2d")
def avg_pool2d(
    self, kernel_size, stride=(), padding=0, ceil_mode: bool = False, count_include_pad: bool = True,
    divisor_override=None,
):  # fmt: skip
    """avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool
    count_include_pad=True, int? divisor_override=None) -> Tensor"""
    return _avg_pool(self, 2, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@builtin("aten::avg_pool3d")
def avg_pool3d(
    self, kernel_size, stride=(), padding=0, ceil_mode: bool = False, count_include_pad: bool = True,
    divisor_override=None,
):  # fmt: skip
    """avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, bool
    count_include_pad=True, int? divisor_override=None) -> Tensor"""
    return _avg_pool(self, 3, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _avg_pool(
    self: Any, rank: int, kernel: Any, stride: Any, padding: Any, ceil: bool, include: bool, divisor: Any
) -> Any:
    kernel = per_dim(kernel, rank)
    stride = per_dim(stride or kernel, rank)
    padding = per_dim(padding, rank)
    if self.dtype in FLOATS and self.dtype != ir.DataType.DOUBLE:
        if divisor is None:
            return with_batch(self, rank + 2, lambda x: _average(x, kernel, stride, padding, ceil, include))
        if not ceil:
            # Every window is whole, its padding counted: from mean to sum is one factor.
            mean = with_batch(self, rank + 2, lambda x: _average(x, kernel, stride, padding, ceil, True))
            return mean * (prod(kernel) / divisor)
    self = widen(self)
    lengths = dims_of(self)[-rank:]
    each = zip(lengths, kernel, stride, padding, strict=True)
    counts = [pooled_size(length, k, s, p, ceil=ceil) for length, k, s, p in each]
    after = end_padding(lengths, counts, kernel, stride, padding, [1] * rank)
    total = _sums(pad(self, padding, after), kernel, stride, counts, len(self.shape))
    if divisor is not None:
        return op.Div(total, float(divisor) if self.dtype in FLOATS else divisor)
    ones = op.Expand(op.CastLike(1, self), shape_of(lengths))
    if include:
        ones = _pad_ones(ones, padding, padding, 1)
        ones = _pad_ones(ones, [0] * rank, [tail - p for tail, p in zip(after, padding, strict=True)], 0)
    else:
        ones = _pad_ones(ones, padding, after, 0)
    return op.Div(total, _sums(ones, kernel, stride, counts, rank))


def _pad_ones(ones: Any, before: Sequence[Any], after: Sequence[Any], fill: int) -> Any:
    return op.Pad(ones, shape_of([*before, *after]), op.CastLike(fill, ones))


def _average(x: Any, kernel: list[int], stride: list[int], padding: list[int], ceil: bool, include: bool) -> Any:
    return op.AveragePool(
        x,
        kernel_shape=kernel,
        strides=stride,
        pads=[*padding, *padding],
        ceil_mode=int(ceil),
        count_include_pad=int(include),
    )


def _sums(framed: Any, kernel: list[int], stride: list[int], counts: list[Dim], total_rank: int) -> Any:
    """The sums of all windows, one dimension after the other."""
    first = total_rank - len(kernel)
    for axis, (k, s, number) in enumerate(zip(kernel, stride, counts, strict=True), start=first):
        parts = [strided_slice(framed, [axis], [offset], [number], [s]) for offset in range(k)]
        framed = parts[0] if k == 1 else op.Sum(*parts) if framed.dtype in FLOATS else _add_all(parts)
    return framed


def _add_all(parts: list[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


# Maximum


@builtin("aten::max_pool1d")
def max_pool1d(self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode: bool = False):
    """max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, int[1] dilation=1, bool
    ceil_mode=False) -> Tensor"""
    return _max_pool(self, 1, kernel_size, stride, padding, dilation, ceil_mode)[0]


@builtin("aten::max_pool2d")
def max_pool2d(self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode: bool = False):
    """max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool
    ceil_mode=False) -> Tensor"""
    return _max_pool(self, 2, kernel_size, stride, padding, dilation, ceil_mode)[0]


@builtin("aten::max_pool3d")
def max_pool3d(self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode: bool = False):
    """max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool
    ceil_mode=False) -> Tensor"""
    return _max_pool(self, 3, kernel_size, stride, padding, dilation, ceil_mode)[0]


@builtin("aten::max_pool1d_with_indices")
def max_pool1d_with_indices(self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode: bool = False):
    """max_pool1d_with_indices(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, int[1] dilation=1,
    bool ceil_mode=False) -> (Tensor, Tensor)"""
    return _max_pool(self, 1, kernel_size, stride, padding, dilation, ceil_mode)


@builtin("aten::max_pool2d_with_indices")
def max_pool2d_with_indices(self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode: bool = False):
    """max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1,
    bool ceil_mode=False) -> (Tensor, Tensor)"""
    return _max_pool(self, 2, kernel_size, stride, padding, dilation, ceil_mode)


@builtin("aten::max_pool3d_with_indices")
def max_pool3d_with_indices(self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode: bool = False):
    """max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1,
    bool ceil_mode=False) -> (Tensor, Tensor)"""
    return _max_pool(self, 3, kernel_size, stride, padding, dilation, ceil_mode)


_POOLED = frozenset({*FLOATS, ir.DataType.INT8, ir.DataType.UINT8})


def _max_pool(self: Any, rank: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool) -> list[Any]:
    """Values, and their places in their plane.

    Where onnxruntime differs from torch: it passes over nan, and of infinities below zero it makes the lowest number.
    """
    kernel = per_dim(kernel, rank)
    stride = per_dim(stride or kernel, rank)
    padding = per_dim(padding, rank)
    dilation = per_dim(dilation, rank)
    plane = element_count(self, range(-rank, 0)).value
    if self.dtype in (ir.DataType.INT16, ir.DataType.INT32, ir.DataType.UINT16, ir.DataType.UINT32):
        self = cast(self, ir.DataType.DOUBLE)
    elif self.dtype not in _POOLED:
        return _max_of_windows(self, kernel, stride, padding, dilation, ceil)

    def pool(x: Any) -> list[Any]:
        values, indices = op.MaxPool(
            x,
            kernel_shape=kernel,
            strides=stride,
            pads=[*padding, *padding],
            dilations=dilation,
            ceil_mode=int(ceil),
        )
        # ONNX counts through the whole tensor.
        return [values, op.Mod(indices, plane)]

    return with_batch(self, rank + 2, pool)


def _max_of_windows(
    self: Any, kernel: list[int], stride: list[int], padding: list[int], dilation: list[int], ceil: bool
) -> list[Any]:
    """For int64, which no kernel takes, and which fits in no floating type."""
    lowest = int(np.iinfo(self.dtype.numpy()).min)
    laid_out, _ = sliding_windows(self, kernel, stride, padding, dilation, ceil, fill=lowest)
    lengths = dims_of(self)[-len(kernel) :]
    places = reshape(positions(product(lengths)), lengths)
    places, _ = sliding_windows(places, kernel, stride, padding, dilation, ceil, fill=-1)
    best = op.ArgMax(laid_out, axis=-1, keepdims=1)
    index = op.GatherElements(op.Expand(places, op.Shape(laid_out)), best, axis=-1)
    # Where the lowest number is the largest, padding may have been picked; torch takes the first element inside.
    inside = op.ReduceMin(op.Where(places < 0, np.iinfo(np.int64).max, places), [-1], keepdims=1)
    index = op.Squeeze(op.Where(index < 0, inside, index), [-1])
    return [op.ReduceMax(laid_out, [-1], keepdims=0), index]


# To a given size


@builtin("aten::adaptive_avg_pool1d", "aten::adaptive_avg_pool2d", "aten::_adaptive_avg_pool2d")
@builtin("aten::adaptive_avg_pool3d", "aten::_adaptive_avg_pool3d")
def adaptive_avg_pool(self, output_size):
    """adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor"""
    rank = len(output_size)
    lengths = dims_of(self)[-rank:]
    wanted_sizes = as_dims(output_size)
    if all(wanted == 1 for wanted in wanted_sizes):
        if self.dtype == ir.DataType.DOUBLE or len(self.shape) == rank + 1:
            return op.ReduceMean(self, list(range(-rank, 0)), keepdims=1)
        return op.GlobalAveragePool(self)
    steps = _window_sizes(lengths, wanted_sizes)
    if steps is not None and self.dtype != ir.DataType.DOUBLE:
        return with_batch(self, rank + 2, lambda x: _average(x, steps, steps, [0] * rank, False, False))
    if self.dtype in HALVES and (repeated := _repeated_elements(lengths, wanted_sizes)) is not None:
        return _mean_of_repeated(self, repeated)
    self, whole = widen(self), len(self.shape)
    for axis, (length, wanted) in enumerate(zip(lengths, wanted_sizes, strict=True), start=whole - rank):
        if length != wanted:
            self = _mean_of_segments(self, axis, length, wanted, whole)
    return self


@builtin("aten::adaptive_max_pool1d", "aten::adaptive_max_pool2d", "aten::adaptive_max_pool3d")
def adaptive_max_pool(self, output_size):
    """adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)"""
    rank = len(output_size)
    lengths = dims_of(self)[-rank:]
    lead = len(self.shape) - rank
    wanted_sizes = as_dims(output_size)
    steps = _window_sizes(lengths, wanted_sizes)
    if steps is not None:
        return _max_pool(self, rank, steps, steps, 0, 1, False)
    if all(wanted == 1 for wanted in wanted_sizes):
        flat = op.Reshape(self, shape_of([*dims_of(self)[:lead], product(lengths)]))
        shape = shape_of([*dims_of(self)[:lead], *([1] * rank)])
        index = op.ArgMax(flat, axis=-1, keepdims=0)
        return [op.ReduceMax(self, list(range(-rank, 0)), keepdims=1), op.Reshape(index, shape)]
    # (..., out, longest) for each dimension in turn; then the segments' dimensions together at the end.
    places: Any = 0
    for k, (length, wanted) in enumerate(zip(lengths, wanted_sizes, strict=True)):
        index, _, _ = _segment_bounds(length, wanted)
        self = op.Gather(self, index, axis=lead + 2 * k)
        spread: list[Any] = [1] * (2 * rank)
        spread[2 * k], spread[2 * k + 1] = wanted, -1
        places = op.Add(op.Mul(places, length.value), op.Reshape(index, shape_of(spread)))
    outs = [lead + 2 * k for k in range(rank)]
    order = [*range(lead), *outs, *(axis + 1 for axis in outs)]
    self = _flat_segments(op.Transpose(self, perm=order), rank)
    places = _flat_segments(op.Transpose(places, perm=[axis - lead for axis in order[lead:]]), rank)
    return _maximum_and_place(self, op.Expand(places, op.Shape(self)), lead + rank)


def _maximum_and_place(values: Any, places: Any, axis: int) -> list[Any]:
    """The largest values along the last axis, and their places.

    The axis is counted from the front: of nothing, ONNX Runtime reduces no axis that is counted from the end.
    """
    index = op.GatherElements(places, op.ArgMax(values, axis=axis, keepdims=1), axis=axis)
    return [op.ReduceMax(values, [axis], keepdims=0), op.Squeeze(index, [axis])]


def _flat_segments(value: Any, rank: int) -> Any:
    """The last `rank` dimensions as one."""
    last = op.ReduceProd(op.Shape(value, start=-rank))
    return op.Reshape(value, op.Concat(op.Shape(value, end=-rank), last, axis=0), allowzero=1)


def _window_sizes(lengths: list[Dim], wanted: list[Dim]) -> list[int] | None:
    """The window's size in each dimension, where all sizes are known and divide evenly."""
    if not all(dim.is_known and dim > 0 for dim in (*lengths, *wanted)):
        return None
    if any(length % out != 0 for length, out in zip(lengths, wanted, strict=True)):
        return None
    return [int(length // out) for length, out in zip(lengths, wanted, strict=True)]


def _segment_bounds(length: Dim, wanted: Dim) -> tuple[Any, Any, Any]:
    """The segments that a dimension is pooled in: from floor(i * length / out) to ceil((i + 1) * length / out).

    Returns:
        The places of each segment's elements, the last one repeated where a segment is shorter than the longest, of
        shape (out, longest); which of them are no repeats; and the segments' lengths, of shape (out, 1).
    """
    if all_known(length, wanted):
        i = np.arange(int(wanted))[:, None]
        start, end = i * int(length) // int(wanted), -((i + 1) * -int(length) // int(wanted))
        reach = start + np.arange((end - start).max(initial=0))
        return const(np.minimum(reach, end - 1)), const(reach < end), const(end - start)
    i = op.Unsqueeze(positions(wanted), [1])
    count = maximum(wanted, 1).value  # of no segment there is no length, and no division by zero either
    start = op.Div(i * length.value, count)
    end = op.Div((i + 1) * length.value + (wanted - 1).value, count)
    reach = start + positions(op.ReduceMax(op.Concat(end - start, [[0]], axis=0), keepdims=0))
    return op.Min(reach, end - 1), reach < end, end - start


def _mean_of_segments(self: Any, axis: int, length: Dim, wanted: Dim, rank: int) -> Any:
    index, inside, count = _segment_bounds(length, wanted)
    later = list(range(2, 2 + rank - axis - 1))
    gathered = op.Gather(self, index, axis=axis)
    if later:
        inside, count = op.Unsqueeze(inside, later), op.Unsqueeze(count, later)
    total = op.ReduceSum(op.Where(inside, gathered, op.CastLike(0, self)), [axis + 1], keepdims=0)
    return op.Div(total, op.CastLike(op.Squeeze(count, [1]), self))


_MOST_REPEATED = 12
"""The largest common multiple of lengths for which elements are repeated: that of 1, 2, 3 and 4."""


def _repeated_elements(lengths: list[Dim], wanted: list[Dim]) -> list[Any] | None:
    """For each dimension, the places of each segment's elements, repeated so that all segments have one length.

    Returns:
        Arrays of shape (out, length), or None for a dimension that keeps its size. None for all of them where a size
        is not known or 0, or where that length would be large.
    """
    if not all(dim.is_known and dim > 0 for dim in (*lengths, *wanted)):
        return None
    found: list[Any] = []
    for length, out in zip(map(int, lengths), map(int, wanted), strict=True):
        if length == out:
            found.append(None)
            continue
        segments = [np.arange(i * length // out, -((i + 1) * -length // out)) for i in range(out)]
        common = lcm(*(len(each) for each in segments))
        if common > _MOST_REPEATED:
            return None
        found.append(np.stack([each.repeat(common // len(each)) for each in segments]))
    return found


def _mean_of_repeated(self: Any, repeated: list[Any]) -> Any:
    """The means of segments of one length, of all dimensions at once, so that they are rounded once."""
    reduced: list[int] = []
    for axis, places in reversed(list(enumerate(repeated, start=len(self.shape) - len(repeated)))):
        if places is not None:
            self = op.Gather(self, const(places), axis=axis)
            reduced = [axis + 1, *(each + 1 for each in reduced)]
    return op.ReduceMean(self, reduced, keepdims=0)


@builtin("aten::fractional_max_pool2d", "aten::fractional_max_pool3d")
def fractional_max_pool(self, kernel_size, output_size, random_samples):
    """fractional_max_pool2d(Tensor self, int[2] kernel_size, int[2] output_size, Tensor random_samples) -> (Tensor,
    Tensor)"""
    rank = len(output_size)

    def pool(x: Any) -> list[Any]:
        lead, lengths = dims_of(x)[:2], dims_of(x)[2:]
        places: Any = 0
        for k, (length, kernel, wanted) in enumerate(zip(lengths, kernel_size, output_size, strict=True)):
            # torch reads the samples of two dimensions in reverse, and those of three in order.
            sample = op.Gather(random_samples, [1 - k if rank == 2 else k], axis=2)
            starts = _fractional_starts(sample, (length - kernel).value, wanted)
            reach = op.Add(op.Unsqueeze(starts, [-1]), list(range(kernel)))
            spread = [1] * (2 * rank)
            spread[k], spread[rank + k] = wanted, kernel
            places = op.Add(op.Mul(places, length.value), op.Reshape(reach, shape_of([*lead, *spread])))
        places = op.Reshape(places, shape_of([*lead, prod(output_size) * prod(kernel_size)]))
        values = op.GatherElements(op.Reshape(x, shape_of([*lead, product(lengths)])), places, axis=2)
        laid_out = shape_of([*lead, *output_size, prod(kernel_size)])
        values, places = op.Reshape(values, laid_out), op.Reshape(places, laid_out)
        return _maximum_and_place(values, places, 2 + rank)

    return with_batch(self, rank + 2, pool)


def _fractional_starts(sample: Any, last: Any, wanted: int) -> Any:
    """Where the segments begin, of shape (N, C, wanted), from one number between 0 and 1 each, of shape (N, C, 1)."""
    steps = const(np.arange(wanted - 1), sample.dtype)
    alpha = op.Div(op.CastLike(last, sample), op.CastLike(wanted - 1, sample)) if wanted > 1 else op.CastLike(0, sample)
    moved = op.Cast(op.Mul(op.Add(steps, sample), alpha), to=ir.DataType.INT64)
    starts = op.Sub(moved, op.Cast(op.Mul(sample, alpha), to=ir.DataType.INT64))
    return op.Concat(starts, op.Expand(last, op.Shape(sample)), axis=2)
