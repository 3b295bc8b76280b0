"""Regions pooled from feature maps of several levels, for images of dynamic sizes, compared with torchvision."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches

pytestmark = pytest.mark.torchvision


class Pooling(torch.nn.Module):
    """Pools regions of an image.

    Args:
        levels: The number of feature maps.
        keeps: Whether it has the scales that torchvision inferred for the first image, or infers them for each one.
    """

    def __init__(self, levels: int, *, keeps: bool) -> None:
        super().__init__()
        from torchvision.ops import MultiScaleRoIAlign

        self.levels, self.keeps = [str(each) for each in range(levels)], keeps
        self.pooler = MultiScaleRoIAlign(self.levels, 2, 2, canonical_scale=16, canonical_level=3)

    def forward(self, image: torch.Tensor, boxes: torch.Tensor, *maps: torch.Tensor) -> torch.Tensor:
        if not self.keeps:
            self.pooler.scales = self.pooler.map_levels = None
        found: torch.Tensor = self.pooler(dict(zip(self.levels, maps, strict=True)), [boxes], [image.shape[-2:]])
        return found


def _inputs(side: int, *levels: int) -> tuple[torch.Tensor, ...]:
    """An image, boxes of many sizes in it, and feature maps."""
    corners = torch.rand(9, 2) * side / 2
    boxes = torch.cat([corners, corners + torch.linspace(1, side / 2, 9)[:, None]], 1)
    return torch.zeros(3, side, side), boxes, *(torch.rand(1, 3, each, each) for each in levels)


@pytest.mark.slow
@pytest.mark.parametrize("levels", [1, 3])
def test_scales_are_those_of_each_image(levels):
    """Also of one that has been padded, whose feature maps have half of its size, and not a quarter."""
    sides = [(64, 16, 8, 4), (128, 32, 16, 8), (33, 16, 8, 4), (17, 8, 4, 2)]
    first, *others = (_inputs(side, *sizes[:levels]) for side, *sizes in sides)
    shapes = {"image": {1: "height", 2: "width"}, "boxes": {}}
    shapes["maps"] = tuple({2: f"height{level}", 3: f"width{level}"} for level in range(levels))
    program = assert_matches(
        Pooling(levels, keeps=False), *first, others=others, dynamic_shapes=shapes, rtol=1e-5, atol=1e-5
    )
    assert program.capture.mode == "direct" and not program.plan.decisions


def test_scales_that_a_model_has_are_kept():
    """As those of a model that has seen an image."""
    model, first, other = Pooling(2, keeps=True), _inputs(64, 16, 8), _inputs(33, 16, 8)
    model(*first)
    assert_matches(model, *first, others=[other], dynamic_shapes=({1: "height", 2: "width"}, {}, ({}, {})))
    assert model.pooler.scales == [0.25, 0.125]
