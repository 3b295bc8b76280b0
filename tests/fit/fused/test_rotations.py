"""Rotary position embeddings as one node, in files that are run fused and as they were."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from helpers.fused_forms import plain_and_fused
from torch import nn

import opbridge
from opbridge.fit.fused.rotations import fuse_rotations
from opbridge.onnx import serialize
from opbridge.runtimes.onnxruntime import open_session

FUSED = Counter({"RotaryEmbedding": 1})


class _Rotation(nn.Module):
    """A rotation as transformers writes it, with angles of positions that are computed."""

    def __init__(self, size=8, rotated=None, alike=True, of_heads=False):
        super().__init__()
        rotated = rotated or size
        self.inverse = 1 / 10 ** (torch.arange(rotated // 2) / 4)
        self.rotated, self.alike, self.of_heads = rotated, alike, of_heads

    def angles(self, x, positions):
        """The cosines and sines for x, [texts, heads, tokens, size]."""
        angles = positions[:, None, :, None].float() * self.inverse
        both = torch.cat([angles, angles if self.alike else angles + 1], -1)
        if self.of_heads:
            both = both * torch.arange(1, x.shape[1] + 1)[:, None, None]
        return both.cos() * 1.5, both.sin() * 1.5

    def forward(self, x, positions):
        """x: [texts, heads, tokens, size]; positions: [texts or 1, tokens]."""
        cos, sin = self.angles(x, positions)
        part, rest = x[..., : self.rotated], x[..., self.rotated :]
        first, second = part[..., : self.rotated // 2], part[..., self.rotated // 2 :]
        turned = part * cos + torch.cat([-second, first], -1) * sin
        return torch.cat([turned, rest], -1) if self.rotated < x.shape[-1] else turned


class _OfConstants(_Rotation):
    """The same, with cosines and sines that are weights."""

    def __init__(self, tokens=5, **settings):
        super().__init__(**settings)
        cos, sin = super().angles(torch.empty(0), torch.arange(tokens)[None])
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)

    def angles(self, x, positions):
        """Those that are there."""
        return self.cos, self.sin


def _compared(model, opset, x=(2, 3, 5, 8), texts=1, dynamic_shapes=None, others=()):
    """What is fused in the file of a model, whose results are compared for inputs of several sizes."""
    args = torch.randn(x), torch.arange(x[2]).repeat(texts, 1)
    plain, fused, made = plain_and_fused(fuse_rotations, model, args, opset, dynamic_shapes)
    sessions = open_session(plain, False), open_session(serialize.to_bytes(fused), False)
    for shape in (x, *others):
        tokens = torch.arange(shape[2]).repeat(shape[0] if texts > 1 else 1, 1) * 3
        arrays = torch.randn(shape).numpy(), tokens.numpy()
        one, other = (
            session.run(None, {each.name: arrays[("x", "positions").index(each.name)] for each in session.get_inputs()})
            for session in sessions
        )
        np.testing.assert_allclose(other[0], one[0], rtol=1e-5, atol=1e-6)
    return made


@pytest.mark.parametrize("opset", [15, 20, 23])
@pytest.mark.parametrize(
    "model",
    [_Rotation(), _Rotation(rotated=4), _OfConstants(), _OfConstants(rotated=6)],
    ids=["computed", "a part", "constant", "a part with constants"],
)
def test_rotations(model, opset):
    assert _compared(model, opset) == FUSED


@pytest.mark.parametrize("opset", [20, 23])
@pytest.mark.parametrize("texts", [1, 2])
def test_dynamic_sizes(opset, texts):
    """com.microsoft's has cosines of positions, and not of each text; no size has to be known."""
    shapes = {"x": {0: "texts", 2: "tokens"}, "positions": {0: "texts", 1: "tokens"} if texts > 1 else {1: "tokens"}}
    others = [(1, 3, 5, 8), (4, 3, 1, 8), (2, 3, 0, 8), (0, 3, 2, 8)]
    made = _compared(_Rotation(), opset, texts=texts, dynamic_shapes=shapes, others=others)
    assert made == (FUSED if texts == 1 or opset == 23 else Counter())


@pytest.mark.parametrize("opset", [20, 23])
@pytest.mark.parametrize(
    "model",
    [_Rotation(alike=False), _Rotation(of_heads=True), _OfConstants(alike=False)],
    ids=["halves", "heads", "constants"],
)
def test_factors_that_differ_stay(model, opset):
    assert not _compared(model, opset)


def test_half_precision_stays():
    model = _Rotation().half()
    program = opbridge.export(model, (torch.randn(1, 2, 4, 8).half(), torch.arange(4)[None]), verify=False)
    assert not fuse_rotations(program.model.graph, 23)


def test_rotations_share_their_tables():
    class Both(_OfConstants):
        def forward(self, x, positions):
            return super().forward(x, positions), super().forward(x * 2, positions)

    program = opbridge.export(Both(), (torch.randn(1, 2, 5, 8), torch.arange(5)[None]), opset_version=23, verify=False)
    before = sum(node.op_type == "Slice" for node in program.model.graph)
    assert fuse_rotations(program.model.graph, 23) == Counter({"RotaryEmbedding": 2})
    assert sum(node.op_type == "Slice" for node in program.model.graph) == before + 2
