"""Multi-scale deformable attention, from its definition, in float64."""

from __future__ import annotations

import itertools
import math

import numpy as np

__all__ = ["ms_deform_attn"]


def ms_deform_attn(
    value: np.ndarray, shapes: np.ndarray, starts: np.ndarray, locations: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Equation 3 of arXiv 2010.04159, between its two linear maps, with the sampling of mmcv."""
    batch, _, heads, dim = value.shape
    queries = locations.shape[1]
    result = np.zeros((batch, queries, heads, dim))
    for b, q, h, level, p in itertools.product(*map(range, weights.shape)):
        height, width = (int(size) for size in shapes[level])
        level_map = value[b, starts[level] : starts[level] + height * width, h].reshape(height, width, dim)
        x, y = locations[b, q, h, level, p] * (width, height) - 0.5
        result[b, q, h] += weights[b, q, h, level, p] * _bilinear(level_map, y, x)
    return result.reshape(batch, queries, heads * dim)


def _bilinear(image: np.ndarray, y: float, x: float) -> np.ndarray:
    height, width, _ = image.shape
    total = np.zeros(image.shape[2])
    if not (math.isfinite(x) and math.isfinite(y)):
        return total
    for row, column in itertools.product((math.floor(y), math.floor(y) + 1), (math.floor(x), math.floor(x) + 1)):
        if 0 <= row < height and 0 <= column < width:
            total += (1 - abs(y - row)) * (1 - abs(x - column)) * image[row, column]
    return total
