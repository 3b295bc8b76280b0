"""The tiles of images that are stacked to one number of tiles, taken for all images at once.

`get_image_features` of LLaVA-NeXT and those like it asks for the number of tiles of each image, and takes the first
tiles of each. Here the numbers are a tensor, and the tiles are chosen by a mask. Where arguments are of another form,
the statements of the function run.

Checked on transformers 5.24.
"""

from __future__ import annotations

from typing import Any

import torch

from opbridge.model_support.transformers import tiled_images
from opbridge.model_support.transformers.changed_statements import with_statements
from opbridge.model_support.transformers.vision_grids import checked

__all__ = ["chosen", "counts", "counts_of_chosen", "joined", "of_all_images", "of_chosen_images"]

_COUNT = """\
image_size_to_num_patches(\
image_size=imsize, grid_pinpoints=self.config.image_grid_pinpoints, patch_size=self.config.vision_config.image_size)"""
_OF_ALL = f"[{_COUNT} for imsize in image_sizes]"
_OF_CHOSEN = f"[{_COUNT} if should_patch else 1 for imsize, should_patch in zip(image_sizes, need_patching)]"
_CHOSEN = "[n == 1 for n in batch_num_images for _ in range(n)]"
_TAKEN = "[pix_val[:num_patch] for pix_val, num_patch in zip(pixel_values, image_num_patches)]"
_RESOLUTIONS = "self.config.image_grid_pinpoints, self.config.vision_config.image_size"


def _calling(name: str, arguments: str) -> str:
    return f"__import__({__name__!r}, fromlist=[{name!r}]).{name}({arguments})"


def _changed(variable: str, given: str, tensor: str, call: str) -> tuple[str, str]:
    """A statement that gives a variable a list, and the one that gives it what a call returns, unless that is None."""
    return f"{variable} = {given}", f"{variable} = {given} if ({tensor} := {call}) is None else {tensor}.tolist()"


_TILES = (
    f"_pixel_values_list = {_TAKEN}",
    f"_pixel_values_list = {_TAKEN} if tile_counts is None else [{_calling('joined', 'pixel_values, tile_counts')}]",
)

of_all_images = with_statements(
    dict(
        [
            _changed("image_num_patches", _OF_ALL, "tile_counts", _calling("counts", f"image_sizes, {_RESOLUTIONS}")),
            _TILES,
        ]
    )
)
"""The code of `get_image_features` of models that cut all images; None where it has other statements."""

of_chosen_images = with_statements(
    dict(
        [
            _changed("need_patching", _CHOSEN, "is_cut", _calling("chosen", "batch_num_images")),
            _changed(
                "image_num_patches",
                _OF_CHOSEN,
                "tile_counts",
                _calling("counts_of_chosen", f"image_sizes, {_RESOLUTIONS}, batch_num_images"),
            ),
            _TILES,
        ]
    )
)
"""The code of that of models that cut the images of samples with one; None where it has other statements."""

counts = tiled_images.counts


def chosen(images: Any) -> torch.Tensor | None:
    """Whether an image is cut: that of a sample with one.

    Args:
        images: How many images each sample has, int32 or int64 of shape (samples,).

    Returns:
        bool of shape (images,); None where the argument is not of this form.
    """
    usual = isinstance(images, torch.Tensor) and images.dim() == 1 and images.dtype in (torch.int32, torch.int64)
    return torch.repeat_interleave(images == 1, images) if usual else None


def counts_of_chosen(sizes: Any, resolutions: Any, side: Any, images: Any) -> torch.Tensor | None:
    """How many tiles each image has, 1 where it is not cut; of as many images as there are both sizes and images.

    Args:
        sizes: The height and the width of each image, int32 or int64 of shape (n, 2).
        resolutions: A list of the heights and widths that images are cut to.
        side: The height and width of a tile.
        images: How many images each sample has, int32 or int64 of shape (samples,). None: all images are cut.

    Returns:
        int64 of shape (images,); None where the arguments are not of this form.
    """
    if images is None:
        return counts(sizes, resolutions, side)
    is_cut = chosen(images)
    if is_cut is None or not isinstance(sizes, torch.Tensor) or sizes.dim() != 2:
        return None
    count = torch.sym_min(is_cut.shape[0], sizes.shape[0])
    is_cut, sizes = is_cut[:count], sizes[:count]
    found = counts(torch.where(is_cut[:, None], sizes, 1), resolutions, side)
    return None if found is None else torch.where(is_cut, found, 1)


def joined(tiles: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """The tiles of all images, one after another.

    Args:
        tiles: Those of each image, with others after them, of shape (images, most, channels, height, width).
        counts: How many tiles each image has, of shape (images,). Where one has more than there are, it is an error.

    Returns:
        Of shape (tiles, channels, height, width).
    """
    torch._check(counts.shape[0] <= tiles.shape[0], lambda: "There are more sizes than images")
    tiles = tiles[: counts.shape[0]]
    counts = checked(counts, (counts > tiles.shape[1]).any())
    places = torch.arange(tiles.shape[1], device=tiles.device)
    return tiles[places < counts[:, None]]
