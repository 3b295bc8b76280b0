"""What Python asks about values that depend on the model's own tensors alone."""

from __future__ import annotations

import pytest
import torch
from helpers.captures import assert_same, operators
from torch import nn

from opbridge.capture import capture
from opbridge.capture.config import CaptureConfig
from opbridge.errors import CaptureError

_READING = ("aten.item.default", "aten._local_scalar_dense.default")
_X = torch.arange(6.0).reshape(2, 3)


class _Model(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.register_buffer("lengths", torch.tensor([1, 2]))
        self.plain = torch.tensor([2.0, 4.0])
        self.function = function

    def forward(self, x):
        return self.function(self, x)


def _branch(self, x):
    return x + 1 if self.lengths.max() > 1 else x - 1


_KNOWN = {
    "parameter": lambda self, x: x * float(self.scale),
    "buffer": lambda self, x: x[:, : int(self.lengths.sum())],
    "plain attribute": lambda self, x: x * self.plain[1].item(),
    "element": lambda self, x: x[: self.lengths[1]],
    "list": lambda self, x: x.repeat(*self.lengths.tolist()),
    "one of several results": lambda self, x: x + self.plain.max(0).indices.item(),
    "tensor of a number": lambda self, x: torch.nn.functional.leaky_relu(x, float(torch.tensor(0.25).log2())),
    "new tensor": lambda self, x: x[: int(torch.ones(2, dtype=torch.long).sum())],
    "comparison": lambda self, x: x + int(torch.equal(self.plain, self.plain * 1)),
    "branch": _branch,
}


@pytest.mark.parametrize("name", _KNOWN)
def test_is_a_number(name):
    taken = capture(_Model(_KNOWN[name]), _X)
    assert taken.mode == "direct"
    assert_same(taken)
    assert not any(each in _READING for each in operators(taken)) or name == "element"


def _written(self, x):
    self.lengths.add_(x[0, 1].long())
    return x[: int(self.lengths.sum())]


_UNKNOWN = {
    "input": lambda self, x: x[: int(x.sum())],
    "after a write": _written,
    "random": lambda self, x: x[: int(torch.rand(()) * 2)],
}


@pytest.mark.parametrize("name", _UNKNOWN)
def test_is_decided_by_data(name):
    try:
        taken = capture(_Model(_UNKNOWN[name]), _X, config=CaptureConfig("auto"))
    except CaptureError:
        return
    assert any(each in _READING for each in operators(taken))


def test_a_branch_on_an_input_is_no_constant():
    taken = capture(lambda x: x if x.sum() > 0 else -x, _X, config=CaptureConfig("auto"))
    (decision,) = taken.decisions
    assert decision.condition == "x.sum() > 0"
