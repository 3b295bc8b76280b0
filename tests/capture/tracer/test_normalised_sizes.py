"""Normalisation layers over sizes that data decide."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import opbridge

X = torch.tensor([0.5, -1.0, 2.0, -0.25, 3.0, 1.5, -2.0, 0.75])

LAYERS = {
    "instance": (nn.InstanceNorm1d(1, affine=True), lambda x: x[None, None]),
    "instance, running statistics": (nn.InstanceNorm1d(1, track_running_stats=True), lambda x: x[None, None]),
    "instance of images": (nn.InstanceNorm2d(2), lambda x: x[None, None, :, None].expand(1, 2, -1, 3).cumsum(3)),
    "group": (nn.GroupNorm(2, 4), lambda x: x[None, None].expand(1, 4, -1).cumsum(1)),
    "group of a batch": (nn.GroupNorm(2, 4), lambda x: x[:, None].expand(-1, 4).cumsum(1)),
    "batch": (nn.BatchNorm1d(1), lambda x: x[None, None]),
    "batch, its own statistics": (nn.BatchNorm1d(1, track_running_stats=False), lambda x: x[None, None]),
    "local response": (nn.LocalResponseNorm(2), lambda x: x[None, None].expand(1, 4, -1)),
    "layer": (nn.LayerNorm(3), lambda x: x[:, None].expand(-1, 3).cumsum(1)),
    "root mean square": (nn.RMSNorm(3), lambda x: x[:, None].expand(-1, 3)),
    "weight": (nn.utils.parametrizations.weight_norm(nn.Conv1d(1, 2, 1)), lambda x: x[None, None]),
    "spectral": (nn.utils.parametrizations.spectral_norm(nn.Conv1d(1, 2, 1)), lambda x: x[None, None]),
}


class Model(nn.Module):
    def __init__(self, layer, shaped):
        super().__init__()
        self.layer, self.shaped = layer, shaped

    def forward(self, x):
        return self.layer(self.shaped(x[x > 0]))


@pytest.mark.slow
@pytest.mark.parametrize("case", LAYERS)
def test_it_is_captured_for_all_sizes(case):
    model = Model(*LAYERS[case]).eval()
    others = [X[:3], torch.cat([X, X + 0.5]), torch.ones(4)]
    program = opbridge.export(model, (X,), dynamic_shapes=({0: "n"},), inputs=[(each,) for each in others])
    assert program.verification.ok and len(program.verification.runs) >= 4
