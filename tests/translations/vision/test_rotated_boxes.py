"""Overlap of rotated boxes, as torchvision's."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches

torchvision = pytest.importorskip("torchvision")

pytestmark = pytest.mark.torchvision


def boxes(count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.rand(count, 5, dtype=dtype) * torch.tensor([8.0, 8.0, 6.0, 4.0, 360.0], dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_box_iou_rotated(dtype):
    operator = torch.ops.torchvision.box_iou_rotated
    others = [(boxes(1, dtype), boxes(1, dtype)), (boxes(12, dtype), boxes(9, dtype))]
    shapes = ({0: torch.export.Dim("first")}, {0: torch.export.Dim("second")})
    program = assert_matches(
        lambda x, y: operator(x, y),
        boxes(4, dtype),
        boxes(6, dtype),
        others=others,
        dynamic_shapes=shapes,
        rtol=1e-4,
        atol=1e-4,
    )
    assert program.kernels
