"""Overlaps of rotated boxes and non-maximum suppression, from their definitions, in float64."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

__all__ = ["box_iou_rotated", "nms_rotated", "nms_rotated_batched"]

Point = tuple[float, float]


def box_iou_rotated(
    boxes1: np.ndarray, boxes2: np.ndarray, mode: str = "iou", aligned: bool = False, clockwise: bool = True
) -> np.ndarray:
    """mmcv.ops.box_iou_rotated."""
    if aligned:
        return np.array([_overlap(a, b, mode, clockwise) for a, b in zip(boxes1, boxes2, strict=True)]).reshape(
            len(boxes1)
        )
    return np.array([_overlap(a, b, mode, clockwise) for a in boxes1 for b in boxes2]).reshape(len(boxes1), len(boxes2))


def nms_rotated(
    boxes: np.ndarray, scores: np.ndarray, labels: np.ndarray | None, threshold: float, clockwise: bool = True
) -> np.ndarray:
    """The boxes that mmcv.ops.nms_rotated keeps."""
    kept: list[int] = []
    for i in np.argsort(-scores, kind="stable"):
        rivals = [k for k in kept if labels is None or labels[k] == labels[i]]
        if not any(_overlap(boxes[k], boxes[i], "iou", clockwise) > threshold for k in rivals):
            kept.append(int(i))
    return np.array(kept, dtype=np.int64)


def nms_rotated_batched(
    boxes: np.ndarray, scores: np.ndarray, threshold: float, score_threshold: float, clockwise: bool = True
) -> np.ndarray:
    """mmdeploy's NMSRotated."""
    rows = [
        (b, c, box)
        for b in range(len(scores))
        for c in range(scores.shape[1])
        for box in nms_rotated(boxes[b], scores[b, c], None, threshold, clockwise)
        if scores[b, c, box] > score_threshold
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def _overlap(first: np.ndarray, second: np.ndarray, mode: str, clockwise: bool) -> float:
    areas = float(first[2] * first[3]), float(second[2] * second[3])
    if min(areas) < 1e-14:
        return 0.0
    shared = _area(_clipped(_corners(first, clockwise), _corners(second, clockwise)))
    return shared / (areas[0] if mode == "iof" else sum(areas) - shared)


def _corners(box: np.ndarray, clockwise: bool) -> list[Point]:
    """The corners in the order in which the area is positive."""
    x, y, width, height, angle = (float(number) for number in box)
    turn = complex(math.cos(angle), math.sin(angle) if clockwise else -math.sin(angle))
    corners = [
        complex(x, y) + turn * complex(i * abs(width) / 2, j * abs(height) / 2)
        for i, j in ((-1, -1), (1, -1), (1, 1), (-1, 1))
    ]
    return [(corner.real, corner.imag) for corner in corners]


def _clipped(polygon: Sequence[Point], by: Sequence[Point]) -> list[Point]:
    """Sutherland and Hodgman: what of a polygon lies on the inner side of each edge of a convex one."""
    result = list(polygon)
    for (x0, y0), (x1, y1) in zip(by, [*by[1:], by[0]], strict=True):
        sides = [(x1 - x0) * (y - y0) - (y1 - y0) * (x - x0) for x, y in result]
        clipped: list[Point] = []
        for i, (point, side) in enumerate(zip(result, sides, strict=True)):
            before, side_before = result[i - 1], sides[i - 1]
            if (side >= 0) != (side_before >= 0):
                share = side_before / (side_before - side)
                clipped.append((before[0] + share * (point[0] - before[0]), before[1] + share * (point[1] - before[1])))
            if side >= 0:
                clipped.append(point)
        result = clipped
    return result


def _area(polygon: Sequence[Point]) -> float:
    if not polygon:
        return 0.0
    following = [*polygon[1:], polygon[0]]
    return abs(sum(x0 * y1 - x1 * y0 for (x0, y0), (x1, y1) in zip(polygon, following, strict=True))) / 2
