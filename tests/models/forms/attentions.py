"""torch.nn's attention and transformer modules, in all forms that they are called in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from models.forms.form import floats, form, integers
from torch import nn
from torch.nn import functional

__all__: list[str] = []

_X = floats("batch", "length", 4)
_FIRST = floats("length", "batch", 4)


class _Attended(nn.Module):
    def __init__(self, call: Callable[..., Any], **settings: Any) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, **settings)
        self.call = call

    def forward(self, *given):
        return self.call(self.attention, *given)


def _attention(name: str, given: tuple[Any, ...], call: Callable[..., Any], **settings: Any) -> None:
    def build() -> nn.Module:
        return _Attended(call, **settings).eval()

    build.__name__ = f"attention_{name}"
    form(*given, builds=True)(build)


def _padding(x, lengths):
    return torch.arange(x.shape[1]) > lengths[:, None]


def _causal(x):
    return nn.Transformer.generate_square_subsequent_mask(x.shape[1])


_attention("of_itself", (_X,), lambda layer, x: layer(x, x, x), batch_first=True)
_attention("without_weights", (_X,), lambda layer, x: layer(x, x, x, need_weights=False)[0], batch_first=True)
_attention(
    "with_weights_of_heads", (_X,), lambda layer, x: layer(x, x, x, average_attn_weights=False), batch_first=True
)
_attention("with_length_first", (_FIRST,), lambda layer, x: layer(x, x, x))
_attention("without_batch", (floats("length", 4),), lambda layer, x: layer(x, x, x))
_attention(
    "of_others",
    (_X, floats("batch", 6, 3), floats("batch", 6, 5)),
    lambda layer, x, y, z: layer(x, y, z),
    batch_first=True,
    kdim=3,
    vdim=5,
)
_attention(
    "with_padding",
    (_X, integers(3, "batch")),
    lambda layer, x, lengths: layer(x, x, x, key_padding_mask=_padding(x, lengths)),
    batch_first=True,
)
_attention(
    "with_causal_mask", (_X,), lambda layer, x: layer(x, x, x, attn_mask=_causal(x), is_causal=True), batch_first=True
)
_attention(
    "with_causal_hint",
    (_X,),
    lambda layer, x: layer(x, x, x, attn_mask=_causal(x), is_causal=True, need_weights=False)[0],
    batch_first=True,
)
_attention(
    "with_mask_of_bools",
    (_X,),
    lambda layer, x: layer(x, x, x, attn_mask=torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)),
    batch_first=True,
)
_attention(
    "with_mask_of_each_head",
    (_X,),
    lambda layer, x: layer(x, x, x, attn_mask=torch.zeros(x.shape[0] * 2, x.shape[1], x.shape[1]) + 0.5),
    batch_first=True,
)
_attention(
    "with_both_masks",
    (_X, integers(3, "batch")),
    lambda layer, x, lengths: layer(x, x, x, key_padding_mask=_padding(x, lengths).float() * -9, attn_mask=_causal(x)),
    batch_first=True,
)
_attention(
    "with_added_keys", (_X,), lambda layer, x: layer(x, x, x), batch_first=True, add_bias_kv=True, add_zero_attn=True
)
_attention("without_bias", (_X,), lambda layer, x: layer(x, x, x), batch_first=True, bias=False)


def _transformer(**settings: Any) -> nn.Module:
    return nn.Transformer(4, 2, 1, 2, 8, batch_first=True, **settings).eval()


@form(_X, floats("batch", 6, 4), builds=True)
def transformer():
    return _transformer()


@form(_X, floats("batch", 6, 4), builds=True)
def transformer_with_norm_first():
    return _transformer(norm_first=True, activation="gelu", bias=False)


@form(_X, floats("batch", 6, 4))
class TransformerWithMasks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.transformer = _transformer()

    def forward(self, source, target):
        mask = self.transformer.generate_square_subsequent_mask(target.shape[1])
        return self.transformer(source, target, tgt_mask=mask, tgt_is_causal=True)


@form(floats("batch", "length", 16), integers(3, "batch"))
class EncoderWithMasks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 8, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x, lengths):
        return self.encoder(x, mask=_causal(x), src_key_padding_mask=_padding(x, lengths), is_causal=True)


@form(_X)
class EncoderWithoutCausalHint(nn.Module):
    """The encoder compares the mask with a causal one of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 1)

    def forward(self, x):
        return self.encoder(x, mask=_causal(x))


@form(_X, floats("batch", 6, 4))
class DecoderWithMasks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8, batch_first=True), 2)

    def forward(self, x, memory):
        return self.decoder(x, memory, tgt_mask=_causal(x))


_HEADS = floats("batch", 2, "length", 4)


@form(_HEADS, floats("batch", 1, "length", 4))
def grouped_queries(query, key):
    return functional.scaled_dot_product_attention(query, key, key, enable_gqa=True)


@form(_HEADS)
def scaled_causal_attention(x):
    return functional.scaled_dot_product_attention(x, x * 2, x + 1, is_causal=True, scale=0.3)


@form(_HEADS, floats(2, 1, 1))
def attention_with_slopes(x, slopes):
    """ALiBi: a bias for each head by distance."""
    at = torch.arange(x.shape[2])
    return functional.scaled_dot_product_attention(x, x, x, attn_mask=(at[None] - at[:, None]) * slopes)


@form(_HEADS)
def rotary_attention(x):
    at = torch.arange(x.shape[2], dtype=x.dtype)[:, None] * torch.tensor([1.0, 0.1]).repeat(2)
    turned = torch.cat([-x[..., 2:], x[..., :2]], dim=-1)
    query = x * at.cos() + turned * at.sin()
    return functional.scaled_dot_product_attention(query, query, x)


@form(floats("batch", 2, "length", 4), floats("batch", 2, 3, 4))
def attention_with_cache(x, past):
    keys = torch.cat([past, x], dim=2)
    mask = torch.ones(x.shape[2], keys.shape[2], dtype=torch.bool).tril(past.shape[2])
    return functional.scaled_dot_product_attention(x, keys, keys, attn_mask=mask), keys


@form(_X)
def windowed_attention(x):
    """Local attention: the sequence in blocks, padded to a whole number of these."""
    pad = -x.shape[1] % 3
    blocks = functional.pad(x, (0, 0, 0, pad)).unflatten(1, (-1, 3))
    mixed = functional.scaled_dot_product_attention(blocks, blocks, blocks)
    return mixed.flatten(1, 2)[:, : x.shape[1]]


@form(_X)
class NystromAttention(nn.Module):
    """Nystromformer: landmarks by means of segments, and an inverse by iteration."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(2, 2, (3, 1), padding=(1, 0), groups=2, bias=False)

    def forward(self, x):
        heads = x.unflatten(-1, (2, 2)).transpose(1, 2)
        landmarks = functional.adaptive_avg_pool1d(heads.flatten(0, 1).transpose(1, 2), 3).transpose(1, 2)
        landmarks = landmarks.unflatten(0, (-1, 2))
        first = (heads @ landmarks.transpose(-1, -2)).softmax(-1)
        middle = (landmarks @ landmarks.transpose(-1, -2)).softmax(-1)
        last = (landmarks @ heads.transpose(-1, -2)).softmax(-1)
        identity = torch.eye(3)
        inverse = 1 / torch.max(middle.sum(-2)) * middle.transpose(-1, -2)
        for _ in range(4):
            product = middle @ inverse
            inverse = 0.25 * inverse @ (13 * identity - product @ (15 * identity - product @ (7 * identity - product)))
        mixed = (first @ inverse) @ (last @ heads) + self.convolution(heads)
        return mixed.transpose(1, 2).flatten(-2)
