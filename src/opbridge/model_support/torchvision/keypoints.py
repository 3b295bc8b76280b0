"""Keypoints of objects, which a Keypoint R-CNN looks for in heatmaps that it resizes to the boxes of the objects.

torchvision goes over the boxes in Python and resizes the heatmaps of each to its size, which data decide. Bicubic
interpolation is a product with a matrix for the rows and one for the columns, here with as many rows as the largest box
has pixels, of which those beyond a box repeat its last one. The keypoints are processed one after the other, since the
resized heatmaps of all keypoints would need as many times the memory. The scores are computed again from the heatmaps:
if they were read from the resized ones, a runtime might hold these until all keypoints are found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

__all__ = ["are_of_floats", "boxes_with_heatmaps", "found", "note"]

_CUBIC = -0.75
"""The coefficient of torch's bicubic interpolation."""
_NOTE = (
    "torchvision's heatmaps_to_keypoints is exported as products of matrices, which resize the heatmaps of all boxes "
    "at once; where two pixels have the largest value within rounding, the keypoint may be at the other one"
)


def are_of_floats(named: Mapping[str, Any]) -> bool:
    """Whether heatmaps and boxes are floating-point numbers."""
    return bool(named["maps"].is_floating_point() and named["rois"].is_floating_point())


def note(named: Mapping[str, Any]) -> str:
    """What is to be said of each call."""
    return _NOTE


def found(named: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """What `heatmaps_to_keypoints` gives, of its arguments by name.

    Returns:
        float32 [boxes, keypoints, 3]: of each keypoint x, y and 1; and float32 [boxes, keypoints]: their scores.
    """
    maps, boxes = named["maps"], named["rois"]
    corners, sides = boxes[:, :2], (boxes[:, 2:] - boxes[:, :2]).clamp(min=1)
    pixels = sides.ceil()
    sizes = pixels.to(torch.int64)
    columns = _weights(sizes[:, 0], maps.shape[3], maps.dtype)
    rows = _weights(sizes[:, 1], maps.shape[2], maps.dtype)
    places = torch.stack([_largest(rows, each, columns) for each in maps.unbind(1)], 1)
    width = columns.shape[1]
    x = (places % width).minimum(sizes[:, :1] - 1)
    y = (places // width).minimum(sizes[:, 1:] - 1)
    factors = (sides / pixels).to(torch.float32)[:, None]
    points = (torch.stack([x, y], 2).to(torch.float32) + 0.5) * factors + corners.to(torch.float32)[:, None]
    of_points = _rows_of(rows, y)[:, :, None] @ maps.to(rows.dtype) @ _rows_of(columns, x)[..., None]
    scores = of_points[..., 0, 0].to(maps.dtype).to(torch.float32)
    return torch.cat([points, torch.ones_like(points[..., :1])], 2), scores


def _largest(rows: torch.Tensor, maps: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """The places of the first largest pixels of resized heatmaps, int64 [boxes]."""
    values = rows @ maps.to(rows.dtype) @ columns.transpose(1, 2)
    return values.to(maps.dtype).flatten(1).argmax(1)


def _rows_of(matrices: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """The rows of matrices, [boxes, rows, columns], at places, [boxes, places]: [boxes, places, columns]."""
    return matrices.gather(1, places[..., None].expand(-1, -1, matrices.shape[2]))


def _weights(sizes: torch.Tensor, cells: int, dtype: torch.dtype) -> torch.Tensor:
    """The weights that bicubic interpolation without aligned corners gives the cells of heatmaps for pixels of boxes.

    Args:
        sizes: int64 [boxes]: the number of pixels of each box, at least 1.
        cells: The number of cells of a heatmap.
        dtype: The dtype of heatmaps.

    Returns:
        [boxes, pixels of the largest box, cells]: pixels beyond a box have the weights of its last one. The dtype is
        that of torch's own weights for these heatmaps.
    """
    dtype = torch.promote_types(dtype, torch.float32)
    largest = torch.cat([sizes, sizes.new_ones(1)]).max().item()  # also without boxes
    torch._check(largest >= 1)
    pixels = torch.arange(largest, device=sizes.device).minimum(sizes[:, None] - 1)
    source = (pixels.to(dtype) + 0.5) * (cells / sizes.to(dtype))[:, None] - 0.5
    lower = source.floor()
    share = source - lower
    numbers = torch.arange(cells, device=sizes.device, dtype=dtype)
    parts = [
        torch.where(numbers == (lower + step).clamp(0, cells - 1)[..., None], _cubic(step - share)[..., None], 0)
        for step in (-1, 0, 1, 2)
    ]
    return (parts[0] + parts[1]) + (parts[2] + parts[3])


def _cubic(distance: torch.Tensor) -> torch.Tensor:
    """The kernel of cubic convolution, of distances up to 2."""
    near = distance.abs()
    inner = ((_CUBIC + 2) * near - (_CUBIC + 3)) * near * near + 1
    outer = ((_CUBIC * near - 5 * _CUBIC) * near + 8 * _CUBIC) * near - 4 * _CUBIC
    return torch.where(near <= 1, inner, outer)


def boxes_with_heatmaps(owner: Any) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Arguments of `heatmaps_to_keypoints`: boxes of several sizes, of less than a pixel, one, and none."""
    boxes = [[3.0, 4.0, 90.5, 11.25], [0.0, 0.0, 40.0, 320.0], [7.0, 7.0, 7.0, 7.5], [1.5, 2.5, 33.5, 18.5]]
    for count in (4, 1, 0):
        maps = (torch.arange(count * 2 * 49.0).reshape(count, 2, 7, 7) * 389 % 101) / 50
        yield (maps, torch.tensor(boxes)[:count]), {}
