"""Sampling at points of a grid, from its definition, in float64."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

import numpy as np

__all__ = ["grid_sample"]


def grid_sample(x: np.ndarray, grid: np.ndarray, mode: int, padding: int, align_corners: bool) -> np.ndarray:
    """torch.nn.functional.grid_sample, point by point.

    mode: 0 linear, 1 nearest, 2 cubic; padding: 0 zeros, 1 border, 2 reflection.
    """
    sizes = x.shape[2:]
    result = np.zeros((x.shape[0], x.shape[1], *grid.shape[1:-1]))
    for place in itertools.product(*map(range, grid.shape[:-1])):
        point = grid[place][::-1]  # its last number is the depth's, or the height's
        axes = [list(_axis(float(g), size, mode, padding, align_corners)) for g, size in zip(point, sizes, strict=True)]
        for taps in itertools.product(*axes):
            weight = math.prod(weight for _, weight in taps)
            pixel = tuple(index for index, _ in taps)
            if all(0 <= index < size for index, size in zip(pixel, sizes, strict=True)):
                result[(place[0], slice(None), *place[1:])] += weight * x[(place[0], slice(None), *pixel)]
    return result


def _axis(g: float, size: int, mode: int, padding: int, align_corners: bool) -> Iterable[tuple[int, float]]:
    """The pixels along one axis that count, and how much; those outside count for nothing."""
    x = (g + 1) / 2 * (size - 1) if align_corners else (g + 1) / 2 * size - 0.5
    if mode == 2:
        low = math.floor(x)
        for step in (-1, 0, 1, 2):
            yield round(_padded(low + step, size, padding, align_corners)), _cubic(abs(x - low - step))
        return
    x = _padded(x, size, padding, align_corners)
    if mode == 1:
        yield round(x), 1.0  # Python rounds half to even, too
    else:
        low = math.floor(x)
        yield low, low + 1 - x
        yield low + 1, x - low


def _cubic(distance: float) -> float:
    a = -0.75
    if distance <= 1:
        return (a + 2) * distance**3 - (a + 3) * distance**2 + 1
    return a * (distance**3 - 5 * distance**2 + 8 * distance - 4)


def _padded(x: float, size: int, padding: int, align_corners: bool) -> float:
    if padding == 0:
        return x
    if padding == 2:
        low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
        if high > low:
            period = 2 * (high - low)
            rest = (x - low) % period
            x = low + min(rest, period - rest)
    return min(max(x, 0.0), size - 1.0)
