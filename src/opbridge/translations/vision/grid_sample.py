"""Sampling of images and volumes at the points of a grid, and the grid of an affine map."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op
from onnxscript import opset20

from opbridge.translations.lib.dims import Dim, as_dims, dim_of, positions
from opbridge.translations.lib.dtypes import HALVES, cast_like, const
from opbridge.translations.lib.kernel_nodes import kernel
from opbridge.translations.registry import builtin
from opbridge.translations.vision.narrow_grid import mirrored, sampled_narrow

_MODES = ("linear", "nearest", "cubic")
_PADDINGS = ("zeros", "border", "reflection")


@builtin("aten::grid_sampler", "aten::grid_sampler_2d", "aten::grid_sampler_3d")
def grid_sampler_18(input, grid, interpolation_mode: int, padding_mode: int, align_corners: bool):
    """grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode,
    bool align_corners) -> Tensor"""
    if input.dtype in HALVES:
        return sampled_narrow(grid_sampler_18, input, grid, interpolation_mode, padding_mode, align_corners)
    mode, padding = _MODES[interpolation_mode], _PADDINGS[padding_mode]
    if (mode, padding) == ("nearest", "reflection"):
        return _nearest_reflected(input, grid, align_corners)
    if len(input.shape) != 4:
        # ONNX samples volumes since opset 20.
        return kernel(
            "grid_sample",
            [input, grid],
            interpolation_mode=interpolation_mode,
            padding_mode=padding_mode,
            align_corners=int(align_corners),
        )
    renamed = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    near = _clamped_grid(grid, mode, padding, 2)
    sampled = op.GridSample(input, near, mode=renamed, padding_mode=padding, align_corners=int(align_corners))
    return _with_nan_of_grid(sampled, grid, mode, padding, 2)


@builtin("aten::grid_sampler", "aten::grid_sampler_2d", "aten::grid_sampler_3d", opset=20)
def grid_sampler(input, grid, interpolation_mode: int, padding_mode: int, align_corners: bool):
    """grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode,
    bool align_corners) -> Tensor"""
    if input.dtype in HALVES:
        return sampled_narrow(grid_sampler, input, grid, interpolation_mode, padding_mode, align_corners)
    mode, padding = _MODES[interpolation_mode], _PADDINGS[padding_mode]
    if (mode, padding) == ("nearest", "reflection"):
        return _nearest_reflected(input, grid, align_corners)
    rank = len(input.shape) - 2
    near = _clamped_grid(grid, mode, padding, rank)
    sampled = opset20.GridSample(input, near, mode=mode, padding_mode=padding, align_corners=int(align_corners))
    return _with_nan_of_grid(sampled, grid, mode, padding, rank)


@builtin("aten::affine_grid_generator")
def affine_grid_generator(theta, size, align_corners: bool):
    """affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor"""
    lengths = as_dims(size[2:])
    rank = len(lengths)
    axes = [_centres(length, align_corners, theta.dtype) for length in reversed(lengths)]  # x first
    # The point (x, y, 1) goes to theta[:, :, 0] x + theta[:, :, 1] y + theta[:, :, 2]: one term for each axis.
    columns = op.Split(op.Transpose(theta, perm=[0, 2, 1]), num_outputs=rank + 1, axis=1)
    total = _with_grid_axes(columns[rank], rank)
    for place, axis in enumerate(axes):
        along = [1] * (rank + 1)
        along[rank - 1 - place] = -1
        total = op.Reshape(axis, along) * _with_grid_axes(columns[place], rank) + total
    return total


def _with_grid_axes(column: Any, rank: int) -> Any:
    """(batch, 1, coordinates) with a dimension for each axis of the grid."""
    return op.Unsqueeze(column, list(range(1, rank))) if rank > 1 else column


def _centres(length: Dim, align_corners: bool, dtype: ir.DataType) -> Any:
    """The places of an axis's pixels between -1 and 1."""
    if length.is_known:
        size = int(length)
        steps = np.arange(size, dtype=dtype.numpy())
        places = -1 + steps * (2 / (size - 1)) if size > 1 else steps
        return const(places if align_corners else places * ((size - 1) / size), dtype)
    count = op.Cast(length.value, to=dtype)
    steps = op.Cast(positions(length), to=dtype)
    if align_corners:
        return op.Where(count > 1.0, steps * (2.0 / op.Max(count - 1.0, 1.0)) - 1.0, const(0, dtype))
    return (steps * 2.0 + 1.0) / count - 1.0


_FAR = 16.0
"""Nothing of an image is within the reach of a point that is so far outside, however few pixels it has."""


def _clamped_grid(grid: Any, mode: str, padding: str, rank: int) -> Any:
    """The grid without points so far outside that onnxruntime has no place for them: it reads the first pixel there.

    Infinite coordinates and those that are no numbers are where torch takes them to be, but see `_with_nan_of_grid`.
    """
    if padding == "reflection":
        is_far, end = op.Not(op.Abs(grid) < np.inf), const(1, grid.dtype)
        return grid if rank == 2 else op.Where(is_far, end, grid)
    reach = 1.0 if padding == "border" and mode != "cubic" else _FAR
    clipped = op.Clip(grid, -reach, reach)
    is_image_border = rank == 2 and padding == "border"
    return clipped if is_image_border else op.Where(op.IsNaN(grid), const(reach, grid.dtype), clipped)


def _with_nan_of_grid(sampled: Any, grid: Any, mode: str, padding: str, rank: int) -> Any:
    """What was sampled, with nan where torch has it: its weights for an image come from the coordinates as they are."""
    if rank != 2 or mode == "nearest" or (mode == "linear" and padding != "zeros"):
        return sampled
    return sampled + op.Unsqueeze(op.ReduceSum(grid * 0.0, [-1], keepdims=0), [1])


def _nearest_reflected(input: Any, grid: Any, align_corners: bool) -> Any:
    """The nearest pixels where the border is a mirror.

    onnxruntime rounds before it mirrors, and halves go the other way then.
    """
    rank = len(input.shape) - 2
    lengths = [dim_of(input, 2 + axis) for axis in range(rank)]
    place: Any = None
    for axis, length in enumerate(lengths):
        at = op.Gather(grid, rank - 1 - axis, axis=rank + 1)
        at = op.Cast(_reflected_pixel(at, length, align_corners, rank), to=ir.DataType.INT64)
        place = at if place is None else place * length.value + at
    flat = op.Reshape(place, [0, 1, -1])
    pixels = op.Reshape(input, [0, 0, -1])
    index = op.Expand(flat, op.Concat(op.Shape(input, end=2), [1], axis=0))
    picked = op.GatherElements(pixels, index, axis=2)
    return op.Reshape(picked, op.Concat(op.Shape(input, end=2), op.Shape(grid, start=1, end=-1), axis=0))


def _reflected_pixel(at: Any, length: Dim, align_corners: bool, rank: int) -> Any:
    """A coordinate between -1 and 1 as the number of a pixel, mirrored at the border as often as it takes.

    One that is infinite or no number is the first pixel of an image and the last of a volume.
    """
    count = cast_like(length.value, at)
    if align_corners:
        low, span = const(0, at.dtype), count - 1.0
        pixel = (at + 1.0) / 2.0 * span
    else:
        low, span = const(-0.5, at.dtype), count
        pixel = ((at + 1.0) * count - 1.0) / 2.0
    pixel.dtype = at.dtype
    inside = op.Round(op.Max(op.Min(mirrored(pixel, low, span), count - 1.0), 0.0))
    return op.Where(op.IsNaN(inside), const(0, at.dtype) if rank == 2 else count - 1.0, inside)
