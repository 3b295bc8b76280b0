"""Small arguments for the constructors of diffusers' models: their defaults, with the numbers made smaller by name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import Any

from opbridge.coverage.models.families.diffusers.own import ARGUMENTS

__all__ = ["arguments"]

_CHANNELS = re.compile(r"block_out_channels|block_channels|^dim_mult$|hidden_dims")
_LAYERS = re.compile(r"(^|_)layers$|num_single_layers|^num_blocks$|layers_per_block|depth$|num_res_blocks")
_HEADS = re.compile(
    r"num_attention_heads$|num_heads$|n_heads$|num_key_value_heads$|num_kv_heads$|num_cross_attention_heads$"
)
_WIDTHS = re.compile(
    r"(^|_)dim$|_channels$|hidden_size|joint_attention|pooled_projection|ffn|inner|embed|base_channels|d_model"
)
_FIXED = re.compile(
    r"^(in|out|latent|z)_(channels|dim)$|head_dim|rope|axes|patch|pos|max|freq|num_|theta|type|latents_"
)
_CHANNEL_UNIT = 32
"""What numbers of channels are multiples of: most groups of GroupNorm are 32."""


def arguments(cls: Any) -> dict[str, Any]:
    """What to construct a class with, beside its defaults: by rule, and then what the class needs of its own."""
    return {**_by_rule(cls), **ARGUMENTS.get(cls.__name__, {})}


def _by_rule(cls: Any) -> dict[str, Any]:
    parameters = inspect.signature(cls.__init__).parameters.values()
    found = {p.name: _smaller(p.name, p.default) for p in parameters if p.default is not p.empty}
    if "num_attention_heads" not in found:
        return {name: value for name, value in found.items() if value is not None}
    heads = found["num_attention_heads"]
    head = found.get("attention_head_dim")
    if isinstance(heads, int) and isinstance(head, int):
        width = heads * head
        for name in ("cross_attention_dim", "caption_projection_dim", "hidden_size", "inner_dim"):
            default = inspect.signature(cls.__init__).parameters.get(name)
            if default is not None and default.default == _default_width(cls):
                found[name] = width
        if "num_cross_attention_heads" in found and isinstance(found.get("cross_attention_head_dim"), int):
            found["num_cross_attention_heads"] = max(width // found["cross_attention_head_dim"], 1)
    return {name: value for name, value in found.items() if value is not None}


def _default_width(cls: Any) -> int:
    parameters = inspect.signature(cls.__init__).parameters
    return int(parameters["num_attention_heads"].default) * int(parameters["attention_head_dim"].default)


def _smaller(name: str, value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, list | tuple):
        return _smaller_parts(name, value)
    if not isinstance(value, int):
        return value
    if _LAYERS.search(name):
        return min(value, 2)
    if _HEADS.search(name):
        return min(value, 2)
    if name in ("sample_size", "sample_height", "sample_width"):
        return min(value, 16)
    if name == "norm_num_groups":
        return min(value, 8)
    if _WIDTHS.search(name) and not _FIXED.search(name):
        return max(value // 16, 16) if value > 64 else value
    return value


def _smaller_parts(name: str, value: Sequence[Any]) -> Any:
    kind: Any = type(value)
    if _CHANNELS.search(name) and all(isinstance(part, int) and part >= 16 for part in value):
        return kind(_CHANNEL_UNIT * -(-part // (10 * _CHANNEL_UNIT)) for part in value)
    if (_LAYERS.search(name) or _HEADS.search(name)) and all(isinstance(part, int) for part in value):
        return kind(min(part, 2) for part in value)
    return value
