"""Suppression that names the suppressed."""

from __future__ import annotations

import numpy as np
from kernels.cases import Case, Refused
from kernels.references.nms_match import nms_match, nms_match_batched

__all__ = ["REFUSED", "random_cases"]


def random_cases(seed: int) -> list[Case]:
    """One of each operator. The thresholds are fractions that no overlap of such boxes comes close to, or none."""
    random = np.random.default_rng(seed)
    threshold = float(np.float32(random.choice([0.0, 0.10007, 0.30011, 0.70003])))
    count = int(random.choice([0, 1, 2, 10, 64, 150]))
    dets = np.concatenate([_boxes(random, count), random.integers(0, 256, (count, 1)) / 256], axis=1)
    batch, classes, few = (int(random.choice(each)) for each in ([0, 1, 2], [0, 1, 2], [0, 1, 7, 12]))
    boxes, scores = _boxes(random, batch, few), random.integers(0, 256, (batch, classes, few)) / 256
    return [
        Case("nms_match", [dets], {"iou_threshold": threshold}, nms_match(dets, threshold)),
        Case(
            "nms_match_batched",
            [boxes, scores],
            {"iou_threshold": threshold, "score_threshold": 0.25},
            [nms_match_batched(boxes, scores, threshold, 0.25)],
        ),
    ]


def _boxes(random: np.random.Generator, *sizes: int) -> np.ndarray:
    corners = random.integers(0, 24, (*sizes, 2))
    return np.concatenate([corners, corners + random.integers(0, 12, (*sizes, 2))], axis=-1).astype(np.float64)


_BATCHED = {"iou_threshold": 0.5, "score_threshold": 0.0}
REFUSED = [
    Refused("nms_match", [(3, 4)], {"iou_threshold": 0.5}, "dets must be"),
    Refused("nms_match", [(5,)], {"iou_threshold": 0.5}, "dets must be"),
    Refused("nms_match_batched", [(1, 3, 5), (1, 1, 3)], _BATCHED, "boxes must be"),
    Refused("nms_match_batched", [(3, 4), (1, 1, 3)], _BATCHED, "boxes must be"),
    Refused("nms_match_batched", [(1, 3, 4), (1, 1, 2)], _BATCHED, "scores must be"),
    Refused("nms_match_batched", [(1, 3, 4), (3,)], _BATCHED, "scores must be"),
]
