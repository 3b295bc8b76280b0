"""The gradients of pooled regions. Where a region lies has none, as in torchvision and mmcv."""

from __future__ import annotations

from typing import Any

import torch

from opbridge.kernels.builtin.bilinear import corners, scattered, widened

__all__ = ["roi_align", "roi_align_rotated"]


def roi_align(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    """Of input. A bin's mean is a product of what its rows and its columns count: two products of matrices."""
    given, rois = ctx.saved_tensors
    batch, channels, height, width = given.shape
    rois, grad = widened(rois), widened(grad)
    regions, _, bins_h, bins_w = grad.shape
    shift = 0.5 if ctx.aligned else 0.0
    left, top, right, low = (rois[:, 1:] * ctx.spatial_scale - shift).unbind(1)
    rows = _shares(top, low - top, bins_h, height, ctx).to(grad.dtype)
    columns = _shares(left, right - left, bins_w, width, ctx).to(grad.dtype)
    wide = grad @ columns[:, None]  # (regions, channels, bins_h, width)
    wide = wide.transpose(1, 2).reshape(regions * bins_h, channels * width)
    # Every image takes the rows of its own regions.
    of_image = rois[:, 0].long() == torch.arange(batch, device=rois.device)[:, None]
    each = (of_image[:, :, None, None] * rows).reshape(batch, regions * bins_h, height)
    total = (each.transpose(1, 2) @ wide).reshape(batch, height, channels, width).transpose(1, 2)
    return total.to(given.dtype), None, None, None, None, None, None


def _shares(start: torch.Tensor, size: torch.Tensor, bins: int, pixels: int, ctx: Any) -> torch.Tensor:
    """What each pixel counts in the mean of each bin, along one side: (regions, bins, pixels)."""
    if not ctx.aligned:
        size = size.clamp(min=1)
    count, within = _samples(size, bins, ctx)
    step = (size / bins)[:, None, None]
    order = torch.arange(bins, device=size.device)[:, None]
    at = start[:, None, None] + (order + within) * step
    counts = (at >= -1) & (at <= pixels) & (within < 1)
    at = at.clamp(0, pixels - 1)[..., None]
    weights = (1 - (at - torch.arange(pixels, device=size.device)).abs()).clamp(min=0)
    return torch.where(counts[..., None], weights, 0).sum(2) / count.clamp(min=1)[:, None, None]


def _samples(size: torch.Tensor, bins: int, ctx: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """How many samples a bin of each region has along one side, and where in the bin they are: from 0 to 1.

    Those of (regions, 1, samples) that are 1 or more are none of the region's.
    """
    if ctx.sampling_ratio > 0:
        count = torch.full_like(size, ctx.sampling_ratio)
        most = ctx.sampling_ratio
    else:
        count = (size / bins).ceil()
        most = max(int(torch.cat([count, count.new_ones(1)]).max()), 1)
    return count, (torch.arange(most, device=size.device) + 0.5) / count.clamp(min=0.25)[:, None, None]


def roi_align_rotated(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    """Of input. Its memory: that of all samples, twice."""
    given, rois = ctx.saved_tensors
    batch, channels, height, width = given.shape
    rois, grad = widened(rois), widened(grad)
    bins_h, bins_w = grad.shape[2:]
    shift = 0.5 if ctx.aligned else 0.0
    middle_x, middle_y = (rois[:, 1:3] * ctx.spatial_scale - shift).unbind(1)
    sizes = rois[:, 3:5] * ctx.spatial_scale
    if not ctx.aligned:
        sizes = sizes.clamp(min=1)
    angle = -rois[:, 5] if ctx.clockwise else rois[:, 5]

    # (regions, bins_h, bins_w, samples down, samples across)
    across, down = _Lattice(sizes[:, 0], bins_w, ctx), _Lattice(sizes[:, 1], bins_h, ctx)
    u, v = across.place[:, None, :, None, :], down.place[:, :, None, :, None]
    counts = across.counts[:, None, :, None, :] & down.counts[:, :, None, :, None]
    x_, y_, cosine, sine = (each[:, None, None, None, None] for each in (middle_x, middle_y, angle.cos(), angle.sin()))
    y, x = v * cosine - u * sine + y_, v * sine + u * cosine + x_
    counts = counts & (y >= -1) & (y <= height) & (x >= -1) & (x <= width)
    y, x = y.clamp(0, height - 1), x.clamp(0, width - 1)

    # All images are one, whose pixels are theirs one after the other.
    start = rois[:, 0].long()[:, None, None, None, None] * (height * width)
    share = torch.where(counts, 1 / (down.count * across.count).clamp(min=1)[:, None, None, None, None], 0)
    shape = counts.shape
    spread = grad.transpose(0, 1)[..., None, None].expand(channels, *shape).reshape(1, channels, -1)
    total = grad.new_zeros(1, channels, batch * height * width)
    for corner in corners(y, x, height, width):
        weight = (corner.weight * share).reshape(1, 1, -1)
        total = scattered(spread * weight, (corner.index + start).reshape(1, -1), total)
    total = total.reshape(channels, batch, height, width).transpose(0, 1)
    return total.to(given.dtype), None, None, None, None, None, None, None


class _Lattice:
    """The samples of a rotated region along one side.

    Attributes:
        count: Of each region, how many a bin has.
        place: Where they are, from the region's middle: (regions, bins, samples).
        counts: Which there are: (regions, bins, samples).
    """

    def __init__(self, size: torch.Tensor, bins: int, ctx: Any) -> None:
        self.count, within = _samples(size, bins, ctx)
        order = torch.arange(bins, device=size.device)[:, None]
        self.place = ((order + within) / bins - 0.5) * size[:, None, None]
        self.counts = (within < 1).expand_as(self.place)
