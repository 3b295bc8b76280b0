"""Inputs of models that read text with pictures in it: as many tokens of a picture as it has features."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from opbridge.coverage.models.entries import Inputs
from opbridge.coverage.models.families.transformers.draws import SIZES
from opbridge.coverage.models.families.transformers.draws_of_images import (
    channels,
    fixed_image,
    grid,
    grid_shapes,
    patch_images,
    patch_mask,
    patch_rows,
    patches,
    tile_shape,
)
from opbridge.coverage.models.families.transformers.facts import Facts
from opbridge.coverage.models.varying import Size

__all__ = ["reads", "ways"]

Pictures = Callable[[int], dict[str, torch.Tensor]]
"""What stands for one picture a text, for a batch of texts."""


_WORDS = ("image_token_id", "image_token_index", "media_placeholder_token_id", "img_context_token_id")
"""Fields that say the token that stands for a picture."""


def reads(facts: Facts) -> bool:
    """Whether a model reads pictures in a text."""
    return {"input_ids", "pixel_values"} <= set(facts.parameters) and isinstance(facts.value(*_WORDS), int)


def ways(facts: Facts) -> Iterator[tuple[Callable[..., Inputs], dict[str, Size]]]:
    """The ways to give a picture with each text, where the model has a token that stands for one."""
    if not reads(facts):
        return
    token = facts.value(*_WORDS)
    sizes = {name: SIZES[name] for name in ("batch", "sequence")}
    for pictures in _pictures(facts):
        count = _count(facts, pictures)
        if count:
            yield _draw(facts, pictures, token, count), sizes


def _pictures(facts: Facts) -> Iterator[Pictures]:
    height, width = fixed_image(facts) or (64, 64)
    shape = (channels(facts), height, width)
    if "image_grid_thw" in facts.parameters:
        yield lambda batch: {
            "pixel_values": patches(facts, batch),
            "image_grid_thw": grid(facts, batch),
        }
        yield lambda batch: {"pixel_values": patch_images(facts, batch), "image_grid_thw": grid(facts, batch)}
        return
    if "spatial_shapes" in facts.parameters:
        yield lambda batch: {
            "pixel_values": patch_rows(facts, batch),
            "spatial_shapes": grid_shapes(facts, batch),
            "pixel_attention_mask": patch_mask(facts, batch),
        }
    if "pixel_attention_mask" in facts.parameters:
        yield lambda batch: {
            "pixel_values": torch.randn(batch, 1, *shape),
            "pixel_attention_mask": tile_shape(facts, batch),
        }
    if "image_sizes" in facts.parameters:
        yield lambda batch: {
            "pixel_values": torch.randn(batch, 3, *shape),
            "image_sizes": torch.tensor([[height, 2 * width]] * batch),
        }
        yield lambda batch: {
            "pixel_values": torch.randn(batch, *shape),
            "image_sizes": torch.tensor([[height, width]] * batch),
        }
        yield lambda batch: {
            "pixel_values": torch.randn(batch, 10, *shape),  # a whole, and three by three parts
            "image_sizes": torch.tensor([[height, width]] * batch),
        }
    yield lambda batch: {"pixel_values": torch.randn(batch, *shape)}
    yield lambda batch: {"pixel_values": torch.randn(batch, 1, *shape)}
    yield lambda batch: {"pixel_values": patch_rows(facts, batch)}
    if "qformer_input_ids" in facts.parameters:
        frames = facts.value("num_frames", default=4)
        yield lambda batch: {
            "pixel_values": torch.randn(batch, *shape),
            "qformer_input_ids": facts.tokens(batch, 6),
        }
        yield lambda batch: {
            "pixel_values": torch.randn(batch, frames, *shape),
            "qformer_input_ids": facts.tokens(batch, 6),
        }


def _count(facts: Facts, pictures: Pictures) -> int:
    """The number of features that the model makes of one picture; 0 where it does not take it in this form."""
    features = getattr(facts.model, "get_image_features", None) or getattr(
        facts.model.base_model, "get_image_features", None
    )
    if features is None:
        return 0
    try:
        with torch.no_grad():
            found = features(**pictures(1))
    except Exception:  # not in this form
        return 0
    found = getattr(found, "pooler_output", found)
    parts = found if isinstance(found, list | tuple) else [found]
    return sum(part.numel() // part.shape[-1] for part in parts if isinstance(part, torch.Tensor))


def _draw(facts: Facts, pictures: Pictures, token: int, count: int) -> Callable[..., Inputs]:
    def draw(batch: int, sequence: int) -> Inputs:
        start = torch.full((batch, count), token)
        kwargs: dict[str, Any] = {
            "input_ids": torch.cat([facts.tokens(batch, 1), start, facts.tokens(batch, sequence - 1)], 1),
            "attention_mask": torch.ones(batch, count + sequence, dtype=torch.int64),
        }
        kwargs |= pictures(batch)
        if "mm_token_type_ids" in facts.parameters:
            kwargs["mm_token_type_ids"] = (kwargs["input_ids"] == token).long()
        if "token_type_ids" in facts.parameters:
            kwargs["token_type_ids"] = (kwargs["input_ids"] == token).long()
        if facts.config.is_encoder_decoder and "decoder_input_ids" in facts.parameters:
            kwargs["decoder_input_ids"] = facts.tokens(batch, 6)
        return Inputs((), {name: value for name, value in kwargs.items() if name in facts.parameters})

    return draw
