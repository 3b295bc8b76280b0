"""The gradients of kernels that sample images: deformable convolution and attention, grids, interpolation."""

from __future__ import annotations

from typing import Any

import torch

from opbridge.kernels.builtin.bilinear import corners, gathered, scattered, widened

__all__ = ["deform_conv2d", "grid_sample", "ms_deform_attn", "upsample_bicubic"]

aten = torch.ops.aten


def deform_conv2d(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    """Of x, weight, offset, mask and bias. Its memory: that of all samples, five times."""
    given = ctx.saved_tensors
    x, weight, offset, mask, _ = (widened(each) for each in given)
    grad = widened(grad)
    batch, channels, height, width = x.shape
    out_channels, _, kernel_h, kernel_w = weight.shape
    rows, columns = grad.shape[2:]
    groups, parts, taps = ctx.groups, ctx.offset_groups, kernel_h * kernel_w

    moves = offset.reshape(batch * parts, taps, 2, rows, columns)
    y, x_ = (
        _places(size, step, pad, dilation, moves, axis)
        for axis, (size, step, pad, dilation) in enumerate(
            zip((kernel_h, kernel_w), *(_pair(each) for each in (ctx.stride, ctx.padding, ctx.dilation)), strict=True)
        )
    )
    factor = None if mask is None else mask.reshape(batch * parts, -1)

    # The gradient of the matrix that is multiplied with the weights: (batch, channels * taps, pixels).
    spread = grad.reshape(batch, groups, out_channels // groups, -1)
    flat = weight.reshape(groups, out_channels // groups, -1)
    matrix_grad = (flat.transpose(1, 2) @ spread).reshape(batch * parts, channels // parts, -1)

    image = x.reshape(batch * parts, channels // parts, height * width)
    sampled = _Samples(image, y, x_, height, width, factor, matrix_grad)
    matrix = sampled.values.reshape(batch, groups, -1, rows * columns)
    weight_grad = (spread @ matrix.transpose(2, 3)).sum(0)
    grads = (
        sampled.image.reshape(x.shape),
        weight_grad.reshape(weight.shape),
        torch.stack([each.reshape(batch * parts, taps, -1) for each in (sampled.y, sampled.x)], 2).reshape(
            offset.shape
        ),
        None if mask is None else sampled.factor.reshape(mask.shape),
        grad.sum((0, 2, 3)),
    )
    return *(_like(value, each) for value, each in zip(grads, given, strict=True)), None, None, None, None, None


def _places(kernel: int, stride: int, padding: int, dilation: int, moves: torch.Tensor, axis: int) -> torch.Tensor:
    """Where the taps read, along one axis: (batch * offset groups, taps * pixels)."""
    moved = moves[:, :, axis]
    out = moved.shape[2 + axis]
    tap = torch.arange(kernel, device=moves.device, dtype=moves.dtype) * dilation - padding
    place = torch.arange(out, device=moves.device, dtype=moves.dtype) * stride
    taps = moved.shape[1]
    if axis == 0:
        start = tap[:, None].expand(kernel, taps // kernel).reshape(taps, 1, 1) + place[:, None]
    else:
        start = tap.expand(taps // kernel, kernel).reshape(taps, 1, 1) + place
    return (start + moved).flatten(1)


class _Samples:
    """Bilinear samples, each times a factor, and the gradients of all that they are made of.

    Attributes:
        values: The samples times their factors: (batch, channels, points).
        image: The gradient of the image: (batch, channels, pixels).
        y: That of the rows: (batch, points).
        x: That of the columns.
        factor: That of the factors.
    """

    def __init__(
        self,
        image: torch.Tensor,
        y: torch.Tensor,
        x: torch.Tensor,
        height: Any,
        width: Any,
        factor: torch.Tensor | None,
        grad: torch.Tensor,
        start: Any = None,
    ) -> None:
        """Of points (batch, points) of an image (batch, channels, pixels) and a gradient (batch, channels, points).

        `start` is where the points' own images begin among the pixels, where there are several.
        """
        total: Any = 0
        self.image = torch.zeros_like(image)
        self.y, self.x, self.factor = (torch.zeros_like(y) for _ in range(3))
        scaled = grad if factor is None else grad * factor[:, None]
        for corner in corners(y, x, height, width):
            index = corner.index if start is None else corner.index + start
            pixels = gathered(image, index)
            total = total + pixels * corner.weight[:, None]
            self.image = scattered(scaled * corner.weight[:, None], index, self.image)
            each = (grad * pixels).sum(1)
            self.factor = self.factor + each * corner.weight
            if factor is not None:
                each = each * factor
            self.y, self.x = self.y + each * corner.by_y, self.x + each * corner.by_x
        self.values = total if factor is None else total * factor[:, None]


def ms_deform_attn(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    """Of value, sampling_locations and attention_weights."""
    value, shapes, starts, locations, weights = ctx.saved_tensors
    batch, keys, heads, channels = value.shape
    queries, levels, points = locations.shape[1], locations.shape[3], locations.shape[4]

    def by_head(each: torch.Tensor) -> torch.Tensor:
        """(batch * heads, queries * levels * points)"""
        return each.transpose(1, 2).reshape(batch * heads, -1)

    places, factor = widened(locations), widened(weights)
    # Each level's sizes and start, for every point.
    height, width, start = (
        each[None, :, None].expand(queries, levels, points).reshape(-1) for each in (shapes[:, 0], shapes[:, 1], starts)
    )
    x, y = (by_head(places[..., axis]) * size - 0.5 for axis, size in ((0, width), (1, height)))
    image = widened(value).permute(0, 2, 3, 1).reshape(batch * heads, channels, keys)
    spread = widened(grad).reshape(batch, queries, heads, channels).permute(0, 2, 3, 1)
    spread = spread.reshape(batch * heads, channels, queries, 1).expand(-1, -1, -1, levels * points).flatten(2)
    sampled = _Samples(image, y, x, height, width, by_head(factor), spread, start)

    def by_query(each: torch.Tensor) -> torch.Tensor:
        return each.reshape(batch, heads, queries, levels, points).transpose(1, 2)

    value_grad = sampled.image.reshape(batch, heads, channels, keys).permute(0, 3, 1, 2)
    location_grad = torch.stack([by_query(sampled.x * width), by_query(sampled.y * height)], -1)
    grads = (_like(value_grad, value), _like(location_grad, locations), _like(by_query(sampled.factor), weights))
    return grads[0], None, None, grads[1], grads[2]


def grid_sample(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    """Of input and grid: PyTorch's own, as the function is PyTorch's own."""
    given = ctx.saved_tensors
    x, grid = (widened(each) for each in given)
    settings = (ctx.interpolation_mode, ctx.padding_mode, ctx.align_corners)
    backward = aten.grid_sampler_2d_backward if x.dim() == 4 else aten.grid_sampler_3d_backward
    grads = backward(widened(grad).contiguous(), x, grid, *settings, list(ctx.needs_input_grad[:2]))
    needed = ctx.needs_input_grad[:2]
    each = [_like(value, like) if need else None for value, like, need in zip(grads, given, needed, strict=True)]
    return *each, None, None, None


def upsample_bicubic(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    """Of input: PyTorch's own. The scales have none, as they decide on the size of the result."""
    x, scales = ctx.saved_tensors
    by = [None, None] if ctx.align_corners else scales.tolist()
    sizes = (list(grad.shape[2:]), list(x.shape), ctx.align_corners)
    return _like(aten.upsample_bicubic2d_backward(widened(grad), *sizes, *by), x), None, None


def _pair(value: Any) -> tuple[int, int]:
    return (value[0], value[-1]) if isinstance(value, (list, tuple)) else (value, value)


def _like(value: torch.Tensor | None, like: torch.Tensor | None) -> torch.Tensor | None:
    """A gradient, in the type of what it belongs to; None where that is not there."""
    return None if value is None or like is None else value.to(like.dtype)
