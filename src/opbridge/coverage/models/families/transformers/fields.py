"""What the fields of transformers' configurations are, by their names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

__all__ = [
    "DEPTHS",
    "FIXED_LAYERS",
    "IMAGE_TOKENS",
    "LAYERS",
    "LIMITS",
    "LISTED",
    "PICTURE_WORDS",
    "PLAIN_TOKENS",
    "SECTIONS",
    "SKIPPED",
    "TOKEN",
    "VOCABULARY",
    "configs",
    "is_config",
    "is_derived",
    "is_index",
    "is_width",
]

VOCABULARY = 256
PICTURE_WORDS = 64
"""How many words there are for parts of pictures."""
PLAIN_TOKENS = 128
"""Ids of special tokens from here on are mapped, to those between this and the vocabulary's size."""

SKIPPED = re.compile(
    r"^_|^(id2label|label2id|architectures|transformers_version|dtype|torch_dtype|model_type|ignore_keys_at_rope_validation)$"
)
TOKEN = re.compile(
    r"(token|pad|bos|eos|cls|sep|sot|blank|unk|mask|start|end|newline)_(id|ids|index)$"
    r"|^(begin_suppress_tokens|suppress_tokens|decoder_fixing_codes|vocab_offset|langs?_ids?)$"
)
LAYERS = re.compile(r"(^|_)layers?$|^depth$|^n_layers?$|(^|_)depth$|^num_blocks$")
FIXED_LAYERS = re.compile(
    r"feat_extract_layers|vision_feature_layer|first_k_dense|upsampling|conditional_layer|spatial_vision|insert_layer"
)
DEPTHS = re.compile(r"^depths$|^depth$|num_block_repeats|^layers$|stage_num_blocks|^block_sizes$|stage_numb_of_layers")
_WIDTH = re.compile(
    r"hidden_sizes?|hidden_dim|(^|_)dims?($|_)|d_model|(^|_)d_(ff|kv|inner|head|embed)$|^dff$|n_embd|n_inner|channels?($|_size|_list)"
    r"|intermediate_size|embedding_size|embed_dims?|proj(ection|ector)?_size|_rank$|ffn|num_filters|units$"
    r"|output_size|bottleneck_features|adapter_(in|input|out|output)_(size|dim)|coordinate_size|shape_size|width$|upsample_groups|num_pos_feats|inner_size|feedforward"
    r"|head_(size|dim)|mixer_size|key_dim|word_embed|descriptor|^conv_out|out_features$|merged_hidden|encoder_sizes"
)
_NOT_WIDTH = re.compile(
    r"^num_channels|audio_channels|in_chans$|kernel|^num_hidden|mult$|ratio|vocab|expan|act$|_fn$|patch_dim$|act_dim|state_dim|visual_pos_dim|activation|multiplier|groups?_dim|freq_dim$|model_in_dim|(?<!projector_)input_dim$|keypoint_decoder_dim|pos_emb_width|subsampling_conv_channels"
)
_INDEX = re.compile(r"ind(ex|ices|exes)$|idxs?$|layers?$|layer_ids$|blocks$|hook_ids$")
SECTIONS = re.compile(r"mrope_section|rope_section")
IMAGE_TOKENS = re.compile(r"mm_tokens_per_image|num_image_tokens|image_seq_length|vision_soft_tokens|image_embed_len")
LISTED = {"block_configs", "stage_configs", "resnet_configs", "width_coefficient"}
"""Fields of models whose blocks have widths that no name says are ones, or that the code says."""
LIMITS = (
    (re.compile(r"^num_embeddings$"), PICTURE_WORDS),
    (re.compile(r"vocab|codebook_size|^num_embeds$"), VOCABULARY),
    (re.compile(r"max_2d_position|xpath|max_depth|max_ep_len"), 1024),
    (
        re.compile(
            r"max_.*position|^n_positions$|^n_ctx$|max_seq|^max_length$|context_length|max_(source|target)_pos|seq_length"
        ),
        128,
    ),
    (
        re.compile(
            r"^sliding_window(_size)?$|attention_chunk_size|^(mamba_|ssm_)?chunk_size$|^local_attention$|^attention_window$"
        ),
        8,
    ),
    (re.compile(r"experts_per_tok|moe_(top_?)?k$|^top_k|experts_top_k|moe_topk|n_shared_experts"), 2),
    (re.compile(r"^merge_index$"), 0),
    (re.compile(r"^num_frames$"), 8),
    (re.compile(r"^n_group$|^topk_group$|num_expert_group"), 1),
    (re.compile(r"num_.*experts$|n_routed_experts|num_experts|zero_expert_num"), 4),
    (re.compile(r"^latent_query_num$"), 4),
    (re.compile(r"^num_queries$|two_stage_num_proposals|num_proposals"), 12),
    (re.compile(r"num_labels$|num_qa_labels|num_object_labels|num_attr_labels|num_classes"), 10),
)


def is_config(value: Any) -> bool:
    return hasattr(value, "model_type") and hasattr(value, "to_dict")


def configs(config: Any) -> Iterator[Any]:
    yield config
    for value in vars(config).values():
        if is_config(value):
            yield from configs(value)


def is_width(name: str) -> bool:
    return bool(_WIDTH.search(name)) and not _NOT_WIDTH.search(name)


def is_index(name: str) -> bool:
    return bool(_INDEX.search(name)) and not is_width(name) and not TOKEN.search(name)


def is_derived(config: Any, name: str, value: Any) -> bool:
    """Whether the configuration makes this list itself where none is given, from the number of its layers."""
    default = getattr(type(config), name, 0)
    return (
        default is None
        and name not in LISTED
        and isinstance(value, list | tuple)
        and not name.endswith(("layer_types", "feature_sizes", "out_indices", "layers_indices"))
        and not is_width(name)
    )
