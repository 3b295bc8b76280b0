"""What the functions for images that are cut to tiles compute, of their arguments by name.

Each gives None where its arguments are not of the usual form, or where Python's own numbers decide.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import torch

from opbridge.model_support.transformers import image_packing, image_resolutions
from opbridge.model_support.transformers.vision_grids import checked

__all__ = ["count", "counts", "is_symbolic", "packed", "packed_and_projected", "packed_and_scaled", "resolution"]

_NAME = "anyres_max_"


def resolution(named: Mapping[str, Any]) -> tuple[Any, Any] | None:
    """`select_best_resolution`."""
    size, resolutions = named["original_size"], named["possible_resolutions"]
    if len(size) != 2 or not _are_resolutions(resolutions):
        return None
    sizes = torch.stack([torch.scalar_tensor(each, dtype=torch.int64) for each in size])[None]
    height, width = zip(*resolutions, strict=True)
    chosen = _chosen(sizes, resolutions)
    return _of_table(height, chosen), _of_table(width, chosen)


def is_symbolic(named: Mapping[str, Any]) -> bool:
    """Whether `select_best_resolution` is asked for an image of dynamic size; Python computes it for any other one."""
    size = named["original_size"]
    return (
        type(size) in (list, tuple)
        and any(isinstance(each, torch.SymInt) for each in size)
        and all(isinstance(each, (int, torch.SymInt)) for each in size)
    )


def count(named: Mapping[str, Any]) -> Any:
    """`image_size_to_num_patches`."""
    size, resolutions, side = named["image_size"], named["grid_pinpoints"], named["patch_size"]
    table = _tiles_of(resolutions, side)
    if not _are_sizes(size, 1) or table is None:
        return None
    return _of_table(table, _chosen(size[None], resolutions))


def counts(sizes: Any, resolutions: Any, side: Any) -> torch.Tensor | None:
    """`image_size_to_num_patches` of each of several images.

    Args:
        sizes: The height and the width of each image, int32 or int64 of shape (n, 2).
        resolutions: A list of the heights and widths that images are cut to.
        side: The height and width of a tile.

    Returns:
        int64 of shape (n,); None where the arguments are not of this form.
    """
    table = _tiles_of(resolutions, side)
    if not _are_sizes(sizes, 2) or table is None:
        return None
    chosen = checked(image_resolutions.best(sizes, resolutions), ~image_resolutions.is_size(sizes).all())
    return torch.tensor(table, device=sizes.device)[chosen]


def packed(named: Mapping[str, Any]) -> Any:
    """`pack_image_features` of LLaVA-NeXT."""
    return _packed(named)


def packed_and_scaled(named: Mapping[str, Any]) -> Any:
    """`pack_image_features` of LLaVA-OneVision."""
    ratio = named["vision_aspect_ratio"]
    most = ratio.strip(_NAME) if isinstance(ratio, str) else ""  # these characters, as it does
    return _packed(named, most=int(most)) if most.isdecimal() and int(most) else None


def packed_and_projected(named: Mapping[str, Any]) -> Any:
    """`pack_image_features` of Granite 4 Vision."""
    model = named["self"]
    scale = Fraction(1) if model.layerwise_projectors is None else Fraction(model.downsample_rate)
    found = _packed(named, scale=scale)
    return None if found is None else found[0]


def _packed(named: Mapping[str, Any], scale: Fraction = Fraction(1), most: int | None = None) -> Any:
    vision, resolutions = named["self"].config.vision_config, named["self"].config.image_grid_pinpoints
    sizes, newline = named["image_sizes"], named["image_newline"]
    side, patch = vision.image_size, vision.patch_size
    if not _are_sizes(sizes, 2) or type(side) is not int or type(patch) is not int:
        return None
    if not isinstance(resolutions, list) or not _are_resolutions(resolutions):
        return None
    if not (newline is None or (isinstance(newline, torch.Tensor) and newline.dim() == 1)):
        return None
    found = _joined(named["image_features"])
    if found is None:
        return None
    features, tiles = found
    across = int(side // patch * scale)
    if features.dim() != 3 or across < 1 or features.shape[1] != across**2 or not features.is_floating_point():
        return None
    if newline is not None and newline.shape[0] != features.shape[2]:
        return None
    torch._check(tiles.shape[0] <= sizes.shape[0], lambda: "There are more images than sizes")
    joined, counts = image_packing.packed(
        features, tiles, sizes[: tiles.shape[0]], resolutions, side, newline, most=most
    )
    parts = torch.split(joined, counts.tolist())
    return list(parts) if type(parts) is tuple else parts, counts


def _joined(features: Any) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Features of images as one tensor, and how many tiles each image has; None where they are in another form."""
    if type(features) in (list, tuple):
        if not features or not all(isinstance(each, torch.Tensor) and each.dim() == 3 for each in features):
            return None
        tiles = torch.stack([torch.scalar_tensor(each.shape[0], dtype=torch.int64) for each in features])
    else:  # the parts of a tensor, of which there are as many as data or sizes say
        lengths = getattr(features, "lengths", None)
        if lengths is None:
            return None
        tiles = lengths.tensor()
    return torch.cat(features), tiles


def _chosen(sizes: torch.Tensor, resolutions: Any) -> torch.Tensor:
    """The index of the resolution of one image; an error where it has none."""
    return checked(image_resolutions.best(sizes, resolutions)[0], ~image_resolutions.is_size(sizes)[0])


def _tiles_of(resolutions: Any, side: Any) -> tuple[int, ...] | None:
    """How many tiles an image of each resolution has, with the whole image; None where these are of another form."""
    if type(side) is not int or side < 1 or not isinstance(resolutions, list) or not _are_resolutions(resolutions):
        return None
    return tuple(1 + math.ceil(height / side) * math.ceil(width / side) for height, width in resolutions)


def _of_table(values: tuple[int, ...], index: torch.Tensor) -> Any:
    """A number of a table."""
    found = torch.tensor(values, device=index.device)[index].item()
    torch._check(found >= min(values))
    torch._check(found <= max(values))
    return found


def _are_sizes(value: Any, rank: int) -> bool:
    usual = isinstance(value, torch.Tensor) and value.dim() == rank and value.dtype in (torch.int32, torch.int64)
    return usual and isinstance(value.shape[-1], int) and value.shape[-1] == 2


def _are_resolutions(value: Any) -> bool:
    """Whether a value is a list of heights and widths."""
    return (
        isinstance(value, (list, tuple))
        and bool(value)
        and all(isinstance(each, (list, tuple)) and len(each) == 2 for each in value)
        and all(type(side) is int and 1 <= side <= image_resolutions.LARGEST_SIDE for each in value for side in each)
    )
