"""Which images a module of kornia's is given: the first kind that it runs on, found without the package."""

from __future__ import annotations

import pytest
import torch

from opbridge.coverage.models.families import kornia


class Taking(torch.nn.Module):
    """Takes images of one kind, as kornia's checks of shapes do.

    Args:
        kind: The sizes; None stands for any.
    """

    def __init__(self, *kind):
        super().__init__()
        self.kind = kind

    def forward(self, x):
        wanted = zip(self.kind, x.shape, strict=True) if x.dim() == len(self.kind) else [(0, 1)]
        if any(want not in (None, size) for want, size in wanted):
            raise ValueError(f"no such images: {tuple(x.shape)}")
        return x * 2


@pytest.mark.parametrize(
    ("kind", "shapes"),
    [
        ((None, 3, None, None), {0: "batch", 2: "height", 3: "width"}),
        ((None, 2, 6, None, None), {0: "batch", 3: "height", 4: "width"}),
        ((None, 1, 32, 32), {0: "batch"}),
        ((1, 1, None, None), {2: "height", 3: "width"}),
    ],
)
def test_the_dimensions_that_vary(kind, shapes):
    case = kornia._case(Taking(*kind))
    assert case.dynamic_shapes["all"] == (shapes,)
    assert ("batch" in case.dynamic_shapes) is (0 in shapes)
    for inputs in (case.example, *(each for others in case.others.values() for each in others)):
        case.model(*inputs.args)
