"""The boxes that an R-CNN finds, for any number of proposals.

torchvision asks whether there is any proposal before it gives the decoded boxes the dimension of the classes, since a
size of -1 is ambiguous without elements. With the number of classes instead, no branch is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from opbridge.model_support.fingerprints import fingerprint

__all__ = ["BOX_OPS", "found", "has_known_coder", "heads"]

BOX_OPS = "box_ops"
_DECODE = "1d523558536d768a"
_SMALLEST = 1e-2


def has_known_coder(named: Mapping[str, Any]) -> bool:
    """Whether boxes are decoded by a class whose `decode` is torchvision's."""
    return fingerprint(getattr(type(named["self"].box_coder), "decode", None)) == _DECODE


def found(named: Mapping[str, Any]) -> tuple[list[torch.Tensor], list[torch.Tensor], list[torch.Tensor]]:
    """What `RoIHeads.postprocess_detections` gives, of its arguments by name.

    Returns:
        For each image the boxes, [found, 4], their scores and their labels, [found], in decreasing order of scores.
    """
    heads, logits, proposals = named["self"], named["class_logits"], named["proposals"]
    counts, classes = [each.shape[0] for each in proposals], logits.shape[-1]
    decoded = heads.box_coder.decode_single(named["box_regression"], torch.cat(proposals))
    boxes = decoded.reshape(-1, decoded.shape[1] // 4, 4).split(counts)
    scores = logits.softmax(-1).split(counts)
    labels = torch.arange(1, classes, device=logits.device)
    results = [
        _of_image(heads, named[BOX_OPS], *each, labels)
        for each in zip(boxes, scores, named["image_shapes"], strict=False)
    ]
    return [each[0] for each in results], [each[1] for each in results], [each[2] for each in results]


def _of_image(
    heads: Any, box_ops: Any, boxes: torch.Tensor, scores: torch.Tensor, shape: Any, labels: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """The boxes of one image that are likely, large and not suppressed, without those of the background, class 0."""
    boxes = box_ops.clip_boxes_to_image(boxes, shape)[:, 1:].reshape(-1, 4)
    labels = labels.expand(scores.shape[0], -1).reshape(-1)
    scores = scores[:, 1:].reshape(-1)
    held = boxes, scores, labels
    likely = torch.where(scores > heads.score_thresh)[0]
    boxes, scores, labels = (each[likely] for each in held)
    large = box_ops.remove_small_boxes(boxes, min_size=_SMALLEST)
    boxes, scores, labels = (each[large] for each in (boxes, scores, labels))
    kept = box_ops.batched_nms(boxes, scores, labels, heads.nms_thresh)[: heads.detections_per_img]
    return boxes[kept], scores[kept], labels[kept]


def heads(owner: Any) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Arguments of `RoIHeads.postprocess_detections`: for images with proposals, with one, and without any."""
    settings: dict[str, Any] = {"fg_iou_thresh": 0.5, "bg_iou_thresh": 0.5, "batch_size_per_image": 8}
    settings |= {"positive_fraction": 0.25, "bbox_reg_weights": None, "nms_thresh": 0.5}
    made = owner(None, None, None, score_thresh=0.3, detections_per_img=5, **settings)
    for counts in ((9, 4), (1, 0), (0, 0)):
        total = sum(counts)
        logits = (torch.arange(3.0 * total).reshape(total, 3) * 389 % 17) / 4
        regression = (torch.arange(12.0 * total).reshape(total, 12) * 61 % 13) / 20 - 0.3
        corners = torch.arange(2.0 * total).reshape(total, 2) * 37 % 64
        proposals = torch.cat([corners, corners + 16], 1).split(counts)
        yield (made, logits, regression, list(proposals), [(64, 80)] * len(counts)), {}
