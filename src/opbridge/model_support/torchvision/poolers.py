"""Pooling of regions from feature maps of several levels, for images whose sizes are not known.

torchvision infers the scale of each level from the sizes of the first images, as a power of 2 that is a Python number.
Here it is a tensor that boxes are multiplied by, before regions are pooled at the scale 1. A power of 2 changes no
digit of a coordinate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from opbridge.base.torch_private import torch_sizes

__all__ = ["CALLS", "USED", "images_of_levels", "infers_from_unknown_sizes", "pooled"]

USED = ("_filter_input", "_convert_to_roi_format", "initLevelMapper", "roi_align")
CALLS = {
    "_infer_scale": "0d914a5f9b4d7db7",
    "_setup_scales": "20a7b691a52746c2",
    "_multiscale_roi_align": "388db5eedb1bcfa1",
}
"""The functions that `forward` calls for it, as in torchvision 0.28 and 0.29."""


def infers_from_unknown_sizes(named: Mapping[str, Any]) -> bool:
    """Whether scales are to be inferred, from sizes that are not known."""
    pooler, shapes = named["self"], named["image_shapes"]
    if (pooler.scales is not None and pooler.map_levels is not None) or not shapes:
        return False
    features = named[USED[0]](named["x"], pooler.featmap_names)
    sizes = [size for shape in (*shapes, *(each.shape[-2:] for each in features)) for size in shape]
    return any(isinstance(torch_sizes.known_size(each), torch.SymInt) for each in sizes)


def pooled(named: Mapping[str, Any]) -> torch.Tensor:
    """What `MultiScaleRoIAlign.forward` gives, of its arguments by name.

    Returns:
        [boxes, channels, height, width], of the dtype of the first feature map.
    """
    filtered, in_roi_format, level_mapper, roi_align = (named[each] for each in USED)
    pooler, boxes = named["self"], named["boxes"]
    features = filtered(named["x"], pooler.featmap_names)
    exponents = _exponents(features, named["image_shapes"])
    rois = in_roi_format(boxes)

    def of_level(level: int, chosen: torch.Tensor) -> torch.Tensor:
        scaled = torch.cat([chosen[:, :1], chosen[:, 1:] * exponents[level].exp2().to(chosen)], 1)
        settings = {"spatial_scale": 1.0, "sampling_ratio": pooler.sampling_ratio}
        found: torch.Tensor = roi_align(features[level], scaled, output_size=pooler.output_size, **settings)
        return found

    if len(features) == 1:
        return of_level(0, rois)
    first, last = (-exponents[at].to(torch.int64) for at in (0, -1))
    levels = level_mapper(first, last, pooler.canonical_scale, pooler.canonical_level)(boxes)
    result = features[0].new_zeros((rois.shape[0], features[0].shape[1], *pooler.output_size))
    for level in range(len(features)):
        chosen = torch.where(levels == level)[0]
        result[chosen] = of_level(level, rois[chosen]).to(result.dtype)
    return result


def _exponents(features: list[torch.Tensor], shapes: Any) -> list[torch.Tensor]:
    """The scales of levels as exponents of 2, float32 []."""
    height = torch.stack([torch.scalar_tensor(each[0], dtype=torch.float32) for each in shapes]).max()
    heights = [torch.scalar_tensor(each.shape[-2], dtype=torch.float32) for each in features]
    return [(each / height).log2().round().to(features[0].device) for each in heights]


def images_of_levels(owner: Any) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Arguments of `MultiScaleRoIAlign.forward`: images of several sizes and of one, of which some have no boxes."""
    for sizes, levels in ((((64, 50), (40, 64)), (16, 8, 4)), (((20, 20),), (8, 4)), (((64, 64),), (16,))):
        names = [str(each) for each in levels]
        maps = {
            name: (torch.arange(len(sizes) * 3.0 * size * size) * 389 % 101).reshape(len(sizes), 3, size, size)
            for name, size in zip(names, levels, strict=True)
        }
        corners = torch.arange(14.0).reshape(7, 2) * 37 % 40
        boxes = [torch.cat([corners, corners + 2 + 3 * torch.arange(7.0)[:, None]], 1), corners.new_zeros(0, 4)]
        pooler = owner(names, 2, 2, canonical_scale=16, canonical_level=3)
        yield (pooler, maps, boxes[: len(sizes)], list(sizes)), {}
