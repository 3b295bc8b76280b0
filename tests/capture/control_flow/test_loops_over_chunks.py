"""Models that pad a length to chunks, write row by row within each, and go over the chunks: linear attention."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import opbridge
from opbridge.capture import one_capture

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
    original = one_capture.trace

    def counted(module, args, kwargs, shapes, **options):
        made.append([axis.size for axis in shapes.axes.values()])
        return original(module, args, kwargs, shapes, **options)

    monkeypatch.setattr(one_capture, "trace", counted)
    return made


@pytest.mark.slow
def test_the_number_of_chunks_is_all_that_is_decided(captures):
    model = Chunks().eval()
    shapes = {"x": {0: "batch", 1: "length"}}
    program = opbridge.export(model, (torch.randn(2, 6, 3),), dynamic_shapes=shapes, verify=False)
    assert not [note for note in program.plan.notes if "valid only for" in note]
    (decision,) = program.plan.decisions
    assert not decision.on_sizes
    assert len(captures) <= 8
    session = program.session()
    for sizes in ((1, 1, 3), (1, 9, 3), (2, 4, 3), (3, 17, 3)):
        x = torch.randn(*sizes)
        (got,) = session.run(None, {"x": x.numpy()})
        torch.testing.assert_close(torch.from_numpy(got), model(x))


class ShorterThanTheKernel(Chunks):
    def forward(self, x):
        batch, length, features = x.shape
        z = x
        if length < 4:
            z = nn.functional.pad(x, (0, 0, 4 - length, 0))
        last = z[:, -4:] * 2
        return super().forward(z.cumsum(1)[:, -length:].view(batch, length, features) / 4 + x), last


@pytest.mark.slow
def test_a_part_that_is_counted_from_the_end_asks_nothing_of_the_batch(captures):
    model = ShorterThanTheKernel().eval()
    example = torch.rand(2, 6, 3)
    program = opbridge.export(model, (example,), dynamic_shapes={"x": {0: "batch", 1: "length"}}, verify=False)
    assert not [note for note in program.plan.notes if "valid only for" in note]
    (decision,) = [each for each in program.plan.decisions if each.on_sizes]
    assert decision.condition == "x.shape[1] >= 4"
    assert not [each for each in captures if each[0] == 1]
    session = program.session()
    for batch in (1, 2, 3):
        for length in (1, 2, 3, 4, 5, 9):
            x = torch.rand(batch, length, 3) / 4
            for got, expected in zip(session.run(None, {"x": x.numpy()}), model(x), strict=True):
                torch.testing.assert_close(torch.from_numpy(got), expected)
