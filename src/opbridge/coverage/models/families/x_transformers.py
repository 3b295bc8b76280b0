"""x_transformers: its wrappers of an encoder or a decoder, and a decoder with each option of its layers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch

from opbridge.coverage.models.entries import Case, Inputs, ModelEntry
from opbridge.coverage.models.varying import Size, vary

__all__ = ["PACKAGES", "entries"]

PACKAGES = ("x_transformers",)

_WIDTH, _TOKENS = 32, 64
_LAYERS = {"dim": _WIDTH, "depth": 2, "heads": 2, "attn_dim_head": 16}
_SIZES = {"batch": Size(2, (1, 3)), "sequence": Size(10, (7, 13))}
_TWO = {**_SIZES, "context": Size(8, (6, 11))}

_SIDE: Mapping[str, Any] = {"num_tokens": _TOKENS, "depth": 2, "heads": 2, "max_seq_len": 32, "attn_dim_head": 16}
"""The arguments of either side of an encoder and decoder."""

_LEFT_OUT = ("causal", "cross_attend", "only_cross")
"""What the kind of layers says."""
_OPTIONS: Mapping[str, Any] = {
    "rotary_emb_dim": 8,
    "num_mem_kv": 4,
    "attn_kv_heads": 1,
    "attn_sparse_topk": 4,
    "attn_max_attend_past": 4,
    "residual_attn": True,
    "shift_tokens": 1,
    "attn_num_mem_kv": 4,
}
"""Options that are more than on or off."""


def entries() -> Iterator[ModelEntry]:
    """The wrappers, and a decoder with each option of its layers, attention and network that is on or off."""
    from x_transformers import x_transformers as package

    for name, make in _MODELS.items():
        yield ModelEntry(name, make)
    layers = [name for name in _switches(package.AttentionLayers) if name not in _LEFT_OUT]
    attention = [f"attn_{name}" for name in _switches(package.Attention) if name not in _LEFT_OUT]
    network = [f"ff_{name}" for name in _switches(package.FeedForward)]
    options = {**dict.fromkeys((*layers, *attention, *network), True), **_OPTIONS}
    for option, value in options.items():
        yield ModelEntry(f"Decoder, {option}", partial(_decoder, **{option: value}))


def _switches(cls: Any) -> list[str]:
    """The parameters of a constructor that are off by default."""
    return [p.name for p in inspect.signature(cls.__init__).parameters.values() if p.default is False]


def _tokens(batch: int, sequence: int) -> torch.Tensor:
    return torch.randint(0, _TOKENS, (batch, sequence))


def _mask(batch: int, sequence: int) -> torch.Tensor:
    """Of texts of several lengths, padded at the end."""
    mask = torch.ones(batch, sequence, dtype=torch.bool)
    for i in range(batch - 1):
        mask[i, sequence - 1 - i :] = False
    return mask


def _texts(batch: int, sequence: int) -> Inputs:
    return Inputs((), {"x": _tokens(batch, sequence)})


def _padded_texts(batch: int, sequence: int) -> Inputs:
    return Inputs((), {"x": _tokens(batch, sequence), "mask": _mask(batch, sequence)})


def _vectors(batch: int, sequence: int) -> Inputs:
    return Inputs((), {"x": torch.randn(batch, sequence, 12), "mask": _mask(batch, sequence)})


def _features(batch: int, sequence: int) -> Inputs:
    return Inputs((), {"x": torch.randn(batch, sequence, _WIDTH)})


def _pooled(batch: int, sequence: int) -> Inputs:
    return Inputs((), {"context": torch.randn(batch, sequence, _WIDTH)})


def _with_context(batch: int, sequence: int, context: int) -> Inputs:
    features = {"x": torch.randn(batch, sequence, _WIDTH), "context": torch.randn(batch, context, _WIDTH)}
    return Inputs((), {**features, "context_mask": _mask(batch, context)})


def _pairs(batch: int, sequence: int, context: int) -> Inputs:
    return Inputs((), {"src": _tokens(batch, context), "tgt": _tokens(batch, sequence), "mask": _mask(batch, context)})


def _several_texts(batch: int, sequence: int) -> Inputs:
    return Inputs((), {"x": {"notes": _tokens(batch, sequence), "pitches": _tokens(batch, sequence)}})


def _numbers(batch: int, sequence: int) -> Inputs:
    return Inputs((), {"x": _tokens(batch, sequence), "x_num": torch.randn(batch, sequence)})


def _images(batch: int) -> Inputs:
    return Inputs((torch.randn(batch, 3, 32, 32),))


def _decoder(**options: Any) -> Case:
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(**_LAYERS, **options)
    model = TransformerWrapper(num_tokens=_TOKENS, max_seq_len=32, attn_layers=layers)
    return vary(model, _texts, _SIZES)


def _wrapped(kind: str, draw: Callable[..., Inputs], **options: Any) -> Case:
    import x_transformers as package

    layers = getattr(package, kind)(**_LAYERS)
    wrapper = package.TransformerWrapper(num_tokens=_TOKENS, max_seq_len=32, attn_layers=layers, **options)
    return vary(wrapper, draw, _SIZES)


def _made(
    make: Callable[[Any, Any], Any],
    draw: Callable[..., Inputs],
    sizes: Mapping[str, Size] = _SIZES,
    kind: str = "Encoder",
) -> Case:
    """A model that is made of the package and of layers."""
    import x_transformers as package

    return vary(make(package, getattr(package, kind)(**_LAYERS)), draw, sizes)


_MODELS: Mapping[str, Callable[[], Case]] = {
    "TransformerWrapper, Decoder": partial(_wrapped, "Decoder", _texts),
    "TransformerWrapper, Encoder": partial(_wrapped, "Encoder", _padded_texts),
    **{
        f"TransformerWrapper, {option}": partial(_wrapped, "Encoder", _padded_texts, **{option: value})
        for option, value in {
            "num_memory_tokens": 4,
            "average_pool_embed": True,
            "use_cls_token": True,
            "attn_pool": True,
            "l2norm_embed": True,
            "scaled_sinu_pos_emb": True,
            "tie_embedding": True,
            "mixture_of_softmax": True,
            "num_output_heads": 2,
        }.items()
    },
    "ContinuousTransformerWrapper": partial(
        _made,
        lambda package, layers: package.ContinuousTransformerWrapper(
            dim_in=12, dim_out=8, max_seq_len=32, attn_layers=layers
        ),
        _vectors,
    ),
    "MultiInputTransformerWrapper": partial(
        _made,
        lambda package, layers: package.MultiInputTransformerWrapper(
            num_tokens={"notes": _TOKENS, "pitches": _TOKENS}, max_seq_len=32, attn_layers=layers
        ),
        _several_texts,
        kind="Decoder",
    ),
    "XValTransformerWrapper": partial(
        _made,
        lambda package, layers: package.XValTransformerWrapper(
            num_tokens=_TOKENS, numerical_token_id=3, max_seq_len=32, attn_layers=layers
        ),
        _numbers,
        kind="Decoder",
    ),
    "ViTransformerWrapper": partial(
        _made,
        lambda package, layers: package.ViTransformerWrapper(
            image_size=32, patch_size=8, num_classes=10, attn_layers=layers
        ),
        _images,
        {"batch": _SIZES["batch"]},
    ),
    "XTransformer": partial(
        _made,
        lambda package, layers: package.XTransformer(
            dim=_WIDTH,
            **{f"{side}_{name}": value for side in ("enc", "dec") for name, value in _SIDE.items()},
        ),
        _pairs,
        _TWO,
    ),
    "Encoder": partial(_made, lambda package, layers: layers, _features),
    "CrossAttender": partial(_made, lambda package, layers: layers, _with_context, _TWO, kind="CrossAttender"),
    "AttentionPool": partial(
        _made, lambda package, layers: package.AttentionPool(dim=_WIDTH, heads=2, dim_head=16), _pooled
    ),
    "NeoMLP": partial(
        _made,
        lambda package, layers: package.NeoMLP(dim_in=5, dim_hidden=7, dim_out=4, dim_model=_WIDTH, depth=2),
        lambda batch: Inputs((torch.randn(batch, 5),)),
        {"batch": _SIZES["batch"]},
    ),
}
