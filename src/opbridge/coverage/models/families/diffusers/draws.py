"""Inputs of diffusers' models, by the names of their parameters and by their configurations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch

from opbridge.coverage.models.entries import Inputs

__all__ = ["candidates"]

Way = tuple[Callable[..., Inputs], list[str]]
_TIMES = ("timestep", "timesteps", "t", "r_timestep", "timestep_r", "timestep_ratio", "guidance")
_TEXTS = ("encoder_hidden_states", "encoder_hidden_states_t5", "text_bth")
_MASKS = ("encoder_attention_mask", "encoder_mask", "text_embedding_mask")
_SAMPLES = ("sample", "hidden_states", "z", "x")


def candidates(model: Any) -> Iterator[Way]:
    """The ways to give a sample: an image, a video, a sequence of patches, a sound."""
    config = dict(model.config)
    parameters = inspect.signature(model.forward).parameters
    channels = _first(config, ("in_channels", "in_dim", "input_channels", "image_channels", "audio_channels"), 4)
    shapes = {
        ("batch", "height", "width"): lambda s: (s["batch"], channels, 2 * s["height"], 2 * s["width"]),
        ("batch", "frames", "height", "width"): lambda s: (
            s["batch"],
            channels,
            s["frames"],
            2 * s["height"],
            2 * s["width"],
        ),
        ("batch", "height", "width", ""): lambda s: (s["batch"], s["height"] * s["width"] // 4, channels),
        ("batch", "height", "width", "", ""): lambda s: (s["batch"], channels, 16 * s["height"], 16 * s["width"]),
        ("batch", "frames", "height", "width", ""): lambda s: (
            s["batch"],
            s["frames"],
            channels,
            2 * s["height"],
            2 * s["width"],
        ),
        ("batch", "height"): lambda s: (s["batch"], channels, 32 * s["height"]),
    }
    for names, shape in shapes.items():
        yield _way(parameters, config, [name for name in names if name], shape)


def _way(
    parameters: Any, config: dict[str, Any], names: list[str], shape: Callable[[dict[str, int]], tuple[int, ...]]
) -> Way:
    has_text = any(name in parameters for name in _TEXTS)
    sizes = [*names, "sequence"] if has_text else names

    def draw(**given: int) -> Inputs:
        kwargs = {}
        for name, parameter in parameters.items():
            value = _value(name, config, given, shape)
            if value is not None and (parameter.default is parameter.empty or name in _wanted(config)):
                kwargs[name] = value
        return Inputs((), kwargs)

    return draw, sizes


def _wanted(config: dict[str, Any]) -> set[str]:
    """Parameters that models need though they have a default."""
    names = {"timestep", "timesteps", *_TEXTS, "pooled_projections", "img_ids", "txt_ids", "pooled_embeds"}
    names |= {"class_labels"} if config.get("num_embeds_ada_norm") and "caption_channels" not in config else set()
    names |= {"guidance"} if config.get("guidance_embeds") else set()
    names |= {"added_cond_kwargs"} if _has_size_conditions(config) else set()
    return names


def _has_size_conditions(config: dict[str, Any]) -> bool:
    return config.get("addition_embed_type") == "text_time" or "use_additional_conditions" in config


def _value(
    name: str, config: dict[str, Any], given: dict[str, int], shape: Callable[[dict[str, int]], tuple[int, ...]]
) -> Any:
    batch, length = given["batch"], given.get("sequence", 7)
    if name in _SAMPLES:
        return torch.randn(*shape(given))
    if name in _TIMES:
        return torch.randint(1, 900, (batch,)).float() if name != "timestep" else torch.randint(1, 900, (batch,))
    if name in _TEXTS:
        names = (
            "joint_attention_dim",
            "caption_channels",
            "cross_attention_dim",
            "text_embed_dim",
            "text_dim",
            "encoder_hid_dim",
            "cap_feat_dim",
            "context_in_dim",
            "text_in_dim",
        )
        return torch.randn(batch, length, _first(config, names, 64))
    if name in _MASKS:
        return torch.ones(batch, length, dtype=torch.int64)
    if name in ("pooled_projections", "pooled_embeds"):
        return torch.randn(
            batch, _first(config, ("pooled_projection_dim", "pooled_projection_embed_dim", "text_embed_dim"), 64)
        )
    if name == "img_ids":
        rows = torch.arange(given.get("height", 16) // 2)
        columns = torch.arange(given.get("width", 24) // 2)
        places = torch.cartesian_prod(rows, columns).float()
        return torch.cat([places.new_zeros(len(places), _axes(config) - 2), places], 1)
    if name == "txt_ids":
        return torch.zeros(length, _axes(config))
    if name == "controlnet_cond":
        return torch.rand(batch, 3, 16 * given.get("height", 8), 16 * given.get("width", 12))
    if name == "class_labels":
        return torch.randint(0, 10, (batch,))
    if name == "added_cond_kwargs":
        return _conditions(config, batch)
    if name in ("original_size", "target_size", "crop_coords"):
        return torch.tensor([[32.0, 48.0]] * batch)
    return None


def _conditions(config: dict[str, Any], batch: int) -> dict[str, torch.Tensor]:
    if config.get("addition_embed_type") != "text_time":
        return {"resolution": torch.tensor([[32.0, 48.0]] * batch), "aspect_ratio": torch.tensor([[0.6]] * batch)}
    width = config["projection_class_embeddings_input_dim"] - 6 * config["addition_time_embed_dim"]
    return {"text_embeds": torch.randn(batch, width), "time_ids": torch.tensor([[32.0, 48, 0, 0, 32, 48]] * batch)}


def _axes(config: dict[str, Any]) -> int:
    axes = config.get("axes_dims_rope")
    return len(axes) if axes else 3


def _first(config: dict[str, Any], names: tuple[str, ...], default: int) -> int:
    for name in names:
        value = config.get(name)
        if isinstance(value, list | tuple) and value:
            value = value[0]
        if isinstance(value, int):
            return value
    return default
