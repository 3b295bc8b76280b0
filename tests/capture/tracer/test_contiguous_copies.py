"""`contiguous` asks nothing about sizes, and is the tensor itself where the model writes to what it gives."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import opbridge

SHAPES = {"x": {0: "batch", 1: "height", 2: "width"}}


def windows(x):
    """Windows of 3 by 3, with what is missing padded, as in a Swin transformer."""
    batch, height, width, channels = x.shape
    right, below = -width % 3, -height % 3
    x = F.pad(x, (0, 0, 0, right, 0, below))
    x = x.view(batch, (height + below) // 3, 3, (width + right) // 3, 3, channels).permute(0, 1, 3, 2, 4, 5)
    x = x.reshape(-1, 9, channels).softmax(1)
    x = x.view(batch, (height + below) // 3, (width + right) // 3, 3, 3, channels).permute(0, 1, 3, 2, 4, 5)
    x = x.reshape(batch, height + below, width + right, channels)
    if right > 0 or below > 0:
        x = x[:, :height, :width, :].contiguous()
    return x.view(batch, height * width, channels)


def halves(x):
    """Then patches of 2 by 2 are merged, with an odd row or column padded."""
    batch, height, width, channels = x.shape
    x = windows(x).view(batch, height, width, channels)
    if height % 2 == 1 or width % 2 == 1:
        x = F.pad(x, (0, 0, 0, width % 2, 0, height % 2))
    return torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)


@pytest.mark.slow
@pytest.mark.parametrize("model", [windows, halves])
@pytest.mark.parametrize("batch", [1, 2])
def test_sizes_of_every_kind(model, batch):
    program = opbridge.export(model, (torch.rand(batch, 8, 12, 4),), dynamic_shapes=SHAPES, verify=False)
    assert not program.plan.notes
    session = program.session()
    for sizes in ((1, 1, 1), (1, 3, 3), (2, 3, 4), (1, 4, 3), (2, 5, 7), (3, 6, 9), (2, 1, 6)):
        x = torch.rand(*sizes, 4)
        (found,) = session.run(None, {"x": x.numpy()})
        torch.testing.assert_close(torch.from_numpy(found), model(x))


def writes_to_what_it_gives(x):
    y = x[:, : x.shape[1] // 2 * 2].contiguous()
    y.add_(1)  # x itself, where that is the whole
    return x * 2 + y.sum()


def writes_to_what_it_was_given(x):
    x = x + 1
    y = x[:, : x.shape[1] // 2 * 2].contiguous()
    x.mul_(2)
    return y


def writes_before(x):
    x = x + 1
    x[:, 0] = 5
    return x[:, : x.shape[1] // 2 * 2].contiguous() * 2


@pytest.mark.slow
@pytest.mark.parametrize("model", [writes_to_what_it_gives, writes_to_what_it_was_given, writes_before])
@pytest.mark.parametrize("size", [4, 5])
def test_writes(model, size):
    program = opbridge.export(model, (torch.rand(2, size, 3),), dynamic_shapes={"x": {1: "n"}}, verify=False)
    session = program.session()
    for n in (2, 3, 4, 5, 8, 9):
        x = torch.rand(2, n, 3)
        expected = model(x.clone())
        (found,) = session.run(None, {"x": x.numpy()})
        torch.testing.assert_close(torch.from_numpy(found), expected)
