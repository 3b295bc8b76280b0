"""Inputs on which functions of transformers and their replacements are compared, for all but rotary positions."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from typing import Any

import torch

from opbridge.model_support.entries import Inputs

__all__ = [
    "audio_padding",
    "audio_windows",
    "blocks",
    "convolution",
    "count",
    "delta_attention",
    "encoder",
    "encoder_with_convolutions",
    "encoder_with_windows",
    "experts",
    "frames",
    "gated_delta_rule",
    "merger",
    "modules_of_experts",
    "nearest_positions",
    "packed_tokens",
    "positions",
    "projected_tiles",
    "projector",
    "resolution",
    "router",
    "same_padding",
    "scaled_tiles",
    "seen_blocks",
    "tiles",
    "windows",
    "windows_and_global_tokens",
]

_GRIDS = ([[1, 4, 6]], [[2, 8, 2], [1, 2, 4], [3, 6, 10]])
_RESOLUTIONS = [[28, 14], [14, 28], [28, 28], [42, 14], [14, 42]]
_SIZES = [[28, 14], [20, 21], [60, 20], [9, 30]]
_WIDTH, _HEADS = 64, 4
_WIDTHS = ("hidden_size", "embed_dim", "d_model")
_COUNTS = ("num_heads", "num_attention_heads", "num_key_value_heads", "encoder_attention_heads", "attention_heads")
_WITHOUT_BATCH = "Lfm3VlVisionAttention"
_TILES = [3, 5, 4, 1]  # the last image is not cut


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def same_padding(owner: Any) -> Iterator[Inputs]:
    for kernel, stride, dilation in ((3, 1, 1), (3, 2, 1), (5, 2, 2), (2, 2, 1)):
        layer = torch.nn.Conv2d(1, 1, kernel, stride, dilation=dilation)
        for height, width in ((1, 4), (8, 5), (7, 12)):
            yield (_random(1, 1, height, width), layer), {}


def audio_windows(owner: Any) -> Iterator[Inputs]:
    for half, whole in ((50, 800), (10, 20), (4, 24)):
        chunks, lengths = torch.tensor([2 * half, half, 1]), torch.tensor([17 * half + 3, 1, 5 * half])
        yield (chunks, lengths, whole, half), {}


def audio_padding(owner: Any) -> Iterator[Inputs]:
    from transformers import EncodecConfig

    for mode in ("reflect", "constant"):
        for causal in (True, False):
            config = EncodecConfig(use_causal_conv=causal, pad_mode=mode)
            for kernel, stride in ((7, 1), (4, 2), (16, 8)):
                layer = owner(config, 2, 3, kernel, stride).requires_grad_(False)
                for length in (2, 9, 40):
                    yield (layer, _random(2, 2, length)), {}


def encoder(owner: Any) -> Iterator[Inputs]:
    from transformers import PixtralVisionConfig

    small = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    model = owner(PixtralVisionConfig(**small, image_size=64, patch_size=8)).eval().requires_grad_(False)
    for sizes in ([[32, 48]], [[33, 20], [8, 64], [47, 31]]):
        yield (model, _random(len(sizes), 3, 48, 64), torch.tensor(sizes)), {}


def merger(owner: Any) -> Iterator[Inputs]:
    layer = owner.__new__(owner)
    torch.nn.Module.__init__(layer)
    layer.patch_size, layer.spatial_merge_size, layer.merging_layer = 8, 2, torch.nn.Identity()
    for sizes in ([[32, 48]], [[33, 20], [16, 64], [47, 31]]):
        patches = _random(sum(height // 8 * (width // 8) for height, width in sizes), 5)
        yield (layer, patches, torch.tensor(sizes)), {}


def convolution(owner: Any) -> Iterator[Inputs]:
    config = types.SimpleNamespace(spatial_merge_size=2, hidden_size=4, conv_kernel_size=3)
    torch.manual_seed(0)
    layer = owner(config, 0).eval().requires_grad_(False)
    for grids in _GRIDS:
        given = torch.tensor(grids)
        yield (layer, _random(int(given.prod(1).sum()), 4), given), {}


def encoder_with_convolutions(owner: Any) -> Iterator[Inputs]:
    from transformers.models.lfm3_vl import Lfm3VlVisionConfig

    small = {
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "layer_types": ["conv", "full_attention"],
    }
    config = Lfm3VlVisionConfig(
        **small, num_attention_heads=2, num_key_value_heads=1, patch_size=2, temporal_patch_size=1
    )
    torch.manual_seed(0)
    model = owner(config).eval().requires_grad_(False)
    for grids in _GRIDS:
        given = torch.tensor(grids)
        yield (model, _random(int(given.prod(1).sum()), 12), given), {}


def projector(owner: Any) -> Iterator[Inputs]:
    vision, text = types.SimpleNamespace(spatial_merge_size=2, hidden_size=3), types.SimpleNamespace(hidden_size=5)
    torch.manual_seed(0)
    layer = owner(types.SimpleNamespace(vision_config=vision, text_config=text)).requires_grad_(False)
    for grids in _GRIDS:
        given = torch.tensor(grids)
        yield (layer, _random(int(given.prod(1).sum()), 3), given), {}


def positions(owner: Any) -> Iterator[Inputs]:
    for grids in _GRIDS:
        for side in (1, 2):
            for with_frames in (False, True):
                yield (torch.tensor(grids), side, with_frames), {}


def windows(owner: Any) -> Iterator[Inputs]:
    for grids in _GRIDS:
        for merged, window, patch in ((2, 112, 14), (1, 4, 1), (2, 28, 14)):
            yield (torch.tensor(grids), merged, window, patch), {}


def nearest_positions(owner: Any) -> Iterator[Inputs]:
    for grids in _GRIDS:
        for side in (1, 7, 70):
            yield (torch.tensor(grids)[:, 1:], side), {}


def blocks(owner: Any) -> Iterator[Inputs]:
    for grids in _GRIDS:
        for side in (1, 2):
            yield (torch.tensor(grids), side), {}


def frames(owner: Any) -> Iterator[Inputs]:
    """Images, videos of even and odd numbers of frames, and both."""
    for grids in (*_GRIDS, [[4, 2, 6]], [[1, 2, 2], [5, 4, 2], [2, 2, 4], [1, 4, 4]]):
        for merged in (1, 2):
            given = torch.tensor(grids)
            made = types.SimpleNamespace(spatial_merge_size=merged)
            yield (made, _random(int(given.prod(1).sum()) // merged**2, 3), given), {}


def resolution(owner: Any) -> Iterator[Inputs]:
    for size in _SIZES:
        yield (tuple(size), _RESOLUTIONS), {}


def count(owner: Any) -> Iterator[Inputs]:
    for size in _SIZES:
        for side in (14, 9):
            yield (torch.tensor(size), _RESOLUTIONS, side), {}


def tiles(owner: Any) -> Iterator[Inputs]:
    yield _packing(), {"vision_feature_select_strategy": "default", "image_newline": _random(5)}
    yield _packing(), {"vision_feature_select_strategy": "default", "image_newline": None}


def scaled_tiles(owner: Any) -> Iterator[Inputs]:
    for most in (1, 9):
        yield _packing(), {"image_newline": _random(5), "vision_aspect_ratio": f"anyres_max_{most}"}


def projected_tiles(owner: Any) -> Iterator[Inputs]:
    for rate in (None, "1/2"):
        model, features, sizes = _packing(7 if rate is None else 3)
        model.layerwise_projectors, model.downsample_rate = None if rate is None else (), rate
        yield (model, features, sizes, "default", _random(5)), {}


def _packing(patch: int = 7) -> tuple[Any, list[torch.Tensor], torch.Tensor]:
    vision = types.SimpleNamespace(image_size=14, patch_size=patch)
    config = types.SimpleNamespace(vision_config=vision, image_grid_pinpoints=_RESOLUTIONS)
    return types.SimpleNamespace(config=config), [_random(each, 4, 5) for each in _TILES], torch.tensor(_SIZES)


def delta_attention(owner: Any) -> Iterator[Inputs]:
    query, key, value, decay = (_random(4, 2, 70, 2, 8)).unbind(0)
    given = {"query": query, "key": key, "value": value, "g": -decay.abs() / 8, "beta": _random(2, 70, 2).sigmoid()}
    yield (), {**given, "output_final_state": True, "use_qk_l2norm_in_kernel": True}


def gated_delta_rule(owner: Any) -> Iterator[Inputs]:
    query, key, value = _random(3, 2, 150, 2, 8).unbind(0)
    given = {"query": query, "key": key, "value": value, "beta": _random(2, 150, 2).sigmoid()}
    given["g"] = -_random(2, 150, 2).abs() / 8
    yield (), {**given, "output_final_state": True, "use_qk_l2norm_in_kernel": True}
    yield (), {**given, "initial_state": _random(2, 2, 8, 8), "output_final_state": True}
    yield (), {name: each[:, :40] for name, each in given.items()}


def packed_tokens(owner: Any) -> Iterator[Inputs]:
    """Arguments of an attention of a vision or audio encoder: for one part, parts of one size, and unlike ones."""
    parameters = inspect.signature(owner.forward).parameters
    made = _attention(owner)
    for bounds in ([0, 7], [0, 4, 8, 12], [0, 1, 3, 150, 290]):
        hidden = _random(bounds[-1], _WIDTH)
        given = {"hidden_states": hidden, "cu_seqlens": torch.tensor(bounds, dtype=torch.int32), "max_seqlen": None}
        names = inspect.unwrap(owner.forward).__code__.co_varnames
        if not {"attention_mask", "batch_size"}.isdisjoint(names) and owner.__name__ != _WITHOUT_BATCH:
            given |= {"hidden_states": hidden[None], "attention_mask": None}
        if "position_embeddings" in parameters:
            given["position_embeddings"] = _random(2, bounds[-1], _WIDTH // _HEADS).unbind(0)
        yield (made,), given


def seen_blocks(owner: Any) -> Iterator[Inputs]:
    """Arguments of an indexer of blocks of tokens: causal masks, padded ones, and one with blocks of each query."""
    config = types.SimpleNamespace(
        hidden_size=16,
        indexer_n_heads=16,  # so that no two blocks score 0, of which any may be selected
        indexer_kv_heads=1,
        indexer_head_dim=8,
        indexer_budget=6,
        indexer_compress_ratio=3,
        rms_norm_eps=1e-6,
    )
    torch.manual_seed(0)
    made = owner(config, 0).eval().requires_grad_(False)
    for queries, tokens in ((17, 17), (1, 17), (5, 17), (2, 2)):
        causal = torch.ones(queries, tokens, dtype=torch.bool).tril(tokens - queries)
        padded = causal.clone()
        padded[:, : tokens // 3] = False  # and queries that see nothing
        drawn = _random(queries, tokens) > 0
        positions = _random(2, 2, tokens, 4).unbind(0)
        for masks in ((causal, causal), (padded, causal), (drawn, causal & drawn)):
            mask = torch.stack(masks)[:, None]
            yield (made, _random(2, queries, 16), positions, mask, _Keys(_random(2, tokens, 8))), {}
            yield (
                (made, _random(2, queries, 16), positions, torch.where(mask, 0.0, -1e4), _Keys(_random(2, tokens, 8))),
                {},
            )


def windows_and_global_tokens(owner: Any) -> Iterator[Inputs]:
    """Arguments of an attention of windows: without global tokens, with as many in each sample, with unlike numbers."""
    config = _windowed(owner)
    config.hidden_size, config.attention_probs_dropout_prob = 16, 0.0  # as LED's encoder names them for it
    torch.manual_seed(0)
    made = owner(config, 0).eval().requires_grad_(False)
    choices: tuple[list[list[int]], ...] = ([[], []], [[0], [1]], [[0, 2], [0]], [[], [0, 1, 4]])
    for tokens, masked in ((24, [0, 0]), (16, [3, 0]), (8, [7, 2])):
        for of_global in choices:
            mask = torch.zeros(2, tokens)
            for sample, (count, places) in enumerate(zip(masked, of_global, strict=True)):
                mask[sample, tokens - count :], mask[sample, places] = -1e9, 1e9
            given = {"attention_mask": mask, "is_index_masked": mask < 0, "is_index_global_attn": mask > 0}
            yield (made, _random(2, tokens, 16)), {**given, "is_global_attn": bool((mask > 0).any())}


def encoder_with_windows(owner: Any) -> Iterator[Inputs]:
    made = owner(_windowed(owner)).eval().requires_grad_(False)
    for places in ([], [0, 3]):
        mask = torch.ones(2, 16)
        mask[0, places] = 2
        if "global_attention_mask" in inspect.signature(owner.forward).parameters:
            given = {"attention_mask": mask.clamp(max=1), "global_attention_mask": (mask > 1).long()}
            yield (made, torch.arange(32).reshape(2, 16)), given
        else:
            yield (made, _random(2, 16, 16), (1 - mask) * 1e9), {}


def _windowed(owner: Any) -> Any:
    """The configuration of a small encoder with windows, of Longformer or of LED."""
    from transformers import LEDConfig, LongformerConfig

    common = {"vocab_size": 40, "attention_window": [4, 8], "pad_token_id": 1}
    if "LED" in owner.__name__:
        return LEDConfig(**common, d_model=16, encoder_layers=2, encoder_attention_heads=2, encoder_ffn_dim=16)
    return LongformerConfig(**common, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16)


def experts(owner: Any) -> Iterator[Inputs]:
    """Arguments of a mixture of experts whose weights are one tensor, of which tokens choose some, all, or one."""
    names = ("n_routed_experts", "moe_num_experts", "num_local_experts")
    widths = ("expert_ffn_hidden_size", "ffn_hidden_size", "moe_intermediate_size")
    config = types.SimpleNamespace(
        **dict.fromkeys(names, 5), **dict.fromkeys(widths, 6), hidden_size=8, hidden_act="silu", ffn_act_fn={}
    )
    config.zero_expert_num = 2
    made = owner(config).eval().requires_grad_(False)
    for each in made.parameters():
        each.copy_(_random(*each.shape))
    # Longcat has identities beside its five experts, and its loop fails on one expert for each token.
    others = [[5, 1], [6, 5]] if "Longcat" in owner.__name__ else [[2], [2]]
    for chosen in ([[0, 3], [3, 1], [4, 0], [3, 4]], [[0, 1, 2, 3, 4]], others):
        index = torch.tensor(chosen)
        yield (made, _random(len(chosen), 8), index, _random(*index.shape).softmax(1)), {}


def modules_of_experts(owner: Any) -> Iterator[Inputs]:
    """Arguments of a mixture of experts that are modules, with experts that no token chooses."""
    from transformers import NllbMoeConfig, SwitchTransformersConfig

    if "Switch" in owner.__name__:
        made = owner(SwitchTransformersConfig(d_model=8, d_ff=6, num_experts=3))
        chosen = torch.nn.functional.one_hot(torch.tensor([[2], [0], [2], [2]]), 3)
        weights = _random(4, 1)
    else:
        made = owner(NllbMoeConfig(d_model=8, num_experts=3, moe_token_dropout=0.25), 6)
        chosen = torch.nn.functional.one_hot(torch.tensor([2, 0, 2, 2]), 3)
        weights = _random(4, 3)
    made = made.eval().requires_grad_(False)
    for each in made.parameters():
        each.copy_(_random(*each.shape))
    yield (made, _random(4, 8), chosen, weights), {}
    yield (made, _random(4, 8), torch.zeros_like(chosen), weights), {}


def router(owner: Any) -> Iterator[Inputs]:
    from transformers import SwitchTransformersConfig

    torch.manual_seed(0)
    for dtype in (torch.float32, torch.float16):
        made = owner(SwitchTransformersConfig(d_model=8, num_experts=3, expert_capacity=2)).eval().requires_grad_(False)
        yield (made.to(dtype), _random(2, 5, 8).to(dtype)), {}


class _Keys:
    """A cache that holds the keys of all tokens."""

    def __init__(self, keys: torch.Tensor) -> None:
        self.keys = keys

    def update_indexer(self, keys: torch.Tensor, layer: int) -> torch.Tensor:
        return self.keys


def _attention(owner: Any) -> Any:
    """A small module of a class, with PyTorch's attention, for a configuration of its module."""
    parts = ("Audio" if "Audio" in owner.__name__ else "Vision", "Encoder", "")
    known = {name: kind for name, kind in vars(inspect.getmodule(owner)).items() if name.endswith("Config")}
    config = next(kind for part in parts for name, kind in known.items() if part in name)()
    for name in _WIDTHS:
        setattr(config, name, _WIDTH)
    for name in _COUNTS:
        setattr(config, name, _HEADS)
    config._attn_implementation = "sdpa"
    torch.manual_seed(0)
    return owner(config, *([0] if "layer_idx" in inspect.signature(owner).parameters else [])).eval()
