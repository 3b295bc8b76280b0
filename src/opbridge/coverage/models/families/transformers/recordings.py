"""Inputs of models that read text with sounds in it: as many tokens of a sound as it has features."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from opbridge.coverage.models.entries import Inputs
from opbridge.coverage.models.families.transformers import draws_of_sounds as sounds
from opbridge.coverage.models.families.transformers.draws import SIZES
from opbridge.coverage.models.families.transformers.facts import Facts
from opbridge.coverage.models.varying import Size

__all__ = ["reads", "ways"]

Recordings = Callable[[int], dict[str, torch.Tensor]]
"""What stands for one sound a text, for a batch of texts."""

_FRAMES = 96


_WORDS = ("audio_token_id", "audio_token_index")
"""Fields that say the token that stands for a sound."""


def reads(facts: Facts) -> bool:
    """Whether a model reads sounds in a text."""
    return {"input_ids", "input_features"} <= set(facts.parameters) and isinstance(facts.value(*_WORDS), int)


def ways(facts: Facts) -> Iterator[tuple[Callable[..., Inputs], dict[str, Size]]]:
    """The ways to give a sound with each text, where the model has a token that stands for one."""
    if not reads(facts):
        return
    token = facts.value(*_WORDS)
    for recordings in _recordings(facts):
        count = _count(facts, recordings)
        if count:
            yield _draw(facts, recordings, token, count), {name: SIZES[name] for name in ("batch", "sequence")}


def _recordings(facts: Facts) -> Iterator[Recordings]:
    window = facts.value("n_window", part="audio")
    frames = 4 * window if isinstance(window, int) else _FRAMES
    drawn: tuple[Recordings, ...] = (
        lambda batch: {"input_features": sounds.frames_last(facts, batch, frames)},
        lambda batch: {"input_features": sounds.all_frames(facts, batch)},
        lambda batch: {"input_features": sounds.frames(facts, batch, frames)},
        lambda batch: {"input_features": sounds.stacked_frames(facts, batch, frames)},
    )
    for draw in drawn:
        for along in (-1, 1):
            yield _masked(facts, draw, along)


def _masked(facts: Facts, draw: Recordings, along: int) -> Recordings:
    """With the mask of the frames that the model takes, by either of its names."""

    def made(batch: int) -> dict[str, torch.Tensor]:
        found = draw(batch)
        for name in ("input_features_mask", "feature_attention_mask"):
            if name in facts.parameters:
                frames = found["input_features"].shape[along]
                found[name] = torch.ones(batch, frames, dtype=torch.bool if name.endswith("features_mask") else None)
        return found

    return made


def _count(facts: Facts, recordings: Recordings) -> int:
    """The number of features that the model makes of one sound; 0 where it does not take it in this form."""
    features = getattr(facts.model, "get_audio_features", None) or getattr(
        facts.model.base_model, "get_audio_features", None
    )
    given = recordings(1)
    if features is None:
        return _length(facts, given["input_features"])
    for kept in (given, {"input_features": given["input_features"]}):
        try:
            with torch.no_grad():
                found = features(**kept)
        except Exception:  # not in this form
            continue
        found = getattr(found, "pooler_output", found)
        parts = found if isinstance(found, list | tuple) else [found]
        return sum(part.numel() // part.shape[-1] for part in parts if isinstance(part, torch.Tensor))
    return 0


def _length(facts: Facts, features: torch.Tensor) -> int:
    """The number of features as the model's part for sounds says it."""
    parts = (getattr(model, "audio_tower", None) for model in (facts.model, facts.model.base_model))
    lengths = next((part._get_feat_extract_output_lengths for part in parts if part is not None), None)
    return int(lengths(torch.tensor([features.shape[-1]]))[-1]) if lengths else 0


def _draw(facts: Facts, recordings: Recordings, token: int, count: int) -> Callable[..., Inputs]:
    def draw(batch: int, sequence: int) -> Inputs:
        start = torch.full((batch, count), token)
        kwargs: dict[str, Any] = {
            "input_ids": torch.cat([facts.tokens(batch, 1), start, facts.tokens(batch, sequence - 1)], 1),
            "attention_mask": torch.ones(batch, count + sequence, dtype=torch.int64),
        }
        return Inputs((), kwargs | recordings(batch))

    return draw
