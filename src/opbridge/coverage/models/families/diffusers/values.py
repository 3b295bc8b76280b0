"""What diffusers' models are given, by the name of the parameter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["VALUES", "Given", "first", "is_text", "optional_parameters"]


@dataclass(frozen=True)
class Given:
    """What inputs are drawn for.

    Attributes:
        config: The model's configuration.
        sizes: The sizes, by name.
        shape: The shape of the sample.
        unit: What a height is a multiple of.
    """

    config: Mapping[str, Any]
    sizes: Mapping[str, int]
    shape: tuple[int, ...]
    unit: int

    @property
    def batch(self) -> int:
        return self.sizes["batch"]

    @property
    def length(self) -> int:
        """Of a text."""
        return self.sizes.get("sequence", 7)

    @property
    def frames(self) -> int:
        return self.sizes.get("frames", 1)

    @property
    def grid(self) -> tuple[int, int]:
        """The rows and columns of patches."""
        return self.sizes.get("height", 4), self.sizes.get("width", 6)

    def width(self, *names: str, default: int = 64) -> int:
        """A number that the configuration has under one of these names."""
        return first(self.config, names, default)


def first(config: Mapping[str, Any], names: tuple[str, ...], default: int, last: bool = False) -> int:
    """The first of some settings that is a number, or has a number as its first or last part."""
    for name in names:
        value = config.get(name)
        if isinstance(value, list | tuple) and value:
            value = value[-1 if last else 0]
        if isinstance(value, int):
            return value
    return default


_TEXTS = (
    "encoder_hidden_states", "encoder_hidden_states_llama3", "text_bth", "input_ids", "encodings_and_masks",
    "cap_feats",
)  # fmt: skip


def is_text(name: str) -> bool:
    """Whether a parameter is a text, or a mask of one."""
    return name in _TEXTS


def optional_parameters(config: Mapping[str, Any]) -> set[str]:
    """Parameters that models need though they have a default."""
    names = {
        *("timestep", "timesteps", "encoder_hidden_states", "encoder_hidden_states_t5", "pooled_projections"),
        *("img_ids", "txt_ids", "pooled_embeds", "encoder_hidden_states_llama3", "text_encoder_layers"),
        *("num_frames", "height", "width", "img_shapes", "audio_num_frames", "global_hidden_states", "ofs"),
        *("rotary_embedding", "text_embedding_mask", "text_embedding_mask_t5", "image_meta_size", "style"),
        *("image_embeddings", "control_hidden_states", "padding_mask", "fps", "motion_pixels"),
        *("encoder_hidden_states_2", "encoder_attention_mask_2", "image_embeds", "inpaint_latents"),
        *("latents_clean", "indices_latents_clean", "latents_history_2x", "indices_latents_history_2x"),
        *("latents_history_4x", "indices_latents_history_4x", "cross_attention_kwargs"),
        *(
            "conditioning_mask",
            "pose_hidden_states",
            "face_pixel_values",
            "encoder_hidden_states_image",
            "encoder_hidden_states_mask",
        ),
    }
    names |= {"encoder_attention_mask"} if "groups" in config or "gist_step" in config else set()
    names |= {"class_labels"} if config.get("num_embeds_ada_norm") and "caption_channels" not in config else set()
    names |= {"guidance"} if config.get("guidance_embeds") else set()
    names |= {"added_cond_kwargs"} if _has_size_conditions(config) else set()
    names |= (
        {"image_rotary_emb"} if "text_len_t5" in config or config.get("use_rotary_positional_embeddings") else set()
    )
    names |= {"controlnet_cond"} if "ctrl_block_out_channels" in config else set()
    names -= {"num_frames"} if "double_self_attention" in config or "up_block_types" in config else set()
    names -= {"encoder_hidden_states"} if config.get("double_self_attention") else set()
    return names


def _has_size_conditions(config: Mapping[str, Any]) -> bool:
    return config.get("addition_embed_type") == "text_time" or "use_additional_conditions" in config


def _times(given: Given) -> torch.Tensor:
    """One time for a batch's element; for each of its frames where the model takes them so."""
    shape = (given.batch, given.frames) if "deltatime_type" in given.config else (given.batch,)
    return torch.randint(1, 900, shape).float()


_TEXT_WIDTHS = (
    "joint_attention_dim", "caption_channels", "encoder_hid_dim", "text_embed_dim", "text_dim", "cap_feat_dim",
    "context_in_dim", "text_in_dim", "in_text_dim", "cross_attention_input_dim", "cond_token_dim", "llm_features_dim",
    "dit_text_dim", "condition_dim", "text_hidden_dim", "encoder_hidden_size", "embedding_dim",
    "cross_attention_dim",
)  # fmt: skip


def _text(given: Given) -> torch.Tensor:
    width = given.width(*_TEXT_WIDTHS)
    if "num_text_layers" in given.config:
        return torch.randn(given.batch, given.length, given.config["num_text_layers"], width)
    if "rotary_dim" in given.config:
        return torch.randn(given.batch, given.shape[-1], width)
    if "llm_features_dim" in given.config:  # of all tokens, those of the image as well
        return torch.randn(given.batch, given.shape[1], width)
    if "injection_layer_ids" in given.config:
        return torch.randn(given.batch, 1 + len(given.config["injection_layer_ids"]), given.length, width)
    # AnimateDiff's pipelines repeat the text for each frame.
    batch = given.batch * given.frames if "motion_max_seq_length" in given.config else given.batch
    length = given.config.get("num_embeddings") or given.config.get("text_len") or given.length
    return torch.randn(batch, length, width)


def _ones(given: Given) -> torch.Tensor:
    return torch.ones(given.batch, given.config.get("text_len") or given.length, dtype=torch.int64)


def _mask(given: Given) -> torch.Tensor:
    mask = _ones(given)
    return mask.bool() if given.config.keys() & {"dit_dim", "num_vae_channels", "gist_step"} else mask


def _pooled(given: Given) -> torch.Tensor:
    names = ("pooled_projection_dim", "pooled_projection_embed_dim", "text_emb_dim", "in_text_dim2", "text_embed_dim")
    return torch.randn(given.batch, given.width(*names))


def _axes(given: Given) -> int:
    return len(given.config.get("axes_dims_rope") or "") or 3


def _places(given: Given, axes: int) -> torch.Tensor:
    rows, columns = (torch.arange(size) for size in given.grid)
    places = torch.cartesian_prod(rows, columns).float()
    return torch.cat([places.new_zeros(len(places), axes - 2), places], 1)


def _positions(given: Given) -> torch.Tensor:
    """Of a text and the patches after it."""
    if "time_step_dim" in given.config:
        return torch.arange(_length_of_all(given)).expand(given.batch, -1)
    if "llm_features_dim" in given.config:
        return torch.arange(given.shape[1]).reshape(1, -1, 1).repeat(given.batch, 1, 3)
    text = torch.arange(given.length).float().unsqueeze(1).expand(-1, 3)
    return torch.cat([text, _places(given, 3)])


def _length_of_all(given: Given) -> int:
    """Of a text, a token for the time, and the patches."""
    return given.length + 1 + given.shape[-1] * given.shape[-2] // given.width("patch_size", default=2) ** 2


def _rotary(given: Given) -> tuple[torch.Tensor, torch.Tensor] | torch.Tensor:
    height, width = (size // given.width("patch_size", default=2) for size in given.shape[-2:])
    head = given.width("attention_head_dim")
    frames = given.frames if "temporal_compression_ratio" in given.config else 1
    angles = torch.randn(frames * height * width, head)
    return angles.cos(), angles.sin()


def _lumina_rotary(given: Given) -> torch.Tensor:
    head = given.config["hidden_size"] // given.config["num_attention_heads"]
    angles = torch.randn(384, 384, head // 2)
    return torch.polar(torch.ones_like(angles), angles)


def _image_rotary(given: Given) -> Any:
    return _lumina_rotary(given) if "ffn_dim_multiplier" in given.config else _rotary(given)


def _sound_rotary(given: Given) -> tuple[torch.Tensor, torch.Tensor]:
    angles = torch.randn(given.shape[-1] + 1, given.config["attention_head_dim"] // 2)
    return angles.cos(), angles.sin()


def _control(given: Given) -> Any:
    """The image that controls: of the size of what is made where a network makes it smaller itself."""
    if "num_control_type" in given.config:
        return [torch.rand(given.batch, 3, 8 * given.shape[-2], 8 * given.shape[-1])]
    if "conditioning_embedding_out_channels" in given.config and "axes_dims_rope" not in given.config:
        channels = given.width("conditioning_channels", default=3)
        if "concat_conditioning_mask" in given.config:
            return torch.rand(given.batch, channels, *given.shape[2:])
        return torch.rand(given.batch, channels, 8 * given.shape[-2], 8 * given.shape[-1])
    if "ctrl_block_out_channels" in given.config:
        return torch.rand(given.batch, 3, 8 * given.shape[-2], 8 * given.shape[-1])
    return torch.randn(given.shape)


def _conditions(given: Given) -> dict[str, torch.Tensor]:
    config, batch = given.config, given.batch
    if config.get("addition_embed_type") != "text_time":
        return {"resolution": torch.tensor([[32.0, 48.0]] * batch), "aspect_ratio": torch.tensor([[0.6]] * batch)}
    width = config["projection_class_embeddings_input_dim"] - 6 * config["addition_time_embed_dim"]
    return {"text_embeds": torch.randn(batch, width), "time_ids": torch.tensor([[32.0, 48, 0, 0, 32, 48]] * batch)}


def _image_shapes(given: Given) -> list[Any]:
    shape = (1, *given.grid)
    return [shape]


def _sizes(given: Given) -> torch.Tensor:
    return torch.tensor([[32.0, 48.0]] * given.batch)


def _prior_tokens(given: Given) -> torch.Tensor:
    height, width = (size // given.width("patch_size", default=2) for size in given.shape[-2:])
    return torch.randint(0, given.config["prior_vq_quantizer_codebook_size"], (given.batch, height * width))


def _grid_part(part: int) -> Callable[[Given], int]:
    return lambda given: given.grid[part]


def _visual_places(given: Given) -> list[torch.Tensor]:
    patches = given.config["patch_size"]
    return [torch.arange(size // patch) for size, patch in zip(given.shape[2:], patches, strict=False)]


def _visual_sample(given: Given) -> torch.Tensor:
    """The sample, with its channels last where the model has them there."""
    sample = torch.randn(given.shape)
    is_last = "in_visual_dim" in given.config and sample.dim() == 5
    return sample.movedim(1, -1).contiguous() if is_last else sample


def _image_embeds(given: Given) -> torch.Tensor | None:
    width = first(given.config, ("image_embed_dim", "image_proj_dim"), 0)
    return torch.randn(given.batch, 5, width) if width else None


def _t5_text(given: Given) -> torch.Tensor | None:
    if "text_embed_dim_t5" in given.config and given.config["text_embed_dim_t5"] is None:
        return None
    width = given.width("cross_attention_dim_t5", "caption_channels", "text_embed_dim_t5")
    return torch.randn(given.batch, given.config.get("text_len_t5") or given.length, width)


def _sound_length(given: Given) -> int:
    """The frames of the sound of a video."""
    return 2 * given.frames + 1


def _history(frames: int) -> Callable[[Given], torch.Tensor | None]:
    """So many frames that were made before."""
    return lambda given: (
        torch.randn(*given.shape[:2], frames, *given.shape[3:]) if given.config.get("has_clean_x_embedder") else None
    )


def _history_places(start: int, frames: int) -> Callable[[Given], torch.Tensor | None]:
    return lambda given: torch.arange(start, start + frames) if given.config.get("has_clean_x_embedder") else None


_STYLE = "use_style_cond_and_image_meta_size"

VALUES: Mapping[str, Callable[[Given], Any]] = {
    **dict.fromkeys(("sample", "hidden_states", "z"), _visual_sample),
    **dict.fromkeys(("timestep_ratio", "timestep_r", "r_timestep", "t", "timesteps", "guidance"), _times),
    "timestep": lambda given: _times(given) if _wants_float(given.config) else _times(given).long(),
    **dict.fromkeys(("encoder_hidden_states", "text_bth"), _text),
    "encoder_hidden_states_t5": _t5_text,
    "encoder_hidden_states_llama3": lambda given: torch.randn(
        len(given.config["llama_layers"]), given.batch, given.length, given.width("caption_channels")
    ),
    "encoder_hidden_states_2": lambda given: (
        torch.randn(given.batch, 6, given.width("text_embed_2_dim")) if given.config.get("text_embed_2_dim") else None
    ),
    "encoder_attention_mask_2": lambda given: (
        torch.ones(given.batch, 6, dtype=torch.int64) if given.config.get("text_embed_2_dim") else None
    ),
    "image_embeds": _image_embeds,
    "image_embeddings": lambda given: torch.randn(given.batch, given.width("cross_attention_dim")),
    "image_latents": lambda given: torch.randn(given.shape),
    "fps": lambda given: torch.full((given.batch,), 8) if "down_block_types" in given.config else None,
    **dict.fromkeys(("encoder_attention_mask", "encoder_mask", "text_embedding_mask"), _mask),
    "text_embedding_mask_t5": lambda given: torch.ones(given.batch, given.config["text_len_t5"], dtype=torch.int64),
    **dict.fromkeys(("pooled_projections", "pooled_embeds"), _pooled),
    "text_encoder_layers": lambda given: [
        torch.randn(given.batch, given.length, given.config["text_encoder_dim"])
        for _ in range(given.config["num_layers"] + given.config["num_single_layers"])
    ],
    # HiDream's finds the places itself.
    "img_ids": lambda given: None if "llama_layers" in given.config else _places(given, _axes(given)),
    "txt_ids": lambda given: torch.zeros(given.length, _axes(given)),
    "position_ids": _positions,
    "attention_mask": lambda given: torch.ones(given.batch, _length_of_all(given), _length_of_all(given)),
    "input_img_latents": lambda given: [],
    "input_image_sizes": lambda given: {},
    "controlnet_cond": _control,
    "control_type": lambda given: torch.ones(given.batch, given.config["num_control_type"]),
    "control_type_idx": lambda given: [0],
    "class_labels": lambda given: torch.randint(0, 10, (given.batch,)),
    "added_cond_kwargs": _conditions,
    "added_time_ids": lambda given: torch.tensor([[6.0, 127.0, 0.02]] * given.batch),
    **dict.fromkeys(("original_size", "target_size", "crop_coords"), _sizes),
    "img_shapes": _image_shapes,
    "num_frames": lambda given: given.frames,
    "height": _grid_part(0),
    "width": _grid_part(1),
    "global_hidden_states": lambda given: torch.randn(
        *((given.batch, 1) if "global_states_input_dim" in given.config else (given.batch,)),
        given.width("global_states_input_dim", "global_cond_dim"),
    ),
    "rotary_embedding": _sound_rotary,
    "image_rotary_emb": _image_rotary,
    "image_meta_size": lambda given: (
        torch.tensor([[32.0, 48, 32, 48, 0, 0]] * given.batch) if given.config.get(_STYLE) else None
    ),
    "style": lambda given: torch.zeros(given.batch, dtype=torch.int64) if given.config.get(_STYLE) else None,
    "clip_text_pooled": lambda given: torch.randn(given.batch, 1, given.config["clip_text_pooled_in_channels"]),
    "pooled_text_emb": lambda given: torch.randn(given.batch, given.config["cond_embed_dim"]),
    "micro_conds": lambda given: torch.rand(given.batch, 5),
    "input_ids": lambda given: (
        torch.randint(0, given.config.get("codebook_size", 32), (given.batch, *given.grid))
        if "codebook_size" in given.config
        else torch.randint(1, given.config["vocab_size"], (given.batch, given.length))
    ),
    "proj_embedding": lambda given: torch.randn(given.batch, given.config["embedding_dim"]),
    "inputs_embeds": lambda given: torch.randn(given.batch, given.length, given.config["hidden_size"]),
    "context_latents": lambda given: (
        torch.randn(
            given.batch, given.shape[1], given.config["in_channels"] - given.config["audio_acoustic_hidden_dim"]
        )
        if "audio_acoustic_hidden_dim" in given.config
        else None
    ),
    "encodings_and_masks": lambda given: [
        (torch.randn(given.batch, given.length, given.config["d_model"]), torch.ones(given.batch, given.length))
    ],
    "decoder_input_tokens": lambda given: torch.randn(
        given.batch, given.config["targets_length"], given.config["input_dims"]
    ),
    "decoder_noise_time": lambda given: torch.rand(given.batch),
    "text_lens": lambda given: torch.full((given.batch,), given.length),
    "prior_token_id": _prior_tokens,
    "prior_token_drop": lambda given: torch.zeros(given.batch, given.shape[-1] * given.shape[-2] // 4).bool(),
    "visual_rope_pos": _visual_places,
    "text_rope_pos": lambda given: torch.arange(given.length),
    # Two masks come to the latents of a control network.
    "latents": lambda given: (
        torch.randn(given.batch, given.config["latent_channels"] - 2, *given.shape[2:])
        if "n_controlnet_blocks" in given.config
        else torch.randn(given.shape)
    ),
    "mel": lambda given: torch.randn(given.shape),
    "control_hidden_states": lambda given: (
        torch.randn(given.batch, given.config["vace_in_channels"], *given.shape[2:])
        if "vace_in_channels" in given.config
        else None
    ),
    "padding_mask": lambda given: (
        torch.zeros(1, 1, *given.shape[-2:])
        if given.config.get("concat_padding_mask") or "n_controlnet_blocks" in given.config
        else None
    ),
    "audio_hidden_states": lambda given: torch.randn(
        given.batch, _sound_length(given), given.config["audio_in_channels"]
    ),
    "audio_encoder_hidden_states": _text,
    "audio_num_frames": lambda given: _sound_length(given) if "audio_in_channels" in given.config else None,
    "indices_latents": lambda given: torch.arange(given.frames) + 22,
    "latents_clean": _history(2),
    "indices_latents_clean": _history_places(20, 2),
    "latents_history_2x": _history(2),
    "indices_latents_history_2x": _history_places(18, 2),
    "latents_history_4x": _history(16),
    "indices_latents_history_4x": _history_places(2, 16),
    "pose_hidden_states": lambda given: (
        torch.randn(given.batch, given.config["latent_channels"], given.frames - 1, *given.shape[3:])
        if "motion_encoder_size" in given.config
        else None
    ),
    "face_pixel_values": lambda given: (
        torch.randn(given.batch, 3, 4 * (given.frames - 2) + 1, *[given.config["motion_encoder_size"]] * 2)
        if "motion_encoder_size" in given.config
        else None
    ),
    "x": lambda given: [torch.randn(given.shape[1], 1, *given.shape[2:]) for _ in range(given.batch)],
    "cap_feats": lambda given: [torch.randn(given.length, given.width(*_TEXT_WIDTHS)) for _ in range(given.batch)],
    "cross_attention_kwargs": lambda given: {} if "ffn_dim_multiplier" in given.config else None,
    "segment_ids": lambda given: torch.ones(given.batch, given.shape[1], dtype=torch.int64),
    "indicator": lambda given: torch.randint(2, 4, (given.batch, given.shape[1])),
    "controls_latents": lambda given: torch.randn(given.batch, 4, *given.shape[2:]),
    "conditioning_mask": lambda given: (
        torch.ones(given.batch, 1, *given.shape[2:]) if given.config.get("concat_conditioning_mask") else None
    ),
    "condition_mask": lambda given: (
        torch.zeros(given.batch, 1, *given.shape[2:])
        if "controls_latents" in given.config or "n_controlnet_blocks" in given.config
        else None
    ),
}
"""By the name of a parameter; None: the model does without it."""


_TIMED = (
    "rotary_dim", "dit_dim", "rope_axes_dim", "axes_dims", "io_channels", "in_visual_dim", "text_len_t5",
    "audio_acoustic_hidden_dim", "llm_features_dim",
)  # fmt: skip


def _wants_float(config: Mapping[str, Any]) -> bool:
    """Whether the time goes into arithmetic as it is."""
    return any(name in config for name in _TIMED)
