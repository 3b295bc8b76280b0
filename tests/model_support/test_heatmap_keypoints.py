"""The keypoints in heatmaps, compared with torchvision's own function: boxes of all sizes, and none."""

from __future__ import annotations

import pytest
import torch
from helpers.known_functions import computed
from helpers.matching import assert_matches

pytestmark = pytest.mark.torchvision


def _boxes(sizes: list[tuple[float, float]]) -> torch.Tensor:
    """Boxes of these widths and heights, with corners that are no integers."""
    sides = torch.tensor(sizes, dtype=torch.float64).reshape(-1, 2)
    corners = 40 * torch.rand(len(sizes), 2, dtype=torch.float64)
    return torch.cat([corners, corners + sides], 1)


SIZES = {
    "none": [],
    "one": [(13.25, 40.5)],
    "less than a pixel": [(0.0, 0.0), (0.3, 0.9), (1.0, 0.2)],
    "of a pixel and large": [(0.5, 240.0), (317.75, 1.0), (2.0, 2.0), (300.0, 239.5)],
    "whole pixels": [(1.0, 1.0), (14.0, 14.0), (28.0, 7.0), (3.0, 56.0)],
}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("cells", [(14, 14), (5, 9), (2, 3)])
def test_the_keypoints_of_boxes(sizes, cells):
    """In float64, in which no two pixels are equal within rounding."""
    from torchvision.models.detection.roi_heads import heatmaps_to_keypoints

    maps, boxes = torch.randn(len(sizes), 3, *cells, dtype=torch.float64), _boxes(sizes)
    points, scores = computed(heatmaps_to_keypoints)(maps, boxes)
    own_points, own_scores = heatmaps_to_keypoints(maps, boxes)
    torch.testing.assert_close(points, own_points, rtol=0, atol=0)
    torch.testing.assert_close(scores, own_scores, rtol=1e-7, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_the_dtypes_of_heatmaps(dtype):
    """The scores are the largest values of the resized heatmaps, as torch rounds them, and points are float32."""
    from torchvision.models.detection.roi_heads import heatmaps_to_keypoints

    # A peak without an equal: in half precision, many pixels are.
    maps, boxes = torch.zeros(4, 2, 8, 8), _boxes([(30.0, 3.5), (8.0, 8.0), (1.5, 21.0), (12.0, 12.0)]).float()
    maps[torch.arange(4), :, torch.arange(4), 5] = 4.0
    found = computed(heatmaps_to_keypoints)(maps.to(dtype), boxes)
    for value, own in zip(found, heatmaps_to_keypoints(maps.to(dtype), boxes), strict=True):
        torch.testing.assert_close(value, own, rtol=torch.finfo(dtype).eps, atol=0)


def test_the_first_of_equal_pixels():
    """As of heatmaps whose rows are all the same, and with one box that is larger in both directions."""
    from torchvision.models.detection.roi_heads import heatmaps_to_keypoints

    maps = torch.tensor([0.0, 1.0, 0.0, 1.0]).expand(2, 1, 4, 4).double()
    boxes = torch.tensor([[0.0, 0.0, 4.0, 4.0], [10.0, 10.0, 18.0, 42.0]], dtype=torch.float64)
    points, scores = computed(heatmaps_to_keypoints)(maps, boxes)
    assert points[0, 0].tolist() == [1.5, 0.5, 1.0] and scores[0, 0] == 1
    assert points[0, 0].tolist() == heatmaps_to_keypoints(maps, boxes)[0][0, 0].tolist()


class Keypoints(torch.nn.Module):
    """The keypoints of the boxes whose scores are high enough."""

    def forward(self, maps: torch.Tensor, boxes: torch.Tensor, scores: torch.Tensor) -> tuple[torch.Tensor, ...]:
        from torchvision.models.detection import roi_heads

        likely = torch.where(scores > 0.5)[0]
        found: tuple[torch.Tensor, ...] = roi_heads.heatmaps_to_keypoints(maps[likely], boxes[likely])
        return found


@pytest.mark.slow
def test_one_graph_for_all_boxes():
    """Also for none. No loop is left, and the plan says how the result may differ."""
    maps, scores = torch.randn(4, 3, 7, 7), torch.tensor([0.9, 0.1, 0.7, 0.6])
    boxes = _boxes([(9.0, 20.5), (30.0, 1.0), (0.5, 0.5), (50.0, 17.0)]).float()
    others = [(maps, boxes + 0.25, 1 - scores), (maps, 3 * boxes, scores), (maps, boxes, scores * 0)]
    program = assert_matches(Keypoints(), maps, boxes, scores, others=others)
    assert program.capture.mode == "direct" and not program.plan.decisions
    assert not any(node.op_type in ("Loop", "If") for node in program.model.graph.all_nodes())
    assert any("heatmaps_to_keypoints" in note for note in program.plan.notes)
