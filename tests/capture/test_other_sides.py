"""Questions about sizes whose other side is the model for both."""

from __future__ import annotations

import math

import pytest
import torch
from helpers.captures import assert_same
from torch import nn
from torch.export import Dim

import opbridge
from opbridge.capture import capture
from opbridge.errors import VerificationError

X = torch.randn(2, 3, 10)


class Padded(nn.Module):
    """The state of a short convolution: the last four elements, of zeros where there are fewer."""

    def forward(self, x):
        if x.shape[-1] < 4:
            x = nn.functional.pad(x, (4 - x.shape[-1], 0))
        return x[..., -4:] * 3


class Growing(nn.Module):
    """Sinusoidal position embeddings, made anew for a sequence that is longer than all before."""

    def __init__(self) -> None:
        super().__init__()
        self._make(16)

    def _make(self, length):
        angles = torch.arange(length)[:, None] * torch.linspace(0.1, 1, 10)
        self.register_buffer("table", torch.sin(angles), persistent=False)

    def forward(self, x):
        if x.shape[1] > self.table.size(0):
            self._make(x.shape[1])
        return x + self.table[: x.shape[1]]


class Interpolated(nn.Module):
    """Patches of two, for which a signal of odd length is interpolated."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(3, 4, 3, 2, 1)

    def forward(self, x):
        x = self.convolution(x)
        length = int(math.ceil(x.shape[-1] / 2) * 2)
        if length != x.shape[-1]:
            x = nn.functional.interpolate(x, size=(length,), mode="linear", align_corners=False)
        patches = x.reshape(x.shape[0], 4, length // 2, 2).permute(0, 2, 3, 1)
        return patches.softmax(-1).permute(0, 2, 1, 3).contiguous().view(x.shape[0], -1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "axis", "sizes"),
    [(Padded(), 2, (1, 3, 4, 30)), (Growing(), 1, (1, 15, 17, 40)), (Interpolated(), 2, (5, 6, 7, 8, 31))],
    ids=["pad", "table", "interpolate"],
)
def test_a_capture_of_the_other_side_covers_both(model, axis, sizes):
    shapes = ({0: "batch", axis: "length"},)
    program = opbridge.export(model.eval(), (X,), dynamic_shapes=shapes)
    assert any("only where" in note for note in program.plan.notes)  # what is known of the example's side
    session = program.session()
    for size in sizes:
        shape = list(X.shape)
        shape[axis] = size
        x = torch.randn(3, *shape[1:])
        (got,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        torch.testing.assert_close(torch.from_numpy(got), type(model).forward(model, x), atol=1e-5, rtol=1e-4)


def test_a_side_that_does_something_else_is_not_taken():
    def model(x):
        if x.shape[-1] % 4 != 0:
            x = nn.functional.pad(x, (0, 4 - x.shape[-1] % 4))
        return x.unflatten(-1, (-1, 4))

    given = (torch.randn(2, 3, 8),)
    with pytest.raises(VerificationError, match=r"only where length % 4 == 0 .*Say so .*\(4 \* Dim\('length'\)\)"):
        opbridge.export(model, given, dynamic_shapes=({2: "length"},))
    assert_same(capture(model, given, dynamic_shapes=({2: "length"},)), torch.randn(2, 3, 12))


def test_a_side_for_which_nothing_is_proved_is_not_taken():
    def model(x):
        return x * 0 if x.shape[-1] < 4 else (x - x) * x.shape[-1]

    taken = capture(model, (X,), dynamic_shapes=({2: "length"},))
    assert "aten::sub.Tensor" in [str(node.target).replace(".", "::", 1) for node in taken.graph.graph.nodes]


def test_a_question_about_a_range_that_the_user_gave_is_answered_by_the_example():
    taken = capture(Padded(), (X,), dynamic_shapes=({2: Dim("length", min=4)},))
    assert not [node for node in taken.graph.graph.nodes if "pad" in str(node.target)]
    assert_same(taken, torch.randn(2, 3, 5))
