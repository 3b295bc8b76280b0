"""RoIAlign of upright and of rotated regions, from its definition, in float64: sample by sample."""

from __future__ import annotations

import math

import numpy as np

__all__ = ["roi_align", "roi_align_rotated"]


def roi_align(
    x: np.ndarray, rois: np.ndarray, scale: float, height: int, width: int, ratio: int, aligned: bool
) -> np.ndarray:
    """torchvision.ops.roi_align."""
    result = np.zeros((len(rois), x.shape[1], height, width))
    offset = 0.5 if aligned else 0.0
    for roi, out in zip(rois, result, strict=True):
        left, top, right, low = (float(edge) * scale - offset for edge in roi[1:])
        sizes = [low - top, right - left]
        if not all(math.isfinite(edge) for edge in (left, top, right, low)):
            out[:] = np.nan
            continue
        if not aligned:
            sizes = [max(size, 1.0) for size in sizes]
        _pool(x[int(roi[0])], out, sizes, ratio, lambda v, u, left=left, top=top: (top + v, left + u))
    return result


def roi_align_rotated(
    x: np.ndarray, rois: np.ndarray, scale: float, height: int, width: int, ratio: int, aligned: bool, clockwise: bool
) -> np.ndarray:
    """mmcv.ops.roi_align_rotated."""
    result = np.zeros((len(rois), x.shape[1], height, width))
    offset = 0.5 if aligned else 0.0
    for roi, out in zip(rois, result, strict=True):
        if not np.isfinite(roi).all():
            out[:] = np.nan
            continue
        centre = complex(roi[1] * scale - offset, roi[2] * scale - offset)
        sizes = [float(roi[4]) * scale, float(roi[3]) * scale]
        if not aligned:
            sizes = [max(size, 1.0) for size in sizes]
        turn = complex(math.cos(roi[5]), math.sin(roi[5]) if clockwise else -math.sin(roi[5]))

        def place(v: float, u: float, centre=centre, sizes=sizes, turn=turn) -> tuple[float, float]:
            at = centre + turn * complex(u - sizes[1] / 2, v - sizes[0] / 2)
            return at.imag, at.real

        _pool(x[int(roi[0])], out, sizes, ratio, place)
    return result


def _pool(image, out, sizes, ratio, place) -> None:
    bins = out.shape[1:]
    counts = [ratio if ratio > 0 else math.ceil(size / count) for size, count in zip(sizes, bins, strict=True)]
    for row in range(bins[0]):
        for column in range(bins[1]):
            samples = [
                _sample(
                    image,
                    *place(
                        (row + (i + 0.5) / counts[0]) * sizes[0] / bins[0],
                        (column + (j + 0.5) / counts[1]) * sizes[1] / bins[1],
                    ),
                )
                for i in range(counts[0])
                for j in range(counts[1])
            ]
            out[:, row, column] = np.mean(samples, axis=0) if samples else 0.0


def _sample(image: np.ndarray, y: float, x: float) -> np.ndarray:
    _, height, width = image.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return np.zeros(len(image))
    y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
    top, left = int(y), int(x)
    low, right = min(top + 1, height - 1), min(left + 1, width - 1)
    upper = image[:, top, left] * (1 - (x - left)) + image[:, top, right] * (x - left)
    lower = image[:, low, left] * (1 - (x - left)) + image[:, low, right] * (x - left)
    result: np.ndarray = upper * (1 - (y - top)) + lower * (y - top)
    return result
