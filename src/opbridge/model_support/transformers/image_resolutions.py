"""The resolutions that transformers cuts images of any size to, chosen for all images at once.

The functions of transformers go over the resolutions in a Python loop for each image, and compare numbers that follow
from its size. The same follow from tensors: float64 and int64 hold what Python's numbers hold here. Sizes that have no
result in transformers, or for which these would not be exact, raise an error: an index out of range.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

__all__ = ["LARGEST_SIDE", "best", "is_size", "unpadded"]

LARGEST_SIDE = 10**6
"""Sides of resolutions up to this are computed exactly."""

_LARGEST_SIZE = 2**31 - 1


def best(sizes: torch.Tensor, resolutions: Sequence[Sequence[int]]) -> torch.Tensor:
    """The index of the resolution that `select_best_resolution` chooses for each image.

    It is the first of those that waste least among those that keep most of the image. Where `is_size` does not hold, it
    is any of them.

    Args:
        sizes: Heights and widths of images, of shape (n, 2).
        resolutions: Heights and widths to choose from.

    Returns:
        int64 of shape (n,).
    """
    table = torch.tensor([list(each) for each in resolutions], device=sizes.device)
    sizes = torch.where(is_size(sizes)[:, None], sizes.long(), 1)
    scale = (table.double() / sizes[:, None].double()).amin(2)
    scaled = (sizes[:, None].double() * scale[..., None]).long()
    kept = torch.minimum(scaled[..., 0] * scaled[..., 1], (sizes[:, 0] * sizes[:, 1])[:, None])
    area = table[:, 0] * table[:, 1]
    wasted = torch.where(kept == kept.amax(1, keepdim=True), area - kept, _LARGEST_SIZE**2)
    return wasted.argmin(1)


def is_size(sizes: torch.Tensor) -> torch.Tensor:
    """Whether a row is the height and the width of an image, bool of shape (n,)."""
    return ((sizes >= 1) & (sizes <= _LARGEST_SIZE)).all(1)


def unpadded(sizes: torch.Tensor, padded: torch.Tensor) -> torch.Tensor:
    """How many rows and columns `unpad_image` leaves out at each of two sides of an image.

    Args:
        sizes: Heights and widths of images before they were scaled and padded, of shape (n, 2).
        padded: Heights and widths after it.

    Returns:
        int64 of shape (n, 2).
    """
    height, width = sizes.double().unbind(1)
    rows, columns = padded.double().unbind(1)
    is_wide = width / height > columns / rows
    scaled_rows = _whole(height * (columns / width))
    scaled_columns = _whole(width * (rows / height))
    none = torch.zeros_like(scaled_rows)
    top = torch.where(is_wide, (padded[:, 0] - scaled_rows) // 2, none)
    left = torch.where(is_wide, none, (padded[:, 1] - scaled_columns) // 2)
    return torch.stack([top, left], 1)


def _whole(values: torch.Tensor) -> torch.Tensor:
    """`int(round(value, 7))`, of positive values.

    No value is half of a step of 1e-7 away from an integer, which no binary fraction is; the difference is exact.
    """
    above = torch.ceil(values)
    return torch.where(above - values < 5e-8, above, torch.floor(values)).long()
