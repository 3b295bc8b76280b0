"""Tensors for parameters of transformers' models that stand for images: of pixels, and of patches."""

from __future__ import annotations

import torch

from opbridge.coverage.models.families.transformers.facts import Facts

__all__ = [
    "GRID",
    "channels",
    "fixed_image",
    "flat_patches",
    "grid",
    "grid_shapes",
    "hidden_patches",
    "image",
    "image_mask",
    "merge_sizes",
    "merged_patches",
    "patch_images",
    "patch_mask",
    "patch_places",
    "patch_rows",
    "patches",
    "picture_mask",
    "pictures",
    "query_mask",
    "region_boxes",
    "region_features",
    "strip",
    "tile_mask",
    "tile_shape",
    "tiles",
    "video",
]

GRID = (6, 12)
"""Rows and columns of patches of an image that is given as its patches."""
_REGIONS = 5


def image(facts: Facts, batch: int, height: int, width: int) -> torch.Tensor:
    return torch.randn(batch, channels(facts), height, width)


def video(facts: Facts, batch: int) -> torch.Tensor:
    height, width = fixed_image(facts) or (64, 64)
    frames = facts.value("num_frames", "frames_per_clip", default=4)
    return torch.randn(batch, frames, channels(facts), height, width)


def pictures(facts: Facts, batch: int) -> torch.Tensor:
    """One image for each text, or two to compare, along a dimension of their own."""
    count = 2 if "Keypoint" in type(facts.model).__name__ or "LoFTR" in type(facts.model).__name__ else 1
    return torch.randn(batch, count, channels(facts), *(fixed_image(facts) or (64, 64)))


def patches(facts: Facts, batch: int) -> torch.Tensor:
    """The patches of all images one after the other, each flattened."""
    patch = facts.value("patch_size", default=14, part="vision")
    frames = facts.value("temporal_patch_size", "patch_temporal", default=1, part="vision")
    return torch.randn(batch * GRID[0] * GRID[1], channels(facts) * frames * patch * patch)


def patch_rows(facts: Facts, batch: int) -> torch.Tensor:
    """The patches of each image as a sequence, each flattened."""
    patch = facts.value("patch_size", default=16, part="vision")
    return torch.randn(batch, GRID[0] * GRID[1], channels(facts) * patch * patch)


def patch_images(facts: Facts, batch: int) -> torch.Tensor:
    """The patches of all images one after the other, each an image."""
    patch = facts.value("patch_size", default=14, part="vision")
    return torch.randn(batch * GRID[0] * GRID[1], channels(facts), patch, patch)


def merged_patches(facts: Facts, batch: int) -> torch.Tensor:
    """Squares of patches that are merged, of all images one after the other, with the channels last."""
    side = facts.value("patch_size", part="vision") * facts.value("spatial_merge_size", part="vision")
    return torch.randn(batch * GRID[0] * GRID[1], side, side, channels(facts))


def strip(facts: Facts, batch: int) -> torch.Tensor:
    """The patches of all images side by side, as one image of a patch's height."""
    patch = facts.value("patch_size", default=14, part="vision")
    return torch.randn(1, channels(facts), patch, batch * GRID[0] * GRID[1] * patch)


def patch_mask(facts: Facts, batch: int) -> torch.Tensor:
    return torch.ones(batch, GRID[0] * GRID[1], dtype=torch.int64)


def patch_places(facts: Facts, batch: int) -> torch.Tensor:
    """The column and the row of each patch."""
    rows, columns = torch.meshgrid(torch.arange(GRID[0]), torch.arange(GRID[1]), indexing="ij")
    return torch.stack([columns.flatten(), rows.flatten()], 1).expand(batch, -1, -1).contiguous()


def grid(facts: Facts, batch: int) -> torch.Tensor:
    """Frames, rows and columns of patches of each image."""
    return torch.tensor([[1, *GRID]] * batch)


def grid_shapes(facts: Facts, batch: int) -> torch.Tensor:
    return torch.tensor([GRID] * batch)


def merge_sizes(facts: Facts, batch: int) -> torch.Tensor:
    return torch.full((batch,), 2)


def image_mask(facts: Facts, batch: int, height: int, width: int) -> torch.Tensor:
    return torch.ones(batch, height, width, dtype=torch.int64)


def tiles(facts: Facts, batch: int) -> torch.Tensor:
    """One image for each text, as tiles."""
    side = fixed_image(facts) or (64, 64)
    return torch.randn(batch, 1, facts.value("max_num_tiles", part="vision"), channels(facts), *side)


def tile_shape(facts: Facts, batch: int) -> torch.Tensor:
    return torch.ones(batch, 1, dtype=torch.int64)


def tile_mask(facts: Facts, batch: int) -> torch.Tensor:
    return torch.ones(batch, 1, facts.value("max_num_tiles", part="vision"), dtype=torch.int64)


def picture_mask(facts: Facts, batch: int, sequence: int) -> torch.Tensor:
    """Which words see the one picture of their text: all."""
    return torch.ones(batch, sequence, 1, dtype=torch.int64)


def query_mask(facts: Facts, batch: int, sequence: int) -> torch.Tensor:
    """Which words stand for features of the picture: the first ones."""
    return (torch.arange(sequence) < facts.value("latent_query_num")).expand(batch, sequence).contiguous()


def hidden_patches(facts: Facts, batch: int) -> torch.Tensor:
    """Which patches the model is to guess: every second."""
    height, width = fixed_image(facts) or GRID
    patch = facts.value("patch_size", default=1, part="vision")
    clips = facts.value("num_frames", default=1) // facts.value("tubelet_size", default=1)
    count = clips * (height // patch) * (width // patch)
    return (torch.arange(count) % 2 == 0).expand(batch, count).contiguous()


def region_features(facts: Facts, batch: int) -> torch.Tensor:
    return torch.randn(batch, _REGIONS, facts.value("visual_feat_dim"))


def region_boxes(facts: Facts, batch: int) -> torch.Tensor:
    return torch.rand(batch, _REGIONS, facts.value("visual_pos_dim"))


def flat_patches(facts: Facts, batch: int, sequence: int) -> torch.Tensor:
    """Rows, columns and pixels of patches."""
    place = torch.randint(1, 8, (batch, sequence, 2)).float()
    patch = facts.value("patch_size", default=16)
    width = facts.value("patch_embed_hidden_size", default=channels(facts) * patch * patch)
    return torch.cat([place, torch.randn(batch, sequence, int(width))], 2)


def channels(facts: Facts) -> int:
    found = facts.value("num_channels", "in_channels", "in_chans", default=3, part="vision")
    return found if isinstance(found, int) and found <= 4 else 3


def fixed_image(facts: Facts) -> tuple[int, int] | None:
    """The height and width that a configuration says, if it says them."""
    arguments = facts.value("model_args")
    if isinstance(arguments, dict) and "img_size" in arguments:
        return arguments["img_size"], arguments["img_size"]
    ratios = facts.value("scaled_images_ratios")
    if ratios:  # the smallest of the scaled images is one patch
        side = int(facts.config.patch_size / min(ratios))
        return side, side
    found = facts.value("image_size", "img_size", "max_img_size", "input_size", part="vision")
    if isinstance(found, dict):
        found = (found["height"], found["width"])
    if isinstance(found, int):
        return (found, found) if found >= 16 else None
    if isinstance(found, list | tuple) and len(found) >= 2:
        parts = 2 if "prompt_pixel_values" in facts.parameters else 1  # with the prompt's image above it
        return int(found[-2]) // parts, int(found[-1])
    return None
