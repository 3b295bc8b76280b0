"""Bilinear samples and their derivatives, in PyTorch's operators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["Corner", "corners", "gathered", "scattered", "widened"]


@dataclass(frozen=True)
class Corner:
    """One of the four pixels around each point; all tensors have the points' shape.

    Attributes:
        index: The pixel, row by row; 0 where there is none.
        weight: What it counts in the sample; 0 where there is none.
        by_y: How its weight changes with the point's row.
        by_x: How its weight changes with the point's column.
    """

    index: torch.Tensor
    weight: torch.Tensor
    by_y: torch.Tensor
    by_x: torch.Tensor


def corners(y: torch.Tensor, x: torch.Tensor, height: Any, width: Any) -> Iterator[Corner]:
    """The pixels around points of an image that is zero outside.

    Args:
        y: The points' rows, in pixels.
        x: Their columns, of the same shape.
        height: The image's, a number or a tensor that broadcasts against y.
        width: The same for x.
    """
    # What is no number is nowhere; comparisons with it are false.
    inside = (y > -1) & (y < height) & (x > -1) & (x < width)
    y, x = torch.where(inside, y, 0), torch.where(inside, x, 0)
    top, left = y.detach().floor(), x.detach().floor()
    below, right = y - top, x - left
    for row, row_weight, row_sign in ((top, 1 - below, -1), (top + 1, below, 1)):
        for column, column_weight, column_sign in ((left, 1 - right, -1), (left + 1, right, 1)):
            there = inside & (row >= 0) & (row < height) & (column >= 0) & (column < width)
            index = torch.where(there, row * width + column, 0).long()
            weights = (row_weight * column_weight, row_sign * column_weight, row_weight * column_sign)
            yield Corner(index, *(torch.where(there, each, 0) for each in weights))


def gathered(pixels: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """The pixels (batch, channels, pixels) at an index (batch, points): (batch, channels, points)."""
    return pixels.gather(2, index[:, None].expand(-1, pixels.shape[1], -1))


def scattered(values: torch.Tensor, index: torch.Tensor, into: torch.Tensor) -> torch.Tensor:
    """`into` (batch, channels, pixels), with values (batch, channels, points) added at an index (batch, points)."""
    return into.scatter_add(2, index[:, None].expand_as(values), values)


def widened(value: torch.Tensor | None) -> Any:
    """In the type that sums are taken in."""
    return value.float() if value is not None and value.dtype in (torch.float16, torch.bfloat16) else value
