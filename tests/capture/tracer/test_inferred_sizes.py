"""The size that `reshape` and `view` infer beside sizes that data decide."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches
from helpers.running import opened
from torch.export import Dim
from torch.nn import functional as F

from opbridge.base.torch_private.torch_sizes import quotient_if_exact

GRIDS = torch.tensor([[1, 4, 6], [2, 2, 8]])
OTHERS = [(torch.tensor(each),) for each in ([[1, 2, 2]], [[1, 4, 2], [3, 2, 2], [1, 6, 6]], [[2, 8, 2]] * 4)]


class OfGrids(torch.nn.Module):
    """Learned positions, as models of packed images make them for each image."""

    def __init__(self, merge):
        super().__init__()
        self.positions = torch.nn.Parameter(torch.randn(1, 4, 6, 6))
        self.merge = merge

    def forward(self, grids):
        found = []
        for times, height, width in grids.tolist():
            image = F.interpolate(self.positions, size=(height, width), mode="bilinear").squeeze(0).permute(1, 2, 0)
            found.append(self.merge(image, height, width).repeat(times, 1))
        return torch.cat(found)


def _merged(x, height, width):
    x = x.reshape(height // 2, 2, width // 2, 2, -1)
    return x.transpose(1, 2).reshape(height * width, -1)


def _viewed(x, height, width):
    x = x.view(height // 2, 2, width // 2, 2, -1)
    return x.permute(0, 2, 1, 3, 4).flatten(0, 3)


def _of_tuple(x, height, width):
    x = torch.reshape(x, (height // 2, 2, width // 2, 2, -1))
    return x.permute(0, 2, 1, 3, 4).reshape((height // 2) * (width // 2), -1)


def _whole(x, height, width):
    return x.reshape(height * width, -1)


def _first(x, height, width):
    return x.reshape(-1, width, 4)[:, 0]


@pytest.mark.parametrize("merge", [_merged, _viewed, _of_tuple, _whole, _first])
def test_a_size_is_known_where_others_divide_what_data_decide(merge):
    assert_matches(OfGrids(merge), GRIDS, others=OTHERS, dynamic_shapes=({0: Dim.DYNAMIC},))


def test_sizes_that_do_not_divide_are_an_error_as_in_pytorch():
    model = OfGrids(_merged)
    run = opened(assert_matches(model, GRIDS, dynamic_shapes=({0: Dim.DYNAMIC},)))
    odd = torch.tensor([[1, 5, 3]])
    with pytest.raises(RuntimeError):
        model(odd)
    with pytest.raises(Exception, match="Reshape"):
        run((odd,), None)


def test_a_quotient_of_sizes_is_a_number_if_each_division_is_exact():
    assert quotient_if_exact(12, 4) == 3
    assert quotient_if_exact(12, 5) is None
    assert quotient_if_exact(12, 0) is None

    class Asked(torch.nn.Module):
        def forward(self, x, sizes):
            height, width = sizes.tolist()
            torch._check(height >= 2)
            torch._check(width >= 2)
            asked.extend(
                [
                    quotient_if_exact(4 * height * width, 4 * (height // 2) * (width // 2)),
                    quotient_if_exact(height * width, (height // 2) * width),
                    quotient_if_exact(height * 3, height),
                    quotient_if_exact(height + 1, height),
                    quotient_if_exact(height, width),
                    quotient_if_exact(3 * height, 2 * height),
                ]
            )
            return x

    asked: list[int | None] = []
    torch.export.export(Asked(), (torch.randn(2), torch.tensor([4, 6])), strict=False)
    assert asked[:6] == [4, 2, 3, None, None, None]
