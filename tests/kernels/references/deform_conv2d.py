"""Deformable convolution, versions 1 and 2, from its definition, in float64."""

from __future__ import annotations

import math

import numpy as np

__all__ = ["deform_conv2d"]

Pair = tuple[int, int]


def deform_conv2d(
    x: np.ndarray,
    offset: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None = None,
    stride: Pair = (1, 1),
    padding: Pair = (0, 0),
    dilation: Pair = (1, 1),
    mask: np.ndarray | None = None,
) -> np.ndarray:
    """torchvision.ops.deform_conv2d: groups follow from weight's channels, offset groups from offset's."""
    x, offset, weight = x.astype(np.float64), offset.astype(np.float64), weight.astype(np.float64)
    batch, channels, height, width = x.shape
    out_channels, group_channels, kernel_h, kernel_w = weight.shape
    out_height = (height + 2 * padding[0] - dilation[0] * (kernel_h - 1) - 1) // stride[0] + 1
    out_width = (width + 2 * padding[1] - dilation[1] * (kernel_w - 1) - 1) // stride[1] + 1
    groups = channels // group_channels if group_channels else 1
    offset_groups = offset.shape[1] // (2 * kernel_h * kernel_w)
    moves = offset.reshape(batch, offset_groups, kernel_h, kernel_w, 2, out_height, out_width)
    factors = np.ones((batch, offset_groups, kernel_h, kernel_w, out_height, out_width))
    if mask is not None:
        factors = mask.astype(np.float64).reshape(factors.shape)

    result = np.zeros((batch, out_channels, out_height, out_width))
    for n, c, u, v, i, j in np.ndindex(batch, channels, kernel_h, kernel_w, out_height, out_width):
        offset_group = c // (channels // offset_groups)
        dy, dx = moves[n, offset_group, u, v, :, i, j]
        y_place = i * stride[0] - padding[0] + u * dilation[0] + dy
        x_place = j * stride[1] - padding[1] + v * dilation[1] + dx
        value = factors[n, offset_group, u, v, i, j] * _bilinear(x[n, c], y_place, x_place)
        group, within = divmod(c, group_channels)
        outputs = slice(group * (out_channels // groups), (group + 1) * (out_channels // groups))
        result[n, outputs, i, j] += weight[outputs, within, u, v] * value
    if bias is not None:
        result += bias.astype(np.float64)[:, None, None]
    return result


def _bilinear(image: np.ndarray, y: float, x: float) -> float:
    """Between four pixels, those outside of the image being 0; 0 from a pixel or more outside of it."""
    height, width = image.shape
    if math.isnan(y) or math.isnan(x):
        return math.nan
    if not (-1 < y < height and -1 < x < width):
        return 0.0
    top, left = math.floor(y), math.floor(x)
    value = 0.0
    for row, row_share in ((top, 1 - (y - top)), (top + 1, y - top)):
        for column, column_share in ((left, 1 - (x - left)), (left + 1, x - left)):
            if 0 <= row < height and 0 <= column < width:
                value += row_share * column_share * image[row, column]
    return value
