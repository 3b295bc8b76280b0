"""The sizes that an engine is built for come from the dynamic shapes."""

from __future__ import annotations

import torch
from torch.export import Dim

import opbridge
from opbridge.verification.engine_profile import profile_of


class Net(torch.nn.Module):
    def forward(self, x, y):
        return x.relu(), y + 1


def test_bounds_of_the_dynamic_shapes_are_those_of_the_profile():
    batch, length = Dim("batch", min=2, max=32), Dim("length")
    shapes = {"x": {0: batch}, "y": {0: batch, 1: length}}
    program = opbridge.export(Net(), (torch.randn(4, 3), torch.randn(4, 100)), dynamic_shapes=shapes, verify=False)
    assert profile_of(program.capture, program.to_bytes()) == {"batch": (2, 4, 32), "length": (1, 100, 100)}


def test_a_static_model_has_no_profile():
    program = opbridge.export(Net(), (torch.randn(4, 3), torch.randn(4, 5)), verify=False)
    assert profile_of(program.capture, program.to_bytes()) == {}
