"""Non-maximum suppression that names the suppressed, from its definition, in float64."""

from __future__ import annotations

import numpy as np

__all__ = ["nms_match", "nms_match_batched"]


def nms_match(dets: np.ndarray, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """mmcv.ops.nms_match: its groups one after the other, and their sizes."""
    groups = _groups(dets[:, :4], dets[:, 4], threshold, 0.0)
    members = [box for group in groups for box in group]
    return np.array(members, dtype=np.int64), np.array([len(group) for group in groups], dtype=np.int64)


def nms_match_batched(boxes: np.ndarray, scores: np.ndarray, threshold: float, score_threshold: float) -> np.ndarray:
    """mmdeploy's NMSMatch."""
    rows = [
        (b, c, kept, box)
        for b in range(len(scores))
        for c in range(scores.shape[1])
        for kept, *suppressed in _groups(boxes[b], scores[b, c], threshold, 1e-10)
        if scores[b, c, kept] > score_threshold
        for box in suppressed
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, 4)


def _groups(boxes: np.ndarray, scores: np.ndarray, threshold: float, least: float) -> list[list[int]]:
    left = [int(box) for box in np.argsort(-scores, kind="stable")]
    groups = []
    while left:
        kept = left[0]
        group = [kept, *(box for box in left[1:] if _iou(boxes[kept], boxes[box], least) >= threshold)]
        left = [box for box in left if box not in group]
        groups.append(group)
    return groups


def _iou(a: np.ndarray, b: np.ndarray, least: float) -> float:
    sides = np.maximum(0, np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]))
    shared = float(sides[0] * sides[1])
    areas = float((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]))
    union = areas - shared + least
    return shared / union if union else float("nan")
