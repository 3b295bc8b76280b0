"""Causal attention without a cache, whose files are run fused and as they were."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from helpers.fused_forms import plain_and_fused
from torch import nn
from torch.nn import functional

from opbridge.fit.fused.causal_attention import fuse_causal_attention
from opbridge.onnx import serialize
from opbridge.runtimes.onnxruntime import open_session

_TOKENS = 128
PLAIN, ROTATED = "GroupQueryAttention", "GroupQueryAttention with rotation"


class _Decoder(nn.Module):
    """The attention of a decoder: heads in groups, rotated or not, and a mask of its own or is_causal=True."""

    def __init__(self, heads=4, groups=2, size=16, tokens=_TOKENS, rotated=0, mask=None, scale=None):
        super().__init__()
        torch.manual_seed(0)
        self.query, self.out = nn.Linear(8, heads * size), nn.Linear(heads * size, 8)
        self.key, self.value = (nn.Linear(8, groups * size) for _ in range(2))
        self.heads, self.groups, self.size, self.rotated, self.mask, self.scale = (
            heads,
            groups,
            size,
            rotated,
            mask,
            scale,
        )
        angles = torch.arange(tokens)[:, None] / 10 ** (torch.arange(max(rotated // 2, 1)) / 4)
        self.cos, self.sin = (torch.cat([each, each], -1) for each in (angles.cos(), angles.sin()))

    def rotate(self, x):
        """x, with the first elements of each head rotated."""
        if not self.rotated:
            return x
        part, rest = x[..., : self.rotated], x[..., self.rotated :]
        first, second = part.chunk(2, -1)
        turned = part * self.cos + torch.cat([-second, first], -1) * self.sin
        return torch.cat([turned, rest], -1) if rest.shape[-1] else turned

    def forward(self, x):
        """x: [batch, tokens, 8]."""
        query, key, value = (
            layer(x).view(*x.shape[:2], count, self.size).transpose(1, 2)
            for layer, count in ((self.query, self.heads), (self.key, self.groups), (self.value, self.groups))
        )
        query, key = self.rotate(query), self.rotate(key)
        key, value = (
            each[:, :, None]
            .expand(-1, -1, self.heads // self.groups, -1, -1)
            .reshape(x.shape[0], self.heads, x.shape[1], self.size)
            for each in (key, value)
        )
        mask = None if self.mask is None else self.mask(x.shape[1])
        found = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=mask is None, scale=self.scale
        )
        return self.out(found.transpose(1, 2).reshape(*x.shape[:2], self.heads * self.size))


def _window(width):
    def mask(tokens):
        distance = torch.arange(tokens)[:, None] - torch.arange(tokens)
        return (distance >= 0) & (distance < width)

    return mask


def _lowest(tokens):
    return torch.full((tokens, tokens), torch.finfo(torch.float32).min).triu(1)


def _compared(model, batch=2, tokens=_TOKENS, opset=20, dynamic_shapes=None):
    """What is fused in the file of a model, whose results are compared for several inputs."""
    x = torch.randn(batch, tokens, 8)
    plain, fused, made = plain_and_fused(fuse_causal_attention, model, (x,), opset, dynamic_shapes)
    sessions = open_session(plain, False), open_session(serialize.to_bytes(fused), False)
    for scale in (1, 5, 0):
        given = {sessions[0].get_inputs()[0].name: (torch.randn(batch, tokens, 8) * scale).numpy()}
        one, other = (session.run(None, given)[0] for session in sessions)
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-5)
    return made, fused


_CASES = {
    "groups of heads": ({}, PLAIN),
    "heads without groups": ({"groups": 4}, PLAIN),
    "one group and a scale": ({"groups": 1, "scale": 0.7}, PLAIN),
    "rotated": ({"rotated": 16}, ROTATED),
    "half rotated": ({"rotated": 16, "size": 32}, ROTATED),
    "too little rotated": ({"rotated": 8}, PLAIN),
    "small heads": ({"size": 8}, PLAIN),
    "a window": ({"mask": _window(3)}, PLAIN),
    "a window of all": ({"mask": _window(_TOKENS)}, PLAIN),
    "the lowest number": ({"mask": _lowest, "rotated": 16}, ROTATED),
}


@pytest.mark.parametrize(("settings", "what"), _CASES.values(), ids=_CASES)
def test_causal_attention(settings, what):
    made, model = _compared(_Decoder(**settings))
    assert made == Counter({what: 1})
    assert not [node for node in model.graph if node.op_type == "Softmax"]


@pytest.mark.parametrize("opset", [14, 17, 23])
def test_other_opsets(opset):
    assert _compared(_Decoder(rotated=16), opset=opset)[0] == Counter({ROTATED: 1})


@pytest.mark.parametrize(("batch", "tokens"), [(1, 1), (1, 40), (3, 2)])
def test_other_sizes(batch, tokens):
    assert _compared(_Decoder(rotated=16, tokens=tokens), batch, tokens)[0] == Counter({ROTATED: 1})


def test_products_of_one_input_are_one_product():
    _, model = _compared(_Decoder(rotated=16))
    assert sum(node.op_type == "MatMul" for node in model.graph) == 2


def _of_the_future(tokens):
    return torch.ones(tokens, tokens, dtype=torch.bool).triu()


def _with_a_hole(tokens):
    mask = _window(tokens)(tokens)
    mask[-1, 1] = False
    return mask


def _of_each_head(tokens):
    return torch.stack([_window(width)(tokens) for width in (2, 3, 4, 5)])


def _sloped(tokens):
    return torch.where(_window(tokens)(tokens), torch.arange(tokens) * -0.1, -torch.inf)


@pytest.mark.parametrize("mask", [_of_the_future, _with_a_hole, _of_each_head, _sloped])
def test_other_masks_stay(mask):
    assert not _compared(_Decoder(mask=mask))[0]


def test_few_tokens_without_a_rotation_stay():
    assert not _compared(_Decoder(tokens=64), tokens=64)[0]


def test_heads_of_other_sizes_stay():
    assert not _compared(_Decoder(size=12))[0]


@pytest.mark.parametrize("dimension", [0, 1])
def test_dynamic_sizes_stay(dimension):
    """ONNX Runtime's kernel rejects 0 tokens, and divides by 0 where there are 0 texts."""
    assert not _compared(_Decoder(), dynamic_shapes={"x": {dimension: "size"}})[0]


def test_tables_that_differ_between_the_halves_of_a_head_stay_outside():
    model = _Decoder(rotated=16)
    model.cos[:, 0] += 0.5
    assert _compared(model)[0] == Counter({PLAIN: 1})
