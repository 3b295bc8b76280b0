"""What opbridge knows of torchvision: each replacement gives what the function gives, and models of it are captured."""

from __future__ import annotations

import math
import sys
import types

import pytest
import torch
from helpers.matching import assert_matches

from opbridge.model_support import changed_sources, comparison
from opbridge.model_support.torchvision.support import SUPPORT

pytestmark = pytest.mark.torchvision

_MANY = 1200
"""More boxes than torchvision suppresses at once on a CPU."""


def _boxes(images: int, count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Boxes with their scores and classes."""
    corners = torch.rand(images, count, 2) * 50
    boxes = torch.cat([corners, corners + 5 + 20 * torch.rand(images, count, 2)], 2)
    return boxes, torch.rand(images, count), torch.randint(0, 3, (images, count))


class Finding(torch.nn.Module):
    """Suppresses the boxes of each image, as a detector does, and asks whether any is left."""

    def forward(self, boxes: torch.Tensor, scores: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        from torchvision.ops import boxes as box_ops

        found = []
        for corners, values, labels in zip(boxes, scores, classes, strict=True):
            likely = torch.where(values > 0.1)[0]
            corners, values, labels = corners[likely], values[likely], labels[likely]
            kept = box_ops.batched_nms(corners, values, labels, 0.5)[:10]
            found.append(corners[kept])
        total = sum(each.shape[0] for each in found)
        joined = torch.cat(found)
        return joined.reshape(total, 4) + 1 if total > 0 else joined


@pytest.mark.parametrize(("entry", "target"), [(entry, each) for entry in SUPPORT.entries for each in entry.targets])
def test_a_replacement_gives_what_the_function_gives(entry, target):
    assert not comparison.differences(entry, target)


def test_the_sources_are_known():
    """Of torchvision 0.28 to 0.29.2."""
    (own,) = changed_sources.package_sources_known("torchvision")
    assert {each.state for each in own.targets} == {"known"}


@pytest.mark.slow
@pytest.mark.parametrize("count", [30, _MANY])
def test_any_number_of_boxes_of_several_images(count):
    """Also none: the scores of all others of an image are too low."""
    boxes, scores, classes = _boxes(2, count)
    others = [
        [*_boxes(2, count)],
        [boxes, scores * torch.tensor([[0.0], [1.0]]), classes],
        [boxes, scores * torch.tensor([[1.0], [0.0]]), classes],
        [boxes, scores * 0, classes],
        [boxes * 100, scores, classes],
    ]
    program = assert_matches(Finding(), boxes, scores, classes, others=others)
    assert program.capture.mode == "direct"
    assert not any(node.op_type == "Loop" for node in program.model.graph.all_nodes())
    assert any("class by class" in note for note in program.plan.notes) == (count == _MANY)


@pytest.mark.slow
def test_batched_nms_under_another_name(monkeypatch):
    """Of a module that has imported it and that no class of the model comes from: more boxes than at once, and none."""
    from torchvision.ops import batched_nms

    module = types.ModuleType("postprocessing")
    module.suppress = batched_nms
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def kept(boxes, scores, classes):
        likely = torch.where(scores > 0.1)[0]
        return module.suppress(boxes[likely], scores[likely], classes[likely], 0.5)

    boxes, scores, classes = (each[0] for each in _boxes(1, _MANY))
    program = assert_matches(kept, boxes, scores, classes, others=[(boxes, scores * 0, classes)])
    assert program.capture.mode == "direct" and not program.plan.decisions
    assert any("class by class" in note for note in program.plan.notes)
    assert module.suppress is batched_nms


@pytest.mark.slow
def test_a_box_without_a_number():
    from torchvision.ops import batched_nms

    boxes, scores, classes = (each[0] for each in _boxes(1, 6))
    boxes[1, 2] = math.nan
    assert_matches(lambda *given: batched_nms(*given, 0.5), boxes, scores, classes)
