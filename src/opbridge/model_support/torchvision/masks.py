"""Masks of objects, which a Mask R-CNN resizes to the boxes of the objects and pastes into images.

torchvision goes over the masks in Python and resizes each to the size of its box, which data decide. Bilinear
interpolation is a product with a matrix for the rows and one for the columns, here with as many rows as the image has
pixels, which are zero outside of the box: those of all masks are computed at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

__all__ = ["EXPANDING", "are_of_floats", "masks_of_boxes", "pasted"]

EXPANDING = ("expand_masks", "expand_boxes")


def are_of_floats(named: Mapping[str, Any]) -> bool:
    """Whether masks are floating-point numbers."""
    return bool(named["masks"].is_floating_point())


def pasted(named: Mapping[str, Any]) -> torch.Tensor:
    """What `paste_masks_in_image` gives, of its arguments by name.

    Returns:
        [masks, 1, height, width], of the dtype of the masks: each mask in an image that is 0 outside of its box.
    """
    expand_masks, expand_boxes = (named[each] for each in EXPANDING)
    masks, scale = expand_masks(named["masks"], padding=named["padding"])
    boxes = expand_boxes(named["boxes"], scale).to(torch.int64)
    height, width = named["img_shape"]
    dtype = torch.promote_types(masks.dtype, torch.float32)  # the weights of torch's interpolation have this dtype
    rows = _weights(boxes[:, 1], boxes[:, 3], masks.shape[2], height, dtype)
    columns = _weights(boxes[:, 0], boxes[:, 2], masks.shape[3], width, dtype)
    images = rows @ masks[:, 0].to(dtype) @ columns.transpose(1, 2)
    return images.to(masks.dtype)[:, None]


def _weights(first: torch.Tensor, last: torch.Tensor, cells: int, pixels: int, dtype: torch.dtype) -> torch.Tensor:
    """The weights that bilinear interpolation without aligned corners gives the cells of masks for pixels of an image.

    Args:
        first: int64 [masks]: the first pixel of each box.
        last: int64 [masks]: the last one.
        cells: The number of cells of a mask.
        pixels: The number of pixels of the image.
        dtype: The dtype of the weights.

    Returns:
        [masks, pixels, cells].
    """
    places = torch.arange(pixels, device=first.device) - first[:, None]
    sizes = (last - first + 1).clamp(min=1)[:, None]
    source = ((places.to(dtype) + 0.5) * (cells / sizes.to(dtype)) - 0.5).clamp(min=0)
    lower = source.floor().clamp(max=cells - 1)
    share = (source - lower).clamp(max=1)
    upper = (lower + 1).clamp(max=cells - 1)
    inside = (places >= 0) & (places < sizes)
    numbers = torch.arange(cells, device=first.device, dtype=dtype)
    of_lower = torch.where((numbers == lower[..., None]) & inside[..., None], 1 - share[..., None], 0)
    of_upper = torch.where((numbers == upper[..., None]) & inside[..., None], share[..., None], 0)
    return of_lower + of_upper


def masks_of_boxes(owner: Any) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Arguments of `paste_masks_in_image`: boxes within the image, at its edges, of one pixel, and none."""
    boxes = [[3.0, 4.0, 20.5, 11.25], [0.0, 0.0, 40.0, 32.0], [30.0, 20.0, 40.0, 32.0], [7.0, 7.0, 7.0, 7.5]]
    for count in (4, 1, 0):
        masks = (torch.arange(count * 49.0).reshape(count, 1, 7, 7) * 31 % 50) / 50
        yield (masks, torch.tensor(boxes)[:count], (32, 40)), {}
