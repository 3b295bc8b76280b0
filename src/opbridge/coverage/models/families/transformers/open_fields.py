"""Fields that transformers' default configurations leave open."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from opbridge.coverage.models.families.transformers.fields import PICTURE_WORDS, VOCABULARY

__all__ = ["TIMM", "missing"]

Values = dict[str, Any]

_HEAD = 16
_IMAGE_WORD, _ROW_WORD = 8, 9
_PICTURES = re.compile(r"vl|[0-9]v_|ocr|omni|glm_image")
"""Types of models with positions in time, height and width, whose code has a default for large heads."""


def missing(config: Any, values: Values) -> Values:
    """Values for fields that the default configuration leaves open."""
    fields = vars(config)
    layers = values.get("num_hidden_layers", 2)
    found = {name: make(values, layers) for name, make in _OPEN.items() if fields.get(name, 0) is None}
    if fields.get("sliding_window", 0) is None and _slides(fields):
        found["sliding_window"] = 8
    if "num_attention_heads" in fields and set(fields.get("layer_types") or ()) == {"linear_attention"}:
        found["layer_types"] = ["linear_attention"] * (layers - 1) + ["full_attention"]
    if fields.get("languages") and fields.get("default_language", 0) is None:
        found["default_language"] = fields["languages"][0]
    if "kv_n_heads" in fields and "rope_theta" not in fields and "clip_qkv" in fields:
        found |= {"rope_theta": 10000.0, "clip_qkv": 8.0}
    if fields.get("projector_scale_factors", 0) in ((), []):
        found["projector_scale_factors"] = [1.0]
    if isinstance(fields.get("attention_types"), list) and "num_layers" in values:
        kinds = fields["attention_types"][0][0]
        found["attention_types"] = [[kinds, values["num_layers"] // len(kinds)]]
    heads, width = values.get("num_heads"), values.get("embed_dim")
    if isinstance(heads, list) and isinstance(width, int) and width % heads[0]:
        found["embed_dim"] = (width // heads[0] + 1) * heads[0]
    if "pixel_shuffle_ratio" in fields:
        found["intermediate_size"] = int(values["hidden_size"] / fields["pixel_shuffle_ratio"] ** 2)
    if "spatial_target_layers" in fields:
        found["spatial_target_layers"] = [0, 1, 0, 1]
    found |= TIMM.get(fields.get("architecture", ""), {})
    return found | _heads(config, fields, values, found) | _OF_TYPES.get(config.model_type, {})


def _heads(config: Any, fields: Values, values: Values, found: Values) -> Values:
    """The size of a head and the number of them, which follow from the width."""
    more: Values = {}
    width = values.get("hidden_size")
    for name in ("num_attention_heads", "num_heads"):
        by = "embed_dim" if name == "num_heads" and "embed_dim" in values else "hidden_size"
        if all(isinstance(values.get(each), int) for each in (by, name)) and not _SAID & set(fields):
            more[name] = _count(values[by], values[name], fields[by])
    heads = more.get("num_attention_heads", values.get("num_attention_heads"))
    if not isinstance(heads, int):
        return more
    if fields.get("head_dim", 0) is None and isinstance(width, int):
        more["head_dim"] = width // heads if width % heads == 0 else _HEAD
    if fields.get("num_key_value_heads", 0) is None:
        more["num_key_value_heads"] = heads
    rope = values.get("rope_parameters")
    if isinstance(rope, dict) and "rope_parameters" not in found and _PICTURES.search(config.model_type):
        head = more.get("head_dim") or values.get("head_dim") or values["hidden_size"] // heads
        more |= _sections(config.model_type, rope, head)
    return more


def _count(width: int, heads: int, default: int) -> int:
    """As many heads as divide the width, of sizes that are multiples of 4 where the default's is one."""
    size = 4 if default % heads == 0 and default // heads % 4 == 0 else 1
    if width % heads == 0 and width // heads % size == 0:
        return heads
    return max((count for count in range(1, heads + 1) if width % (size * count) == 0), default=heads)


def _sections(model_type: str, rope: Values, head: int) -> Values:
    """The parts of a head for positions in time, height and width, where nothing says them."""
    if any("mrope" in str(key) for key in rope):
        return {}
    half = int(head * rope.get("partial_rotary_factor", 1)) // 2
    sections = [half - 2 * (half // 3), half // 3, half // 3]
    return {"rope_parameters": rope | {"mrope_section": sections[:: -1 if "ernie" in model_type else 1]}}


_SAID = {"head_dim", "num_key_value_heads", "attention_head_size", "d_kv"}
"""Fields that say what a head is beside the width."""


def _slides(fields: Values) -> bool:
    return "num_sliding_attention_heads" in fields or "sliding_attention" in (fields.get("layer_types") or ())


def _crosses() -> Values:
    """Kernels, strides and paddings of a block that widens its view along rows and columns, as its checkpoints say."""
    found: Values = {"reduce_channel": [1, 1, 0], "return_channel": [1, 1, 0]}
    for length, side in (("long", 7), ("mid", 5), ("short", 3)):
        half = side // 2
        found[f"vertical_long_to_small_conv_{length}ratio"] = [[side, 1], [1, 1], [half, 0]]
        found[f"horizontal_small_to_long_conv_{length}ratio"] = [[1, side], [1, 1], [0, half]]
        found[f"symmetric_conv_long_{length}ratio"] = [[side, side], [1, 1], [half, half]]
    return found


def _words() -> dict[str, int]:
    """Ids of the words that stand for parts of a picture, as Chameleon and Emu write them."""
    found = {"<image>": _IMAGE_WORD, "<|extra_200|>": _ROW_WORD}
    for i in range(PICTURE_WORDS):
        letters = "".join(chr(ord("A") + int(digit)) for digit in str(i))
        found[f"IMGIMG{letters}Z"] = PICTURE_WORDS + i
        found[f"<|visual token {i:06d}|>"] = 2 * PICTURE_WORDS + i
    return found


_OPEN: dict[str, Callable[[Values, int], Any]] = {
    "vocab_size": lambda values, layers: VOCABULARY,
    "pad_token_id": lambda values, layers: 0,
    "vocabulary_map": lambda values, layers: _words(),
    "image_token_index": lambda values, layers: VOCABULARY - 1,
    "video_token_index": lambda values, layers: VOCABULARY - 2,
    "audio_token_id": lambda values, layers: VOCABULARY - 3,
    "num_experts": lambda values, layers: 4,
    "n_routed_experts": lambda values, layers: 4,
    "n_shared_experts": lambda values, layers: 1,
    "num_experts_per_tok": lambda values, layers: 2,
    "top_k_experts": lambda values, layers: 2,
    "moe_intermediate_size": lambda values, layers: 32,
    "layer_types": lambda values, layers: ["conv"] * (layers - 1) + ["full_attention"],
    "mlp_layer_types": lambda values, layers: ["dense"] + ["sparse"] * (layers - 1),
    "attn_layer_indices": lambda values, layers: [layers - 1],
    "deepstack_layer_map": lambda values, layers: [(-1, 0)],
    "downsample_rate": lambda values, layers: "1/2",
    "decoder_hidden_size": lambda values, layers: 64,
    "decoder_depth": lambda values, layers: 1,
    "decoder_num_heads": lambda values, layers: 4,
    "upsample_out_channels": lambda values, layers: [16],
    "conv_out_channels": lambda values, layers: [16],
    "intraclass_block_config": lambda values, layers: _crosses(),
    "kernel_list": lambda values, layers: [3, 2, 2],
    "scale_factor_list": lambda values, layers: [1, 2, 4, 8],
    "backbone": lambda values, layers: "resnet18",
    "decoder_start_token_id": lambda values, layers: 0,
    "prediction_length": lambda values, layers: 8,
    "indexer_n_heads": lambda values, layers: 2,
    "indexer_kv_heads": lambda values, layers: 1,
    "indexer_head_dim": lambda values, layers: max(values.get("head_dim", 0), 32),
    "indexer_budget": lambda values, layers: 8,
    "indexer_compress_ratio": lambda values, layers: 4,
}
"""Values for fields that checkpoints set and default configurations leave open, from the others and the layers."""

TIMM: dict[str, Values] = {
    "mobilenetv5_300m_enc": {"model_args": {"channel_multiplier": 0.125}, "hidden_size": 2048},
    "vit_pe_core_large_patch14_336": {"model_args": {"depth": 2, "embed_dim": 128, "num_heads": 4, "img_size": 56}},
    "fastvit_mci3": {
        "model_args": {"inference_mode": True, "layers": [1] * 5, "embed_dims": [32, 64, 128, 256, 512]},
        "hidden_size": 1024,
    },
}
"""Large models of timm that are parts of others: how they are made smaller, and the width of their features then."""

_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
_SHARED = ["linear_attention", "linear_attention", "hybrid"] * 2
_OF_TYPES: dict[str, Values] = {
    "cohere_compass_text": {"rope_parameters": {"full_attention": _ROPE}},
    "blt": {"num_hidden_layers": 4},
    "beit": {"num_hidden_layers": 4, "out_indices": [1, 2, 3, 4]},
    "data2vec-vision": {"num_hidden_layers": 4, "out_indices": [1, 2, 3, 4]},
    "depth_pro": {"intermediate_hook_ids": [1, 0]},
    "pp_lcnet_v4": {"out_indices": [1, 2, 3, 4]},
    "omdet-turbo": {"image_size": 224},
    "idefics3_vision": {"image_size": 128},
    "smolvlm_vision": {"image_size": 128},
    "zamba": {"num_hidden_layers": 6, "layers_block_type": _SHARED},
    "zamba2": {"num_hidden_layers": 6, "layers_block_type": _SHARED},
    "perceiver": {"num_cross_attention_heads": 1, "num_self_attends_per_block": 2},
    "shieldgemma2": {"yes_token_index": 20, "no_token_index": 21},
    "qwen2_5_omni_thinker": {"vision_start_token_id": 20, "vision_end_token_id": 21},
    "qwen3_omni_moe_thinker": {"vision_start_token_id": 20, "vision_end_token_id": 21},
    "moonshine_streaming": {"num_key_value_heads": 8},
    "hrm_text": {"num_layers_per_stack": 1, "num_hidden_layers": 8},
}
"""The same for types of models where the name of a field does not say what its value is."""
