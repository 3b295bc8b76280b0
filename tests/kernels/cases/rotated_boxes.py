"""Overlap and suppression of rotated boxes."""

from __future__ import annotations

import numpy as np
from kernels.cases import Case, Refused
from kernels.references.rotated_boxes import box_iou_rotated, nms_rotated, nms_rotated_batched

__all__ = ["REFUSED", "random_cases"]


def random_cases(seed: int) -> list[Case]:
    """One of each operator."""
    random = np.random.default_rng(seed)
    clockwise = bool(random.integers(2))
    return [_overlaps(random, clockwise), _suppressed(random, clockwise), _suppressed_in_batches(random, clockwise)]


def random_boxes(random: np.random.Generator, *sizes: int) -> np.ndarray:
    """Boxes whose numbers all element types hold: some alike, some upright, some of no area."""
    boxes = np.concatenate(
        [
            random.integers(0, 64, (*sizes, 2)) / 4,
            random.integers(0, 40, (*sizes, 2)) / 4,
            random.integers(-96, 97, (*sizes, 1)) / 32,
        ],
        axis=-1,
    )
    flat = boxes.reshape(-1, 5)
    flat[random.random(len(flat)) < 0.2, 4] = 0
    if len(flat) > 2 and random.random() < 0.5:
        flat[-1], flat[-2, 2] = flat[0], 0
    return boxes


def threshold_between(random: np.random.Generator, overlaps: np.ndarray) -> float:
    """A threshold that no overlap comes close to."""
    for threshold in random.permutation(np.arange(0.05, 0.95, 0.01)):
        if np.abs(overlaps - threshold).min(initial=1.0) > 1e-4:
            return float(np.float32(threshold))
    raise AssertionError("every threshold is the overlap of two boxes")


def _overlaps(random: np.random.Generator, clockwise: bool) -> Case:
    aligned, mode = bool(random.integers(2)), str(random.choice(["iou", "iof"]))
    count = random.choice([0, 1, 2, 5, 17, 20])
    boxes1 = random_boxes(random, count)
    boxes2 = random_boxes(random, count if aligned else random.choice([0, 1, 9, 33]))
    if len(boxes1) and len(boxes2):
        boxes2[0] = boxes1[0]
    expected = box_iou_rotated(boxes1, boxes2, mode, aligned, clockwise)
    attributes = {"mode": mode, "aligned": int(aligned), "clockwise": int(clockwise)}
    return Case("box_iou_rotated", [boxes1, boxes2], attributes, [expected])


def _suppressed(random: np.random.Generator, clockwise: bool) -> Case:
    count = int(random.choice([0, 1, 2, 10, 64, 90]))
    boxes, scores = random_boxes(random, count), random.integers(0, 256, count) / 256
    labels = random.integers(0, 3, count) if random.random() < 0.5 else None
    threshold = threshold_between(random, box_iou_rotated(boxes, boxes, clockwise=clockwise))
    expected = nms_rotated(boxes, scores, labels, threshold, clockwise)
    return Case(
        "nms_rotated",
        [boxes, scores, labels],
        {"iou_threshold": threshold, "clockwise": int(clockwise)},
        [expected],
    )


def _suppressed_in_batches(random: np.random.Generator, clockwise: bool) -> Case:
    batch, classes, count = (int(random.choice(each)) for each in ([0, 1, 2], [0, 1, 2], [0, 1, 7, 12]))
    boxes, scores = random_boxes(random, batch, count), random.integers(0, 256, (batch, classes, count)) / 256
    pairs = [box_iou_rotated(each, each, clockwise=clockwise).ravel() for each in boxes]
    threshold = threshold_between(random, np.concatenate([*pairs, np.zeros(0)]))
    expected = nms_rotated_batched(boxes, scores, threshold, 0.25, clockwise)
    attributes = {"iou_threshold": threshold, "score_threshold": 0.25, "clockwise": int(clockwise)}
    return Case("nms_rotated_batched", [boxes, scores], attributes, [expected])


_IOU = {"mode": "iou", "aligned": 0, "clockwise": 1}
_NMS = {"iou_threshold": 0.5, "clockwise": 1}
_BATCHED = _NMS | {"score_threshold": 0.0}
REFUSED = [
    Refused("box_iou_rotated", [(3, 4), (3, 5)], _IOU, "boxes1 must be"),
    Refused("box_iou_rotated", [(3, 5), (5,)], _IOU, "boxes2 must be"),
    Refused("box_iou_rotated", [(3, 5), (3, 6)], _IOU, "boxes2 must be"),
    Refused("box_iou_rotated", [(3, 5), (2, 5)], _IOU | {"aligned": 1}, "aligned boxes must have the same number"),
    Refused("box_iou_rotated", [(3, 5), (2, 5)], _IOU | {"mode": "giou"}, "mode must be iou or iof"),
    Refused("nms_rotated", [(3, 4), (3,), None], _NMS, "boxes must be"),
    Refused("nms_rotated", [(3, 5), (2,), None], _NMS, "scores must be"),
    Refused("nms_rotated", [(3, 5), (3, 1), None], _NMS, "scores must be"),
    Refused("nms_rotated", [(3, 5), (3,), np.zeros(2, dtype=np.int64)], _NMS, "labels must be"),
    Refused("nms_rotated_batched", [(3, 5), (3,)], _BATCHED, "boxes must be"),
    Refused("nms_rotated_batched", [(1, 3, 5), (2, 1, 3)], _BATCHED, "scores must be"),
    Refused("nms_rotated_batched", [(1, 3, 5), (1, 3)], _BATCHED, "scores must be"),
]
