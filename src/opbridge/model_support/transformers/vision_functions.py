"""What the functions for indices of patches compute, of their arguments by name.

Each gives None where its arguments are not of the usual form.
"""

from __future__ import annotations

from typing import Any

import torch

from opbridge.model_support.entries import Arguments
from opbridge.model_support.transformers import vision_grids

__all__ = ["block_indices", "frame_pairs", "nearest_positions", "positions", "windows"]


def positions(named: Arguments) -> torch.Tensor | None:
    """`get_vision_position_ids`."""
    grids, side = named["grid_thw"], named["spatial_merge_size"]
    is_number = type(side) is int
    if not _is_grid(grids, 3) or not (is_number or (isinstance(side, torch.Tensor) and side.dim() == 1)):
        return None
    if not is_number:
        torch._check(side.shape[0] == grids.shape[0], lambda: "spatial_merge_size is not as long as grid_thw")
    return vision_grids.positions_in_blocks(grids, side, with_frames=named["include_temporal"])


def windows(named: Arguments) -> tuple[torch.Tensor, torch.Tensor] | None:
    """`get_vision_window_index`."""
    grids, merged = named["grid_thw"], named["spatial_merge_size"]
    numbers = (merged, named["window_size"], named["patch_size"])
    if not _is_grid(grids, 3) or not all(type(each) is int and each > 0 for each in numbers):
        return None
    side = named["window_size"] // merged // named["patch_size"]
    return vision_grids.windows(grids, merged, side) if side else None


def nearest_positions(named: Arguments) -> torch.Tensor | None:
    """`get_vision_nearest_position_ids`."""
    sizes, side = named["target_sizes"], named["num_patches_per_side"]
    return vision_grids.nearest_positions(sizes, side) if _is_grid(sizes, 2) and type(side) is int else None


def block_indices(named: Arguments) -> torch.Tensor | None:
    """`get_vision_pixel_shuffle_index`."""
    grids, side = named["grid_thw"], named["merge_size"]
    return vision_grids.block_indices(grids, side) if _is_grid(grids, 3) and type(side) is int else None


def frame_pairs(named: Arguments) -> torch.Tensor | None:
    """`_temporal_slicing`: the features of the first frame of each pair beside those of the second."""
    features, grids, merged = named["hidden_states"], named["grid_thw"], named["self"].spatial_merge_size
    if not _is_grid(grids, 3) or type(merged) is not int:
        return None
    return torch.cat([features.index_select(0, each) for each in vision_grids.frame_pairs(grids, merged)], -1)


def _is_grid(value: Any, sides: int) -> bool:
    """Whether a value is a tensor of integers with a row of sides for each grid."""
    usual = isinstance(value, torch.Tensor) and value.dim() == 2 and value.dtype in (torch.int32, torch.int64)
    return usual and isinstance(value.shape[1], int) and value.shape[1] == sides
