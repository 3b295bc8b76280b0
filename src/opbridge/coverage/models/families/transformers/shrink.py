"""Small configurations of transformers' models: the default one, with its numbers made smaller by rules.

Widths are divided by one number, and counts of heads stay as they are, so that what has to fit together (heads times
the size of a head, the width of one part and what another part projects to, channels and groups) still does. Counts of
layers, experts, queries, positions and tokens get upper limits; ids of special tokens are mapped below the vocabulary's
size, each to one of its own. What a field is follows from its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["PLAIN_TOKENS", "VOCABULARY", "shrink"]

VOCABULARY = 256
PLAIN_TOKENS = 128
"""Ids of special tokens from here on are mapped, to those between this and the vocabulary's size."""

_MOST_LAYERS = 10
_HEAD = 16
_LARGE_RATIO = 8
"""What sides of images of more than 256 pixels are divided by, where nothing says into how many patches."""
_STAGES = ("depths", "hidden_sizes")
"""Fields of models of stages, whose lists stay as long as they are."""
_SKIPPED = re.compile(
    r"^_|^(id2label|label2id|architectures|transformers_version|dtype|torch_dtype|model_type|ignore_keys_at_rope_validation)$"
)
_TOKEN = re.compile(
    r"(token|pad|bos|eos|cls|sep|sot|blank|unk|mask|start|end|newline)_(id|ids|index)$"
    r"|^(begin_suppress_tokens|suppress_tokens|decoder_fixing_codes|vocab_offset|langs?_ids?)$"
)
_LAYERS = re.compile(r"(^|_)layers?$|^depth$|^n_layers?$|(^|_)depth$|^num_blocks$")
_FIXED_LAYERS = re.compile(
    r"feat_extract_layers|vision_feature_layer|first_k_dense|upsampling|conditional_layer|spatial_vision|insert_layer"
)
_DEPTHS = re.compile(r"^depths$|^depth$|num_block_repeats|^layers$|stage_num_blocks|^block_sizes$|stage_numb_of_layers")
_WIDTH = re.compile(
    r"hidden_sizes?|hidden_dim|(^|_)dims?($|_)|d_model|(^|_)d_(ff|kv|inner|head|embed)$|^dff$|n_embd|n_inner|channels?($|_size|_list)"
    r"|intermediate_size|embedding_size|embed_dims?|proj(ection|ector)?_size|_rank$|ffn|num_filters|units$"
    r"|output_size|coordinate_size|shape_size|width$|upsample_groups|num_pos_feats|inner_size|feedforward"
    r"|head_(size|dim)|mixer_size|key_dim|word_embed|descriptor|^conv_out|out_features$|merged_hidden|encoder_sizes"
)
_NOT_WIDTH = re.compile(
    r"^num_channels|audio_channels|in_chans$|kernel|^num_hidden|mult$|ratio|vocab|expan|act$|_fn$|patch_dim$|act_dim|state_dim|visual_pos_dim|activation|multiplier|groups?_dim|freq_dim$|model_in_dim|input_dim$"
)
_INDEX = re.compile(r"ind(ex|ices|exes)$|idxs?$|layers?$|layer_ids$|blocks$|hook_ids$")
_SECTIONS = re.compile(r"mrope_section|rope_section")
_IMAGE_TOKENS = re.compile(r"mm_tokens_per_image|num_image_tokens|image_seq_length|vision_soft_tokens|image_embed_len")
_OPEN = (
    ("vocab_size", VOCABULARY),
    ("num_experts_per_tok", 2),
    ("pad_token_id", 0),
    ("vocabulary_map", {"<image>": 8}),
)
"""Values for fields that checkpoints set and default configurations leave open."""
_PICTURES = re.compile(r"vl|[0-9]v_|ocr|omni")
"""Types of models with positions in time, height and width, whose code has a default for large heads."""
_LISTED = {"block_configs", "stage_configs", "resnet_configs"}
"""Fields that list every block with its widths, in which no name says which number is one."""
_LIMITS = (
    (re.compile(r"vocab|codebook_size|^num_embeddings$|^num_embeds$"), VOCABULARY),
    (re.compile(r"max_2d_position|xpath|max_depth|max_ep_len"), 1024),
    (
        re.compile(r"max_.*position|^n_positions$|^n_ctx$|max_seq|context_length|max_(source|target)_pos|seq_length"),
        128,
    ),
    (re.compile(r"^sliding_window(_size)?$|attention_chunk_size|^local_attention$|^attention_window$"), 8),
    (re.compile(r"experts_per_tok|moe_(top_?)?k$|^top_k|experts_top_k|moe_topk|n_shared_experts"), 2),
    (re.compile(r"^n_group$|^topk_group$|num_expert_group"), 1),
    (re.compile(r"num_.*experts$|n_routed_experts|num_experts|zero_expert_num"), 4),
    (re.compile(r"^num_queries$|two_stage_num_proposals|num_proposals"), 12),
    (re.compile(r"num_labels$|num_qa_labels|num_object_labels|num_attr_labels|num_classes"), 10),
)


def shrink(config: Any, divisor: int = 8) -> Any:
    """A small configuration of the class of a configuration; widths are divided by `divisor`.

    Raises:
        Exception: What the class raises for numbers that do not fit together.
    """
    return _Shrinker(config, divisor).config(config)


class _Shrinker:
    def __init__(self, root: Any, divisor: int):
        self.divisor = 1 if any(_LISTED & set(vars(config)) for config in _configs(root)) else divisor
        large = sorted({token for config in _configs(root) for token in _tokens(config) if token >= PLAIN_TOKENS})
        self.image_ratio = max(_image_ratio(config) for config in _configs(root))
        self.tokens = {token: PLAIN_TOKENS + i for i, token in enumerate(large)}

    def config(self, config: Any) -> Any:
        values = {}
        layers = _layers(config)
        for name, value in vars(config).items():
            if _SKIPPED.search(name) or value is None:
                continue
            if _is_config(value):
                values[name] = self.config(value)
            elif not _derived(config, name, value):
                values[name] = self.value(name, value, layers)
        values |= _image_sizes(config) | _missing(config, values)
        _joined(values)
        return type(config)(**values)

    def value(self, name: str, value: Any, layers: tuple[int, int]) -> Any:
        if isinstance(value, dict):
            return {key: self.value(str(key), part, layers) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return self.sequence(name, value, layers)
        if isinstance(value, bool) or not isinstance(value, int):
            return value
        return self.number(name, value, layers[1])

    def number(self, name: str, value: int, layers: int) -> int:
        if _TOKEN.search(name):
            return self.tokens.get(value, value)
        for pattern, limit in _LIMITS:
            if pattern.search(name):
                return min(value, limit)
        if name == "num_kv_shared_layers":
            return min(value, layers // 2)
        if _IMAGE_TOKENS.search(name):
            return max(value // self.image_ratio**2, 1)
        if _LAYERS.search(name) and not _FIXED_LAYERS.search(name):
            return min(value, layers)
        if _WIDTH.search(name) and not _NOT_WIDTH.search(name):
            return divided(value, self.divisor)
        return value

    def sequence(self, name: str, value: Sequence[Any], layers: tuple[int, int]) -> Any:
        before, after = layers
        kind: Any = type(value)
        if name == "backbone_feature_sizes":
            return kind([size // _LARGE_RATIO for size in sizes] for sizes in value)
        if _SECTIONS.search(name):
            return _sections(value, self.divisor)
        if before > after and len(value) == before:
            return kind(self.value(name, part, layers) for part in value[:after])
        if before > after and _is_index(name) and _indices(value, before):
            return kind(_ranks(value, before, after))
        if _DEPTHS.search(name) and all(isinstance(part, int) for part in value):
            return kind(min(part, 2) for part in value)
        if name == "dilations":
            return kind(part[:2] if isinstance(part, list | tuple) else part for part in value)
        if _LAYERS.search(name):
            return value
        return kind(self.value(name, part, layers) for part in value)


def divided(value: int, divisor: int) -> int:
    """A width divided; widths that are small already stay."""
    if value <= 8:
        return value
    small = max(value // divisor, 1)
    return small if small < 32 else small // 4 * 4  # grouped products of matrices take rows of whole 16 bytes


def _is_config(value: Any) -> bool:
    return hasattr(value, "model_type") and hasattr(value, "to_dict")


def _configs(config: Any) -> Iterator[Any]:
    yield config
    for value in vars(config).values():
        if _is_config(value):
            yield from _configs(value)


def _tokens(config: Any) -> Iterator[int]:
    for name, value in vars(config).items():
        if not _TOKEN.search(name):
            continue
        for token in value if isinstance(value, list | tuple) else [value]:
            if isinstance(token, int):
                yield token


def _is_width(name: str) -> bool:
    return bool(_WIDTH.search(name)) and not _NOT_WIDTH.search(name)


def _is_index(name: str) -> bool:
    return bool(_INDEX.search(name)) and not _is_width(name) and not _TOKEN.search(name)


def _derived(config: Any, name: str, value: Any) -> bool:
    """Whether the configuration makes this list itself where none is given, from the number of its layers."""
    default = getattr(type(config), name, 0)
    return (
        default is None
        and isinstance(value, list | tuple)
        and not name.endswith(("layer_types", "feature_sizes"))
        and not _is_width(name)
    )


def _layers(config: Any) -> tuple[int, int]:
    """How many layers there are by default, and how many a small one needs: one of each type at least."""
    before = getattr(config, "num_hidden_layers", 0)
    if any(isinstance(vars(config).get(name), list | tuple) for name in _STAGES):
        return 0, 4
    if not isinstance(before, int) or before == 0:
        return 0, 2
    after = 2
    for name, value in vars(config).items():
        if not isinstance(value, list | tuple):
            continue
        if len(value) == before and name.endswith(("layer_types", "layers_block_type", "pattern")):
            after = max(after, 1 + max(list(value).index(kind) for kind in set(value)))
        elif _is_index(name) and _indices(value, before) and not _derived(config, name, value):
            after = max(after, len(value))
    if vars(config).get("num_kv_shared_layers"):
        after *= 2  # half of them share the keys and values of the others
    return before, min(after, _MOST_LAYERS, before)


def _indices(value: Sequence[Any], layers: int) -> bool:
    """Whether a list names layers: ascending, too large for a small configuration and not too large for the default."""
    return (
        len(value) > 0
        and all(isinstance(part, int) and not isinstance(part, bool) for part in value)
        and list(value) == sorted(set(value))
        and 2 < value[-1] <= layers
        and value[0] >= 0
        and (value[-1] > _MOST_LAYERS or len(value) > 1)
    )


def _ranks(value: Sequence[int], before: int, after: int) -> list[int]:
    """Indices of as many layers, among fewer: the last ones, or one more where the default counts from 1."""
    top = after if value[-1] == before else after - 1
    return sorted({max(top - i, 0) for i in range(len(value))})


def _sections(value: Sequence[int], divisor: int) -> list[int]:
    """Parts of a divided sum that add up to it."""
    ends = [sum(value[: i + 1]) // divisor for i in range(len(value))]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]


def _missing(config: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Values for fields that the default configuration leaves open."""
    fields = vars(config)
    found = {name: value for name, value in _OPEN if fields.get(name, value) is None}
    heads = values.get("num_attention_heads")
    if fields.get("head_dim", 0) is None and isinstance(heads, int) and "hidden_size" in values:
        fits = values["hidden_size"] % heads == 0
        found["head_dim"] = values["hidden_size"] // heads if fits else _HEAD
    if fields.get("num_key_value_heads", 0) is None and isinstance(heads, int):
        found["num_key_value_heads"] = heads
    rope = values.get("rope_parameters")
    if (
        isinstance(rope, dict)
        and isinstance(heads, int)
        and _PICTURES.search(config.model_type)
        and not any("mrope" in str(key) for key in rope)
    ):
        head = found.get("head_dim") or values.get("head_dim") or values["hidden_size"] // heads
        half = int(head * rope.get("partial_rotary_factor", 1)) // 2
        found["rope_parameters"] = rope | {"mrope_section": [half - 2 * (half // 3), half // 3, half // 3]}
    return found


def _joined(values: dict[str, Any]) -> None:
    """Lets the vision part give features of the text part's width, where both say it: their defaults may differ."""
    text, vision = values.get("text_config"), values.get("vision_config")
    width = getattr(text, "hidden_size", None)
    if width is None or vision is None:
        return
    if hasattr(vision, "out_hidden_size"):
        vision.out_hidden_size = width
    elif hasattr(vision, "embed_dim") and hasattr(vision, "hidden_size") and hasattr(vision, "spatial_merge_size"):
        vision.hidden_size = width


def _image_sizes(config: Any) -> dict[str, Any]:
    """A smaller image: fewer patches in each direction, by a number that divides them; what counts patches follows."""
    size = _side(config, "image_size")
    if size is None:
        return {}
    patch = _side(config, "patch_size")
    if patch is None or hasattr(config, "depths") or size % patch:
        return {"image_size": _like(config.image_size, max(size // _LARGE_RATIO, 128))} if size > 256 else {}
    return {"image_size": _like(config.image_size, size // _image_ratio(config))}


def _image_ratio(config: Any) -> int:
    size, patch = _side(config, "image_size"), _side(config, "patch_size")
    if size is None or patch is None or hasattr(config, "depths") or size % patch:
        return 1
    return _ratio(size // patch)


def _side(config: Any, name: str) -> int | None:
    """The side of a square that a field says."""
    value = vars(config).get(name)
    if isinstance(value, list | tuple):
        value = value[0] if len(set(value)) == 1 else None
    return value if isinstance(value, int) else None


def _ratio(patches: int) -> int:
    """The largest divisor that leaves at least two patches; eight where there are so many that windows are likely."""
    least = 8 if patches >= 60 else 4 if patches % 4 == 0 else 2
    return max(
        (ratio for ratio in range(1, patches + 1) if patches % ratio == 0 and patches // ratio >= least), default=1
    )


def _like(value: Any, size: int) -> Any:
    return type(value)([size] * len(value)) if isinstance(value, list | tuple) else size
