"""Non-maximum suppression of boxes by class, for any number of boxes.

torchvision offsets the boxes of each class so that no two classes overlap, and suppresses all at once, for up to 1,000
boxes on a CPU, for up to 25,000 on a GPU, and for any number in a trace of torch.jit. More boxes it processes class by
class, in a Python loop over `torch.unique`, and without boxes it returns before it looks for the largest coordinate.
Here boxes are offset for any number, without branches. Where torchvision goes class by class, offset coordinates are
rounded, so that the result may differ for a box whose overlap is within rounding of the threshold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from opbridge.base.torch_private import torch_sizes

__all__ = ["NMS", "boxes_of_classes", "is_of_floats", "kept", "note"]

NMS = "nms"
_MOST_AT_ONCE = 1000
_NOTE = (
    "torchvision.ops.batched_nms is exported as one non-maximum suppression of boxes that are offset by class, as "
    "torchvision computes it for up to 25,000 boxes on a GPU; on a CPU, torchvision processes more than 1,000 boxes "
    "class by class, and the result may differ for a box whose overlap is within rounding of the threshold"
)


def is_of_floats(named: Mapping[str, Any]) -> bool:
    """Whether boxes are floating-point numbers."""
    return bool(named["boxes"].is_floating_point())


def kept(named: Mapping[str, Any]) -> torch.Tensor:
    """What `batched_nms` gives, of its arguments by name.

    Returns:
        int64 [kept]: the indices of the boxes that are kept, in decreasing order of scores.
    """
    boxes = named["boxes"]
    lowest = boxes.new_full((1,), -math.inf)  # the maximum without boxes
    largest = torch.cat([boxes.flatten(), lowest]).max()
    offsets = named["idxs"].to(boxes) * (largest + 1)
    found: torch.Tensor = named[NMS](boxes + offsets[:, None], named["scores"], named["iou_threshold"])
    return found


def note(named: Mapping[str, Any]) -> str:
    """What is to be said where there may be more boxes than torchvision suppresses at once."""
    return "" if torch_sizes.is_at_most(named["boxes"].shape[0], _MOST_AT_ONCE) else _NOTE


def boxes_of_classes(owner: Any) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Arguments of `batched_nms`: no boxes, one, several of three classes, and more than it suppresses at once."""
    for count in (0, 1, 40, 1200):
        corners = torch.arange(2 * count).reshape(count, 2) * 37 % 64
        boxes = torch.cat([corners, corners + 16 + torch.arange(count)[:, None] % 5], 1).float()
        scores = (torch.arange(count) * 389 % 1201).float()
        yield (boxes, scores, torch.arange(count) % 3, 0.5), {}
