"""Sampling at points of a grid."""

from __future__ import annotations

import os

import numpy as np
from kernels.cases import Case, Refused
from kernels.references.grid_sample import grid_sample

__all__ = ["REFUSED", "random_cases"]


def random_cases(seed: int) -> list[Case]:
    """One call, in two or three dimensions, with points far outside, on pixels, between them, and none."""
    random = np.random.default_rng(seed)
    dims = 2 + seed % 2
    mode, padding, align = (
        int(random.integers(3 if dims == 2 else 2)),
        int(random.integers(3)),
        bool(random.integers(2)),
    )
    batch, channels = random.choice([0, 1, 1, 2, 3]), random.choice([0, 1, 1, 2, 3, 4, 5, 16, 17, 33])
    sizes, result = random.choice([1, 2, 3, 5, 9], dims), random.choice([0, 1, 2, 3, 4], dims)
    if seed % 6:
        result = np.maximum(result, 1)
    if seed % 20 == 0 and dims == 2:
        channels, result = random.choice([1, 2, 3]), np.array([13, 11])  # more than a tile
    if seed % 20 == 7:
        batch, channels = (
            4 * (os.cpu_count() or 1),
            random.choice([3, 20]),
        )  # blocks enough for each core to take whole ones
    x = random.standard_normal((batch, channels, *sizes))
    # In all element types the same points: sixteenths.
    grid = np.round((random.random((batch, *result, dims)) * 2 - 1) * random.choice([1, 1.25, 4]) * 16) / 16
    attributes = {"interpolation_mode": mode, "padding_mode": padding, "align_corners": int(align)}
    return [Case("grid_sample", [x, grid], attributes, [grid_sample(x, grid, mode, padding, align)])]


def _refused(words: str, x: tuple[int, ...], grid: tuple[int, ...], mode: int = 0, padding: int = 0) -> Refused:
    attributes = {"interpolation_mode": mode, "padding_mode": padding, "align_corners": 0}
    return Refused("grid_sample", [x, grid], attributes, words)


_X, _GRID = (1, 2, 4, 4), (1, 3, 3, 2)
REFUSED = [
    _refused("input must be", (2, 4, 4), (3, 3, 2)),
    _refused("input must be", (), _GRID),
    _refused("grid must be", _X, (3, 3, 2)),
    _refused("grid must be", _X, (1, 3, 3, 3, 3)),
    _refused("grid must have the batch size of input, 1, but has 2", _X, (2, 3, 3, 2)),
    _refused("grid must have 2 coordinates in its last dimension, but has 3", _X, (1, 3, 3, 3)),
    _refused("grid must have 3 coordinates", (1, 2, 4, 4, 4), (1, 3, 3, 3, 2)),
    _refused("input has no pixels", (1, 2, 0, 4), _GRID),
    _refused("interpolation_mode must be between 0 and 2, but is 3", _X, _GRID, mode=3),
    _refused("interpolation_mode must be between 0 and 2, but is -1", _X, _GRID, mode=-1),
    _refused("bicubic. needs a 4-D input", (1, 2, 4, 4, 4), (1, 3, 3, 3, 3), mode=2),
    _refused("padding_mode must be between 0 and 2", _X, _GRID, padding=2**62),
]
