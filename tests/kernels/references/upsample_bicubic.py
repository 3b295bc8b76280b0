"""Bicubic interpolation, from its definition, in float64: a matrix for each axis."""

from __future__ import annotations

import numpy as np

__all__ = ["upsample_bicubic"]


def upsample_bicubic(x: np.ndarray, scales: tuple[float, float], align_corners: bool) -> np.ndarray:
    """torch.nn.functional.interpolate(x, scale_factor=scales, mode="bicubic", align_corners=align_corners)."""
    down = _matrix(x.shape[2], scales[0], align_corners)
    across = _matrix(x.shape[3], scales[1], align_corners)
    result: np.ndarray = np.einsum("oh,bchw,pw->bcop", down, x, across)
    return result


def _matrix(size: int, scale: float, align_corners: bool) -> np.ndarray:
    outputs = int(size * scale)
    place = np.arange(outputs, dtype=np.float64)
    if align_corners:
        source = place * ((size - 1) / (outputs - 1) if outputs > 1 else 0.0)
    else:
        source = (place + 0.5) / scale - 0.5
    matrix = np.zeros((outputs, size))
    low = np.floor(source).astype(int)
    for step in (-1, 0, 1, 2):
        distance = np.abs(source - low - step)
        near = 1.25 * distance**3 - 2.25 * distance**2 + 1
        far = -0.75 * (distance**3 - 5 * distance**2 + 8 * distance - 4)
        np.add.at(
            matrix,
            (np.arange(outputs), np.clip(low + step, 0, size - 1)),
            np.where(distance <= 1, near, far),
        )
    return matrix
