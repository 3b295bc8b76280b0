"""Pools with windows of a symbolic size."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers.matching import assert_matches
from torch import nn

F = torch.nn.functional

POOLS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "average of all": lambda x: F.avg_pool2d(x, x.shape[2:]),
    "average of one dimension": lambda x: F.avg_pool2d(x, (x.shape[2], 2), stride=(1, 2)),
    "average of halves": lambda x: F.avg_pool2d(x, (x.shape[2] // 2, x.shape[3] // 2)),
    "overlapping windows": lambda x: F.avg_pool2d(x, x.shape[2] - 2, stride=1) if x.shape[2] == x.shape[3] else x,
    "maximum of all": lambda x: F.max_pool2d(x, kernel_size=x.shape[2:]),
    "maximum over time": lambda x: F.max_pool1d(x.flatten(2), x.shape[2] * x.shape[3]),
    "maximum by size": lambda x: F.max_pool2d(x, 2, stride=(x.shape[2] // 2, 2)),
    "a module": lambda x: nn.AvgPool2d(x.size()[2:])(x),
    "in three dimensions": lambda x: F.avg_pool3d(x[:, :, None], (1, *x.shape[2:])),
    "in float64": lambda x: F.avg_pool1d(x.double().flatten(1, 2), x.shape[3]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", POOLS)
def test_of_a_dynamic_size(name: str) -> None:
    others = [[torch.randn(*sizes)] for sizes in ((1, 2, 4, 4), (3, 2, 5, 7), (2, 2, 9, 2))]
    sizes = {"x": {0: "n", 2: "h", 3: "w"}}
    if name == "overlapping windows":
        others, sizes = [[torch.randn(1, 2, 4, 4)], [torch.randn(3, 2, 9, 9)]], {"x": {0: "n", 2: "h", 3: "h"}}
    assert_matches(POOLS[name], torch.randn(2, 2, 6, 6), others=others, dynamic_shapes=sizes, rtol=1e-5, atol=1e-6)
