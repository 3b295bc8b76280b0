"""Images rearranged: sliding blocks, and space traded for channels."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.onnx.block_sums import summed_blocks
from opbridge.translations.lib.dims import Dim, all_known, dim_of, dims_of, per_dim, product, shape_of
from opbridge.translations.lib.dtypes import HALVES
from opbridge.translations.lib.reshaping import reshape, with_batch
from opbridge.translations.registry import builtin
from opbridge.translations.shape.movement import window_positions

_KERNELS_OF_DEPTH_TO_SPACE = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16})


@builtin("aten::im2col")
def im2col(self, kernel_size, dilation, padding, stride):
    """im2col(Tensor self, SymInt[2] kernel_size, int[2] dilation, SymInt[2] padding, SymInt[2] stride) -> Tensor"""
    kernel, dilations, pads, strides = (per_dim(given, 2) for given in (kernel_size, dilation, padding, stride))

    def blocks(x: Any) -> Any:
        batch, channels, height, width = (dim_of(x, axis) for axis in range(4))
        padded = op.Pad(x, [0, 0, *pads, 0, 0, *pads]) if any(pads) else x
        rows = window_positions(height + 2 * pads[0], kernel[0], strides[0], dilations[0])
        columns = window_positions(width + 2 * pads[1], kernel[1], strides[1], dilations[1])
        # (batch, channels, rows, kernel rows, columns, kernel columns)
        windows = op.Gather(op.Gather(padded, columns, axis=3), rows, axis=2)
        ordered = op.Transpose(windows, perm=[0, 1, 3, 5, 2, 4])
        count = _block_count(x, kernel, dilations, pads, strides)
        return op.Reshape(ordered, shape_of([batch, channels * (kernel[0] * kernel[1]), count]), allowzero=1)

    return with_batch(self, 4, blocks)


def _block_count(x: Any, kernel: Any, dilations: Any, pads: Any, strides: Any) -> Any:
    """How many blocks an image has."""
    counts = []
    for position in range(2):
        reach = dilations[position] * (kernel[position] - 1) + 1
        counts.append((dim_of(x, 2 + position) + (2 * pads[position] - reach)) // strides[position] + 1)
    return product(counts)


@builtin("aten::col2im")
def col2im(self, output_size, kernel_size, dilation, padding, stride):
    """col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride)"""
    image, kernel, dilations, pads, strides = (
        per_dim(given, 2) for given in (output_size, kernel_size, dilation, padding, stride)
    )
    builder = getattr(self, "builder", None)
    # Other exporters than opbridge's build for opset 18.
    is_node = self.dtype == ir.DataType.FLOAT and (builder is None or builder.opset >= _SINCE_COL2IM)

    def folded(x: Any) -> Any:
        if is_node:
            sizes = image if all_known(*image) else shape_of(image)
            return op.Col2Im(x, sizes, kernel, dilations=dilations, pads=[*pads, *pads], strides=strides)
        wide = op.Cast(x, to=ir.DataType.FLOAT) if x.dtype in HALVES or x.dtype == ir.DataType.BOOL else x
        batch, channels = dim_of(x, 0), dim_of(x, 1) // (kernel[0] * kernel[1])
        reach = [dilations[axis] * (kernel[axis] - 1) + 1 for axis in range(2)]
        counts = [(Dim(image[axis]) + (2 * pads[axis] - reach[axis])) // strides[axis] + 1 for axis in range(2)]
        summed = summed_blocks(
            lambda name, *inputs, **attributes: getattr(op, name)(*inputs, **attributes),
            lambda value, sizes: op.Reshape(value, shape_of([batch, channels, *sizes]), allowzero=1),
            wide,
            counts,
            block=[int(each) for each in kernel],
            strides=[int(each) for each in strides],
            dilations=[int(each) for each in dilations],
        )
        ends = shape_of([Dim(image[axis]) + pads[axis] for axis in range(2)])
        return op.Cast(op.Slice(summed, [int(each) for each in pads], ends, [2, 3]), to=x.dtype)

    return with_batch(self, 3, folded)


_SINCE_COL2IM = 18


@builtin("aten::pixel_shuffle")
def pixel_shuffle(self, upscale_factor: int):
    """pixel_shuffle(Tensor self, int upscale_factor) -> Tensor"""
    factor = upscale_factor
    if len(self.shape) == 4 and self.dtype in _KERNELS_OF_DEPTH_TO_SPACE and 0 not in self.shape:
        return op.DepthToSpace(self, blocksize=factor, mode="CRD")
    *batch, channels, height, width = dims_of(self)
    rank = len(batch)
    apart = reshape(self, [*batch, channels // factor**2, factor, factor, height, width])
    moved = op.Transpose(apart, perm=[*range(rank), rank, rank + 3, rank + 1, rank + 4, rank + 2])
    return reshape(moved, [*batch, channels // factor**2, height * factor, width * factor])


@builtin("aten::pixel_unshuffle")
def pixel_unshuffle(self, downscale_factor: int):
    """pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor"""
    factor = downscale_factor
    *batch, channels, height, width = dims_of(self)
    rank = len(batch)
    rows, columns = height // factor, width // factor
    apart = reshape(self, [*batch, channels, rows, factor, columns, factor])
    moved = op.Transpose(apart, perm=[*range(rank), rank, rank + 2, rank + 4, rank + 1, rank + 3])
    return reshape(moved, [*batch, channels * factor**2, rows, columns])


@builtin("aten::channel_shuffle", "aten::native_channel_shuffle")
def channel_shuffle(self, groups):
    """channel_shuffle(Tensor self, SymInt groups) -> Tensor"""
    dims = dims_of(self)
    apart = reshape(self, [dims[0], groups, dims[1] // groups, *dims[2:]])
    moved = op.Transpose(apart, perm=[0, 2, 1, *range(3, len(dims) + 1)])
    return reshape(moved, dims)
