"""Attention without a cache, whose files are run fused and as they were."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from helpers.fused_forms import plain_and_fused
from torch import nn
from torch.nn import functional

import opbridge
from opbridge.fit.fused.whole_attention import fuse_whole_attention
from opbridge.onnx import serialize
from opbridge.runtimes.onnxruntime import open_session


class _Attention(nn.Module):
    """Attention as models of transformers write it."""

    def __init__(self, heads=3, size=4, value_size=4, forward=functional.scaled_dot_product_attention):
        super().__init__()
        torch.manual_seed(0)
        self.query, self.key = nn.Linear(8, heads * size), nn.Linear(8, heads * size)
        self.value, self.out = nn.Linear(8, heads * value_size), nn.Linear(heads * value_size, 8)
        self.heads, self.attend = heads, forward

    def forward(self, x, y, *rest):
        query, key, value = (
            layer(each).view(*each.shape[:2], self.heads, layer.out_features // self.heads).transpose(1, 2)
            for layer, each in ((self.query, x), (self.key, y), (self.value, y))
        )
        found = self.attend(query, key, value, *rest)
        return self.out(found.transpose(1, 2).reshape(*x.shape[:2], self.out.in_features))


def _by_hand(bias=None, scale=0.25, windows=False):
    def attend(query, key, value, *rest):
        scores = query * scale @ key.transpose(-2, -1)
        if bias is not None:
            scores = scores + bias
        if windows:
            mask = torch.zeros(2, 5, 7)
            mask[1, :, 3:] = -100.0
            shape = scores.shape
            scores = (scores.view(-1, 2, *shape[1:]) + mask[:, None]).view(shape)
        return scores.softmax(-1) @ value

    return attend


def _inputs(batch=2, queries=5, keys=7):
    draw = torch.Generator().manual_seed(1)
    return torch.randn(batch, queries, 8, generator=draw), torch.randn(batch, keys, 8, generator=draw)


def _fused(model, args, opset, dynamic_shapes=None):
    """The model as it is exported, fused, and the nodes that were put."""
    return plain_and_fused(fuse_whole_attention, model, args, opset, dynamic_shapes)


def _compare(plain, model, given):
    sessions = open_session(plain, False), open_session(serialize.to_bytes(model), False)
    one, other = (
        session.run(None, {each.name: x for each, x in zip(session.get_inputs(), given, strict=True)})[0]
        for session in sessions
    )
    np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-5)
    return other


def _finite(rows=5, keys=7):
    return torch.linspace(-3, 3, 3 * rows * keys).view(3, rows, keys)


def _hidden(row, value):
    bias = _finite()
    bias[1, row] = value
    return bias


@pytest.mark.parametrize(
    ("attend", "left"),
    [
        (functional.scaled_dot_product_attention, 0),
        (_by_hand(), 0),
        (_by_hand(_finite()), 0),
        (_by_hand(torch.ones(5, 7).tril().log()), 0),
        (_by_hand(_finite(), windows=True), 0),
        (_by_hand(windows=True), 0),
        (_by_hand(_hidden(2, -torch.inf)), 1),  # NaN in PyTorch, 0 in the kernel
        (_by_hand(_hidden(2, torch.finfo(torch.float32).min)), 1),  # the mean of all values, 0 in the kernel
        (_by_hand(_finite(1, 7)), 1),  # a bias that the kernel would have to broadcast over queries
        (lambda q, k, v: (q @ k.mT).softmax(-2) @ v, 1),
    ],
)
def test_attention_of_known_sizes(attend, left):
    args = _inputs()
    plain, model, made = _fused(_Attention(forward=attend), args, 23)
    assert made == Counter({} if left else {"Attention": 1})
    operators = Counter(node.op_type for node in model.graph)
    assert operators["Softmax"] == left
    if not left:  # the kernel reads the heads where they are
        assert not operators["Transpose"]
    _compare(plain, model, [each.numpy() for each in args])


@pytest.mark.parametrize("heads", [1, 3])
def test_queries_that_see_no_key(heads):
    """`scaled_dot_product_attention` gives 0 for them, however its masks are broadcast."""
    args = *_inputs(), torch.ones(2, heads, 5, 7, dtype=torch.bool)
    plain, model, made = _fused(_Attention(), args, 23)
    assert made == Counter(Attention=1)
    mask = np.random.default_rng(0).random((2, heads, 5, 7)) > 0.5
    mask[0, :, 2] = mask[1, 0, 4] = False
    found = _compare(plain, model, [args[0].numpy(), args[1].numpy(), mask])
    assert np.isfinite(found).all()


def test_a_mask_of_two_dimensions():
    args = *_inputs(), torch.ones(5, 7, dtype=torch.bool)
    plain, model, made = _fused(_Attention(), args, 23)
    assert made == Counter(Attention=1)
    mask = np.tri(5, 7, -1, dtype=bool)  # the first query sees no key
    _compare(plain, model, [args[0].numpy(), args[1].numpy(), mask])


@pytest.mark.parametrize("bias", ["added", "a mask beside a bias"])
def test_a_computed_bias_stays(bias):
    """It may be the lowest number everywhere, for which PyTorch gives the mean of all values."""

    def attend(query, key, value, added):
        scores = query @ key.transpose(-2, -1) + added
        if bias != "added":
            scores = scores + _finite()
        return scores.softmax(-1) @ value

    args = *_inputs(), torch.zeros(2, 1, 5, 7)
    assert not _fused(_Attention(forward=attend), args, 23)[2]


def test_a_negative_scale():
    """The kernel of Attention takes positive ones only."""
    plain, model, made = _fused(_Attention(forward=_by_hand(scale=-0.25)), _inputs(), 23)
    assert made == Counter(MultiHeadAttention=1)
    _compare(plain, model, [each.numpy() for each in _inputs()])


def test_heads_that_share_keys():
    """Four heads of queries and two of keys, which the kernel repeats; and one head for all, which it does not."""

    class Grouped(nn.Module):
        def forward(self, query, key, value):
            return (query @ key.mT * 0.5).softmax(-1) @ value

    draw = torch.Generator().manual_seed(0)
    args = [torch.randn(2, heads, 5, 4, generator=draw) for heads in (4, 1, 1)]
    plain, model, made = _fused(Grouped(), tuple(args), 23)
    assert made == Counter(Attention=1)
    _compare(plain, model, [each.numpy() for each in args])
    assert not _fused(Grouped(), tuple(args), 21)[2]


def test_beside_attention_with_a_cache():
    """Both forms in one file, whose values have names of their own."""

    class Both(_Attention):
        def forward(self, x, past_key, past_value):
            x = x + super().forward(x, x)
            query, key, value = (
                layer(x).view(1, x.shape[1], 3, 8).transpose(1, 2) for layer in (self.query, self.key, self.value)
            )
            key, value = torch.cat([past_key, key], 2), torch.cat([past_value, value], 2)
            new, past = x.shape[1], past_key.shape[2]
            mask = torch.arange(past + new)[None] <= torch.arange(past, past + new)[:, None]
            found = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
            return self.out(found.transpose(1, 2).reshape(1, x.shape[1], 24)), key, value

    args = _inputs(1)[0], torch.randn(1, 3, 4, 8), torch.randn(1, 3, 4, 8)
    shapes = {1: "new"}, {2: "past"}, {2: "past"}
    model = Both(size=8, value_size=8).eval()
    fused = opbridge.export(model, args, dynamic_shapes=shapes, target="onnxruntime")
    operators = Counter(node.op_type for node in fused.model.graph)
    assert operators["GroupQueryAttention"] == operators["MultiHeadAttention"] == 1
    names = [value.name for node in fused.model.graph for value in node.outputs if value.name]
    assert len(names) == len(set(names))


def test_shares_that_others_read_stay():
    class Shares(_Attention):
        def forward(self, x, y):
            query, key, value = self.query(x)[:, None], self.key(y)[:, None], self.value(y)[:, None]
            shares = (query @ key.mT).softmax(-1)
            return shares @ value, shares

    assert not _fused(Shares(), _inputs(), 23)[2]
    assert not _fused(_Attention().half(), tuple(each.half() for each in _inputs()), 23)[2]


@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize("value_size", [4, 5])
def test_attention_of_dynamic_sizes(opset, value_size):
    """MultiHeadAttention, which takes sizes of 0 too."""
    sizes = {0: "batch", 1: "queries"}, {0: "batch", 1: "keys"}
    model = _Attention(value_size=value_size)
    plain, model, made = _fused(model, _inputs(), opset, sizes)
    assert made == Counter(MultiHeadAttention=1)
    assert not Counter(node.op_type for node in model.graph)["Transpose"]
    for shape in ((2, 5, 7), (1, 1, 1), (3, 40, 2), (0, 5, 7), (2, 0, 7), (2, 3, 0)):
        _compare(plain, model, [each.numpy() for each in _inputs(*shape)])


def test_heads_of_a_sequence():
    """As `nn.MultiheadAttention` makes them, of [tokens, batch, heads * size]."""
    model = nn.MultiheadAttention(8, 2, batch_first=True)

    class Called(nn.Module):
        def forward(self, x, y):
            return model(x, y, y, need_weights=False)[0]

    for opset, operator in ((21, "MultiHeadAttention"), (23, "Attention")):
        for batch in (1, 3):
            plain, fused, made = _fused(Called(), _inputs(batch), opset)
            assert made == Counter({operator: 1})
            _compare(plain, fused, [each.numpy() for each in _inputs(batch)])


def test_heads_that_are_computed_from_others():
    """They are no view of [batch, tokens, heads * size]: MultiHeadAttention is not taken, which reads nothing else."""

    def attend(query, key, value):
        return functional.scaled_dot_product_attention(query.cos(), key.sin(), value)

    plain, fused, made = _fused(_Attention(forward=attend), _inputs(), 23)
    assert made == Counter(Attention=1)
    _compare(plain, fused, [each.numpy() for each in _inputs()])
    assert not _fused(_Attention(forward=attend), _inputs(), 21)[2]


def test_results_that_are_no_view_of_tokens():
    """Heads are read one by one."""

    class Heads(_Attention):
        def forward(self, x, y):
            query, key, value = (
                layer(each).view(*each.shape[:2], 3, 4).transpose(1, 2)
                for layer, each in ((self.query, x), (self.key, y), (self.value, y))
            )
            return self.attend(query, key, value)

    for opset, operator in ((21, "MultiHeadAttention"), (23, "Attention")):
        plain, fused, made = _fused(Heads(), _inputs(), opset)
        assert made == Counter({operator: 1})
        _compare(plain, fused, [each.numpy() for each in _inputs()])
