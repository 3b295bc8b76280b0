"""Batches of images whose sizes are dynamic, compared with torchvision's own."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches

from opbridge.model_support.torchvision import batches

pytestmark = pytest.mark.torchvision

SIZES = [((64, 80), (64, 80)), ((100, 60), (50, 130)), ((33, 40), (70, 70)), ((500, 20), (1, 1))]
"""Those of two images: of the example, and others, of which the first or the second is the larger one."""


class Batch(torch.nn.Module):
    """The batch of resized images, and their sizes in it."""

    def __init__(self) -> None:
        super().__init__()
        from torchvision.models.detection.transform import GeneralizedRCNNTransform

        self.transform = GeneralizedRCNNTransform(48, 96, [0.5] * 3, [0.25] * 3).eval()

    def forward(self, images: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        found, _ = self.transform(images)
        return found.tensors, *(torch.tensor(each) for each in found.image_sizes)


def _images(*sizes: tuple[int, int]) -> list[torch.Tensor]:
    return [torch.rand(3, *each) for each in sizes]


def test_images_of_known_sizes_are_left_to_torchvision():
    assert not batches.have_unknown_sizes({"images": _images(*SIZES[1])})
    program = assert_matches(Batch(), _images(*SIZES[1]))
    assert [*program.model.graph.outputs[0].shape] == [2, 3, 96, 96]


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
def test_images_of_dynamic_sizes(count):
    """In one graph for all sizes."""
    shapes = [{1: f"height{number}", 2: f"width{number}"} for number in range(count)]
    first, *others = ([_images(*each[:count])] for each in SIZES)
    program = assert_matches(Batch(), *first, others=others, dynamic_shapes=(shapes,), rtol=1e-4, atol=1e-4)
    assert program.capture.mode == "direct" and not program.plan.decisions
    assert not any(node.op_type in ("If", "Loop") for node in program.model.graph.all_nodes())
