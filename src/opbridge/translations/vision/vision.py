"""torchvision's operators: deformable convolution, non-maximum suppression, and pooling of regions of interest."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op
from onnxscript import opset19

from opbridge.errors import TranslationError
from opbridge.translations.lib.dims import Dim, dim_of, element_count, positions, shape_of
from opbridge.translations.lib.dtypes import const
from opbridge.translations.lib.kernel_nodes import kernel
from opbridge.translations.registry import builtin

_INT64 = ir.DataType.INT64


@builtin("torchvision::deform_conv2d", opset=19)
def deform_conv2d(
    input,
    weight,
    offset,
    mask,
    bias,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
):
    """deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt
    stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups,
    bool use_mask) -> Tensor
    """
    # torchvision passes a mask without elements where there is none, and says so in use_mask.
    return opset19.DeformConv(
        input,
        weight,
        offset,
        bias,
        mask if use_mask else None,
        strides=[stride_h, stride_w],
        pads=[pad_h, pad_w, pad_h, pad_w],
        dilations=[dilation_h, dilation_w],
        group=groups,
        offset_group=offset_groups,
    )


@builtin("torchvision::deform_conv2d")
def deform_conv2d_kernel(
    input,
    weight,
    offset,
    mask,
    bias,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
):
    """deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt
    stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups,
    bool use_mask) -> Tensor
    """
    return kernel(
        "deform_conv2d",
        [input, weight, offset, mask if use_mask else None, bias],
        stride=[stride_h, stride_w],
        padding=[pad_h, pad_w],
        dilation=[dilation_h, dilation_w],
        groups=groups,
        offset_groups=offset_groups,
    )


@builtin("torchvision::nms")
def nms(dets, scores, iou_threshold: float):
    """nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"""
    if dets.dtype == ir.DataType.DOUBLE:
        raise TranslationError(
            "ONNX's NonMaxSuppression supports only float32. Pass float32 boxes to torchvision.ops.nms."
        )
    boxes = op.Cast(dets, to=ir.DataType.FLOAT)
    # ONNX orders the corners of each box. For torch a box whose second corner comes first overlaps none, as one without
    # an area does.
    first, second = op.Slice(boxes, [0], [2], [1]), op.Slice(boxes, [2], [4], [1])
    boxes = op.Unsqueeze(op.Concat(first, op.Max(first, second), axis=1), [0])
    ranks = op.Unsqueeze(op.Cast(scores, to=ir.DataType.FLOAT), [0, 1])
    kept = op.NonMaxSuppression(boxes, ranks, [np.iinfo(np.int64).max], [iou_threshold])
    return op.Gather(kept, 2, axis=1)


# Regions of interest. Since opset 22 onnxruntime has no kernel for RoiAlign and MaxRoiPool. Each output cell is made
# from taps, the pixels that it looks at: their rows of channels are gathered, then weighted or compared.


@builtin("torchvision::roi_align")
def roi_align(
    input, rois, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int, aligned: bool
):
    """roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int
    sampling_ratio, bool aligned) -> Tensor
    """
    return op.RoiAlign(
        input,
        op.Slice(rois, [1], [5], [1]),
        op.Cast(op.Gather(rois, 0, axis=1), to=_INT64),
        coordinate_transformation_mode="half_pixel" if aligned else "output_half_pixel",
        output_height=pooled_height,
        output_width=pooled_width,
        sampling_ratio=max(sampling_ratio, 0),
        spatial_scale=spatial_scale,
    )


@builtin("torchvision::roi_align", opset=22)
def roi_align_gathered(
    input, rois, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int, aligned: bool
):
    """roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int
    sampling_ratio, bool aligned) -> Tensor
    """
    shift, least = (0.5, None) if aligned else (0.0, 1.0)
    y = _bilinear_taps(input, rois, 0, pooled_height, spatial_scale, shift, least, sampling_ratio)
    x = _bilinear_taps(input, rois, 1, pooled_width, spatial_scale, shift, least, sampling_ratio)
    samples = op.Max(y.samples * x.samples, 1.0) if sampling_ratio <= 0 else sampling_ratio**2
    return _weighted_mean(_pixels(input), _image(input, rois), dim_of(input, 3), y, x, samples)


@builtin("torchvision::ps_roi_align")
def ps_roi_align(input, rois, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int):
    """ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int
    sampling_ratio) -> (Tensor, Tensor)
    """
    y = _bilinear_taps(input, rois, 0, pooled_height, spatial_scale, 0.5, None, sampling_ratio)
    x = _bilinear_taps(input, rois, 1, pooled_width, spatial_scale, 0.5, None, sampling_ratio)
    samples = y.samples * x.samples
    bins = (pooled_height, pooled_width)
    first = _image_and_bin(input, rois, *bins)
    pooled = _weighted_mean(_pixels_of_bins(input, *bins), first, dim_of(input, 3), y, x, samples)
    return pooled, _channel_mapping(input, pooled, *bins)


@builtin("torchvision::roi_pool")
def roi_pool(input, rois, spatial_scale: float, pooled_height: int, pooled_width: int):
    """roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) -> (Tensor,
    Tensor)
    """
    y = _cells(input, rois, 0, pooled_height, spatial_scale, last_included=True)
    x = _cells(input, rois, 1, pooled_width, spatial_scale, last_included=True)
    inside = _flatten_pairs(y, x, op.And(*_broadcast_pair(y.weights, x.weights)))
    places = _flatten_pairs(y, x, _pixel_numbers(y, x, dim_of(input, 3)))
    lowest = const(np.finfo(input.dtype.numpy()).min, input.dtype)
    taps = op.Gather(_pixels(input), places + _image(input, rois, rank=4))
    taps = op.Where(op.Unsqueeze(inside, [-1]), taps, lowest)  # region, row, column, tap, channel
    best = op.ArgMax(taps, axis=3)
    found = op.GatherElements(op.Expand(op.Unsqueeze(places, [-1]), op.Shape(taps)), best, axis=3)
    is_empty = op.Not(op.Cast(op.ReduceMax(op.Cast(inside, to=ir.DataType.INT32), [3]), to=ir.DataType.BOOL))
    is_empty = op.Unsqueeze(op.Squeeze(is_empty, [3]), [1])
    largest = op.Where(is_empty, const(0, input.dtype), _channels_first(op.ReduceMax(taps, [3])))
    return largest, op.Cast(op.Where(is_empty, -1, _channels_first(found)), to=ir.DataType.INT32)


@builtin("torchvision::ps_roi_pool")
def ps_roi_pool(input, rois, spatial_scale: float, pooled_height: int, pooled_width: int):
    """ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) ->
    (Tensor, Tensor)
    """
    bins = (pooled_height, pooled_width)
    y = _cells(input, rois, 0, pooled_height, spatial_scale, last_included=False)
    x = _cells(input, rois, 1, pooled_width, spatial_scale, last_included=False)
    y, x = (_Taps(axis.positions, op.CastLike(axis.weights, input), axis.bins, axis.count) for axis in (y, x))
    in_bin = _flatten_pairs(y, x, op.Mul(*_broadcast_pair(y.weights, x.weights)))
    samples = op.Max(op.ReduceSum(in_bin, [3]), 1.0)
    first = _image_and_bin(input, rois, *bins)
    pooled = _weighted_mean(_pixels_of_bins(input, *bins), first, dim_of(input, 3), y, x, samples)
    return pooled, _channel_mapping(input, pooled, *bins)


class _Taps:
    """The taps along one axis.

    Attributes:
        positions: Of the pixels, int64 of shape (regions, bins, taps).
        weights: Their weights, or whether they count, of the same shape.
        bins: How many bins there are.
        count: How many taps a bin has, an int or a value.
        samples: How many samples the bin is averaged over.
    """

    def __init__(self, positions: Any, weights: Any, bins: int, count: Any, samples: Any = None) -> None:
        self.positions = positions
        self.weights = weights
        self.bins = bins
        self.count = count
        self.samples = samples


def _bilinear_taps(
    input: Any, rois: Any, axis: int, bins: int, spatial_scale: float, shift: float, least: float | None, ratio: int
) -> _Taps:
    """Two taps for each sample, the pixels on its sides. A sample more than a pixel outside of the image weighs
    nothing.
    """
    start, end = (value - shift if shift else value for value in _extent(rois, axis, spatial_scale))
    length = end - start if least is None else op.Max(end - start, least)
    step = length / float(bins)
    if ratio > 0:
        count: Any = float(ratio)
        samples, most = const(np.arange(ratio), rois.dtype), ratio
    else:
        # As many samples as the bin is pixels long: a number for each region, out of the largest of them.
        count = op.Ceil(step)
        most = _largest(op.Cast(count, to=_INT64))
        samples = op.Cast(positions(most), to=rois.dtype)
    place = start + const(np.arange(bins).reshape(1, bins, 1), rois.dtype) * step + (samples + 0.5) * step / count
    extent = op.CastLike(dim_of(input, 2 + axis).value, rois)
    inside = op.And(place >= -1.0, place <= extent)
    if ratio <= 0:
        inside = op.And(inside, samples < count)
    place = op.Where(inside, op.Max(op.Min(place, extent - 1.0), 0.0), const(0, rois.dtype))
    low = op.Floor(place)
    high = op.Min(low + 1.0, extent - 1.0)
    above = place - low
    weights = op.Where(op.Concat(inside, inside, axis=2), op.Concat(1.0 - above, above, axis=2), const(0, rois.dtype))
    places = op.Cast(op.Concat(low, high, axis=2), to=_INT64)
    return _Taps(places, op.CastLike(weights, input), bins, most * 2, ratio if ratio > 0 else op.Unsqueeze(count, [1]))


def _cells(input: Any, rois: Any, axis: int, bins: int, spatial_scale: float, *, last_included: bool) -> _Taps:
    """Every pixel of a bin is a tap: the bins' bounds are rounded outwards."""
    start, end = (op.Sign(value) * op.Floor(op.Abs(value) + 0.5) for value in _extent(rois, axis, spatial_scale))
    length = op.Max(end - start + 1.0 if last_included else end - start, 1.0)
    step = length / float(bins)
    index = np.arange(bins).reshape(1, bins, 1)
    first, last = op.Floor(const(index, rois.dtype) * step), op.Ceil(const(index + 1, rois.dtype) * step)
    extent = dim_of(input, 2 + axis)
    first, last = (
        op.Max(op.Min(op.Cast(bound + start, to=_INT64), (extent if last_included else extent - 1).value), 0)
        for bound in (first, last)
    )
    most = _largest(last - first)
    places = first + positions(most)
    return _Taps(op.Min(places, (extent - 1).value), places < last, bins, most)


def _extent(rois: Any, axis: int, spatial_scale: float) -> tuple[Any, Any]:
    """Where each region starts and ends along the height (axis 0) or the width (axis 1), of shape (regions, 1, 1)."""
    start, end = (op.Unsqueeze(op.Gather(rois, column - axis, axis=1), [1, 2]) for column in (2, 4))
    return start * spatial_scale, end * spatial_scale


def _largest(counts: Any) -> Any:
    """The largest count, and at least 1: there may be no regions."""
    return op.ReduceMax(op.Concat(op.Reshape(counts, [-1]), [1], axis=0), keepdims=0)


def _pixels(input: Any) -> Any:
    """A row of channels for each pixel of each image."""
    return op.Reshape(op.Transpose(input, perm=[0, 2, 3, 1]), shape_of([-1, dim_of(input, 1)]))


def _pixels_of_bins(input: Any, height: int, width: int) -> Any:
    """A row of output channels for each pixel, bin and image: every bin has input channels of its own."""
    split = op.Reshape(input, shape_of([0, -1, height * width, element_count(input, [2, 3])]))
    return op.Reshape(op.Transpose(split, perm=[0, 2, 3, 1]), shape_of([-1, _output_channels(input, height, width)]))


def _output_channels(input: Any, height: int, width: int) -> Dim:
    return dim_of(input, 1) // (height * width)


def _image(input: Any, rois: Any, rank: int = 5) -> Any:
    """The row that the image of each region begins with."""
    image = op.Unsqueeze(op.Cast(op.Gather(rois, 0, axis=1), to=_INT64), list(range(1, rank)))
    return image * element_count(input, [2, 3]).value


def _image_and_bin(input: Any, rois: Any, height: int, width: int) -> Any:
    """The row that the pixels of each region's bin begin with, where every bin has its own."""
    pixels = element_count(input, [2, 3]).value
    bins = const(np.arange(height * width).reshape(1, height, width, 1, 1))
    return _image(input, rois) * (height * width) + bins * pixels


def _broadcast_pair(y: Any, x: Any) -> tuple[Any, Any]:
    """What goes with the rows' taps and the columns' taps, each to be broadcast against the other."""
    return op.Unsqueeze(y, [2, 4]), op.Unsqueeze(x, [1, 3])


def _flatten_pairs(y: _Taps, x: _Taps, pairs: Any) -> Any:
    """Pairs of taps in one dimension: (regions, rows, columns, taps)."""
    return op.Reshape(pairs, [0, y.bins, x.bins, y.count * x.count])


def _pixel_numbers(y: _Taps, x: _Taps, width: Dim) -> Any:
    rows, columns = _broadcast_pair(y.positions, x.positions)
    return rows * width.value + columns


def _weighted_mean(pixels: Any, first: Any, width: Dim, y: _Taps, x: _Taps, samples: Any) -> Any:
    """The weighted sum of every bin's taps over its number of samples: (regions, channels, rows, columns).

    Args:
        pixels: Rows of channels.
        first: Where the image of a region begins in them, of rank 5.
        width: The image's width.
        y: The rows' taps.
        x: The columns' taps.
        samples: The number, or one for each region and bin, of rank 4.
    """
    taps = op.Gather(pixels, _flatten_pairs(y, x, _pixel_numbers(y, x, width) + first))
    weights = op.Unsqueeze(_flatten_pairs(y, x, op.Mul(*_broadcast_pair(y.weights, x.weights))), [3])
    total = op.Squeeze(op.MatMul(weights, taps), [3])
    return op.Transpose(total / samples, perm=[0, 3, 1, 2])


def _channels_first(value: Any) -> Any:
    """From (regions, rows, columns, 1, channels)."""
    return op.Transpose(op.Squeeze(value, [3]), perm=[0, 3, 1, 2])


def _channel_mapping(input: Any, pooled: Any, height: int, width: int) -> Any:
    """The input channel of each element of the output."""
    channels = positions(_output_channels(input, height, width))
    bins = const(np.arange(height * width).reshape(1, height, width))
    mapping = op.Unsqueeze(channels, [1, 2]) * (height * width) + bins
    return op.Cast(op.Expand(mapping, op.Shape(pooled)), to=ir.DataType.INT32)
