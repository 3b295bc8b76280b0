"""Tensors that depend on weights alone before a loop, and which its iterations replace."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import opbridge


def counted(x: Tensor, count: Tensor) -> Tensor:
    place, total = torch.zeros((), dtype=torch.long), x[0] * 0
    for _ in range(int(count)):
        total = total + x[place]
        place = place + 1
    return total


def chosen(x: Tensor, count: Tensor) -> Tensor:
    """The farthest points, one after another."""
    distances = torch.full((x.shape[0],), 1e10)
    places = [torch.tensor(0)]
    for _ in range(int(count) - 1):
        distances = torch.minimum(distances, (x - x[places[-1]]).square().sum(1))
        places.append(distances.argmax())
    return x[torch.stack(places)]


class Weighted(torch.nn.Module):
    """A number of a buffer, which stays known where a loop reads it, and one that an iteration replaces."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("size", torch.tensor(2))
        self.register_buffer("begin", torch.tensor(1))

    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        place, total = self.begin, x[0] * 0
        for _ in range(int(count)):
            total = total + x[:, : int(self.size)].sum(1)[place]
            place = (place + self.size) % x.shape[0]
        return total


@pytest.mark.slow
@pytest.mark.parametrize("model", [counted, chosen, Weighted()], ids=["counted", "chosen", "weighted"])
def test_an_index_that_an_iteration_replaces(model: Any) -> None:
    given = torch.randn(9, 4), torch.tensor(3)
    session = opbridge.export(model, given, dynamic_shapes=({0: "rows"}, None), verify=False).session()
    for rows, count in ((5, 1), (6, 5), (12, 10)):
        x = torch.randn(rows, 4)
        found, *_ = session.run(None, dict(zip(("x", "count"), (x.numpy(), torch.tensor(count).numpy()), strict=True)))
        torch.testing.assert_close(torch.from_numpy(found), model(x, torch.tensor(count)))
