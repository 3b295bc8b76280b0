"""Scaled dot-product attention and the layers made of it."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches
from helpers.running import run_session
from helpers.tables import assert_all_match
from torch.export import Dim

import opbridge

attention = torch.nn.functional.scaled_dot_product_attention


def inputs(*leading: int, queries: int = 5, keys: int = 7, width: int = 8) -> list[torch.Tensor]:
    return [torch.randn(*leading, length, size) for length, size in ((queries, width), (keys, width), (keys, 6))]


def masks(queries: int = 5, keys: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    """A mask of flags and one of numbers, each with a row that lets nothing through."""
    flags = torch.rand(queries, keys) > 0.5
    flags[2], flags[3] = False, True
    scores = torch.randn(queries, keys)
    scores[1], scores[0, 0] = -torch.inf, -torch.inf
    return flags, scores


PLAIN = {
    "plain": lambda q, k, v, flags, scores: attention(q, k, v),
    "scale": lambda q, k, v, flags, scores: attention(q, k, v, scale=0.3),
    "flags": lambda q, k, v, flags, scores: attention(q, k, v, flags),
    "scores": lambda q, k, v, flags, scores: attention(q, k, v, scores),
    "causal": lambda q, k, v, flags, scores: attention(q, k, v, is_causal=True),
    "causal, more queries": lambda q, k, v, flags, scores: attention(k, q, v[..., :5, :], is_causal=True),
}


@pytest.mark.parametrize("leading", [(2, 3), (3,), ()], ids=str)
def test_attention(leading: tuple[int, ...]) -> None:
    assert_all_match(PLAIN, *inputs(*leading), *masks(), others=[(*inputs(*leading), *masks())])


@pytest.mark.parametrize("opset", [18, 23])
def test_attention_at_other_opsets(opset: int) -> None:
    assert_all_match(PLAIN, *inputs(2, 3), *masks(), opset_version=opset)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float16, 2e-3)], ids=str)
def test_attention_in_other_types(dtype: torch.dtype, tolerance: float) -> None:
    table = {name: PLAIN[name] for name in ("plain", "flags", "causal")}
    tensors = [tensor.to(dtype) for tensor in inputs(2, 3)]
    assert_all_match(table, *tensors, *masks(), rtol=tolerance, atol=tolerance)


def test_grouped_attention() -> None:
    flags, scores = masks()
    table = {
        "plain": lambda q, k, v: attention(q, k, v, enable_gqa=True),
        "causal": lambda q, k, v: attention(q, k, v, is_causal=True, enable_gqa=True),
        "flags": lambda q, k, v: attention(q, k, v, flags, enable_gqa=True),
        "scores": lambda q, k, v: attention(q, k, v, scores, enable_gqa=True),
        "scale": lambda q, k, v: attention(q, k, v, scale=0.2, enable_gqa=True),
    }
    query, _, _ = inputs(2, 6)
    _, key, value = inputs(2, 2)
    assert_all_match(table, query, key, value)


@pytest.mark.slow
@pytest.mark.parametrize("heads", [2, 6])
def test_attention_of_any_batch_and_length(heads: int) -> None:
    batch, queries, keys = Dim("batch"), Dim("queries", min=2, max=64), Dim("keys", min=2, max=64)
    shapes = ({0: batch, 2: queries}, {0: batch, 2: keys}, {0: batch, 2: keys})

    def made(batch: int, queries: int, keys: int) -> list[torch.Tensor]:
        return [torch.randn(batch, n, length, 8) for n, length in ((6, queries), (heads, keys), (heads, keys))]

    for is_causal in (False, True):
        assert_matches(
            lambda q, k, v, is_causal=is_causal: attention(q, k, v, is_causal=is_causal, enable_gqa=True),
            *made(2, 5, 7),
            dynamic_shapes=shapes,
            others=[made(3, 9, 4)],
        )


@pytest.mark.slow
def test_fused_attention() -> None:
    _, scores = masks()
    finite = scores.clamp(min=-5)
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    table = {
        "flash": lambda q, k, v: flash(q, k, v),
        "flash, causal": lambda q, k, v: flash(q, k, v, is_causal=True),
        "flash with a mask": lambda q, k, v: flash(q, k, v, attn_mask=finite),
        "softmax": lambda q, k, v: torch.ops.aten._safe_softmax(q + scores[:, :1], -1),
    }
    query, key, _ = inputs(2, 3)
    assert_all_match(table, query, key, torch.randn(2, 3, 7, 8))


MASKS = {None: None, 0: (5, 5), 1: (2, 5), 2: (2, 4, 5, 5)}


@pytest.mark.parametrize("mask_type", MASKS)
def test_multi_head_attention(mask_type: int | None) -> None:
    shape = MASKS[mask_type]
    mask = None if shape is None else torch.rand(*shape) > 0.7
    if mask is not None:
        mask[..., 0] = False
    weights = [torch.randn(48, 16), torch.randn(48), torch.randn(16, 16), torch.randn(16)]

    def layer(x: torch.Tensor, average: bool) -> tuple[torch.Tensor, ...]:
        return torch.ops.aten._native_multi_head_attention(x, x, x, 16, 4, *weights, mask, True, average, mask_type)

    for average in (False, True):
        assert_matches(lambda x, average=average: layer(x, average), torch.randn(2, 5, 16), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("use_gelu", [False, True])
@pytest.mark.parametrize("norm_first", [False, True])
def test_transformer_layer(use_gelu: bool, norm_first: bool) -> None:
    weights = [torch.randn(48, 16) * 0.3, torch.randn(48), torch.randn(16, 16) * 0.3, torch.randn(16)]
    norms = [torch.randn(16) for _ in range(4)]
    feed = [torch.randn(32, 16) * 0.3, torch.randn(32), torch.randn(16, 32) * 0.3, torch.randn(16)]
    assert_matches(
        lambda x: torch.ops.aten._transformer_encoder_layer_fwd(
            x, 16, 4, *weights, use_gelu, norm_first, 1e-5, *norms, *feed
        ),
        torch.randn(2, 5, 16),
        others=[(torch.randn(2, 5, 16),)],
        rtol=1e-3,
        atol=1e-4,
    )


@pytest.mark.slow
def test_modules() -> None:
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()
    assert_matches(layer, torch.randn(2, 5, 16), kwargs={"src_key_padding_mask": padding}, rtol=1e-4, atol=1e-5)
    attend = torch.nn.MultiheadAttention(16, 4, batch_first=True).eval()
    assert_matches(lambda x: attend(x, x, x), torch.randn(2, 5, 16), rtol=1e-4, atol=1e-5)


def test_dropout() -> None:
    """It drops shares whenever dropout_p is above 0, whether the model is in training or not, as torch does."""

    def model(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        # Of equal values the result is the sum of the shares that are kept.
        return attention(q, k, torch.ones_like(k), dropout_p=0.25, enable_gqa=k.shape[1] == 2)

    for heads, opset in ((4, 18), (2, 18), (4, 23)):
        query, key = torch.randn(1, 4, 64, 8), torch.randn(1, heads, 64, 8)
        program = opbridge.export(model, (query, key), verify=False, opset_version=opset)
        session = program.session()
        (first,), (second,) = (run_session(session, (query, key)) for _ in range(2))
        assert (first != second).any()
        assert 0.95 < first.mean() < 1.05
        assert first.std() > 0.05
        assert first.shape == (1, 4, 64, 8)
