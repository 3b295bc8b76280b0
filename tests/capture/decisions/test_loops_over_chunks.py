"""Models that pad a length to chunks, write row by row within each, and go over the chunks: linear attention."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import opbridge
from opbridge.capture.one_attempt import Attempt

CHUNK = 4


class Chunks(nn.Module):
    def forward(self, x):
        batch, length, features = x.shape
        pad = (CHUNK - length % CHUNK) % CHUNK
        y = nn.functional.pad(x, (0, 0, 0, pad)).reshape(batch, -1, CHUNK, features)
        attention = -(y @ y.transpose(-1, -2)) / 16
        for i in range(1, CHUNK):
            row = attention[..., i, :i].clone()
            attention[..., i, :i] = row + (row.unsqueeze(-1) * attention[..., :i, :i].clone()).sum(-2)
        values = attention @ y
        state = torch.zeros(batch, features, features)
        out = torch.zeros_like(values)
        for i in range((length + pad) // CHUNK):
            out[:, i] = values[:, i] @ state
            state = state * 0.5 + y[:, i].transpose(-1, -2) @ values[:, i]
        return out.reshape(batch, -1, features)[:, :length]


@pytest.fixture
def captures(monkeypatch):
    made = []
    original = Attempt.capture_once

    def counted(self, *args, **kwargs):
        made.append([axis.size for axis in self.shapes.axes.values()])
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Attempt, "capture_once", counted)
    return made


def test_the_number_of_chunks_is_all_that_is_decided(captures):
    model = Chunks().eval()
    program = opbridge.export(model, (torch.randn(2, 6, 3),), dynamic_shapes={"x": {0: "batch", 1: "length"}})
    assert not [note for note in program.plan.notes if "only where" in note]
    (decision,) = program.plan.decisions
    assert not decision.on_sizes
    assert len(captures) <= 8
    for sizes in ((1, 1, 3), (1, 9, 3), (2, 4, 3), (3, 17, 3)):
        x = torch.randn(*sizes)
        (got,) = program.session().run(None, {"x": x.numpy()})
        torch.testing.assert_close(torch.from_numpy(got), model(x))
