"""Tensors for parameters of transformers' models, by the parameter's name and the sizes that are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from opbridge.coverage.models.families.transformers.facts import Facts
from opbridge.coverage.models.varying import Size

__all__ = ["DRAWS", "SIZES", "sizes_of"]

SIZES = {
    "batch": Size(2, (1, 3)),
    "sequence": Size(10, (7, 13)),
    "decoder_sequence": Size(6, (9, 4)),
    "height": Size(192, (256, 160)),
    "width": Size(160, (224, 192)),
    "samples": Size(6400, (8000, 4800)),
    "frames": Size(96, (128, 64)),
}
"""The sizes that users of these models vary. Heights and widths are multiples of 32, lengths of features of 32."""

GRID = (4, 6)
"""Rows and columns of patches of an image that is given as its patches."""

Draw = Callable[..., Any]


def _tokens(facts: Facts, batch: int, sequence: int) -> torch.Tensor:
    return facts.tokens(batch, sequence)


def _mask(facts: Facts, batch: int, sequence: int) -> torch.Tensor:
    """Of a batch of texts the first of which is shorter: padded at its end."""
    mask = torch.ones(batch, sequence, dtype=torch.int64)
    if batch > 1:
        mask[0, sequence - 2 :] = 0
    return mask


def _decoder_tokens(facts: Facts, batch: int, decoder_sequence: int) -> torch.Tensor:
    vocabulary = facts.value("decoder_vocab_size", "tgt_vocab_size", "t2u_vocab_size", "vocab_size", part="decoder")
    return facts.tokens(batch, decoder_sequence, vocabulary=vocabulary)


def _boxes(facts: Facts, batch: int, sequence: int) -> torch.Tensor:
    """Boxes of words on a page of 1000 by 1000: left, top, right, bottom."""
    corner = torch.randint(0, 500, (batch, sequence, 2))
    return torch.cat([corner, corner + torch.randint(1, 400, (batch, sequence, 2))], 2)


def _image(facts: Facts, batch: int, height: int, width: int) -> torch.Tensor:
    return torch.randn(batch, channels(facts), height, width)


def _video(facts: Facts, batch: int) -> torch.Tensor:
    height, width = fixed_image(facts) or (64, 64)
    frames = facts.value("num_frames", "frames_per_clip", default=4)
    return torch.randn(batch, frames, channels(facts), height, width)


def _pictures(facts: Facts, batch: int) -> torch.Tensor:
    """One image for each text, along a dimension of their own."""
    return torch.randn(batch, 1, channels(facts), *(fixed_image(facts) or (64, 64)))


def _features(facts: Facts, batch: int, sequence: int) -> torch.Tensor:
    return torch.randn(batch, sequence, facts.value("d_model", "hidden_size"))


def _samples(facts: Facts, batch: int, samples: int) -> torch.Tensor:
    return torch.randn(batch, samples)


def _channel_samples(facts: Facts, batch: int, samples: int) -> torch.Tensor:
    return torch.randn(batch, facts.value("audio_channels", "channels", default=1), samples)


def _frames(facts: Facts, batch: int, frames: int) -> torch.Tensor:
    return torch.randn(batch, frames, bins(facts))


def _frames_last(facts: Facts, batch: int, frames: int) -> torch.Tensor:
    return torch.randn(batch, bins(facts), frames)


def _grid(facts: Facts, batch: int) -> torch.Tensor:
    """Frames, rows and columns of patches of each image."""
    return torch.tensor([[1, *GRID]] * batch)


def _patches(facts: Facts, batch: int) -> torch.Tensor:
    """The patches of all images one after the other, each flattened."""
    patch = facts.value("patch_size", default=14, part="vision")
    frames = facts.value("temporal_patch_size", default=1, part="vision")
    return torch.randn(batch * GRID[0] * GRID[1], channels(facts) * frames * patch * patch)


def _patch_rows(facts: Facts, batch: int) -> torch.Tensor:
    """The patches of each image as a sequence, each flattened."""
    patch = facts.value("patch_size", default=16, part="vision")
    return torch.randn(batch, GRID[0] * GRID[1], channels(facts) * patch * patch)


def _patch_mask(facts: Facts, batch: int) -> torch.Tensor:
    return torch.ones(batch, GRID[0] * GRID[1], dtype=torch.int64)


def _grid_shapes(facts: Facts, batch: int) -> torch.Tensor:
    return torch.tensor([GRID] * batch)


def _frame_mask(facts: Facts, batch: int, frames: int) -> torch.Tensor:
    return torch.ones(batch, frames, dtype=torch.int64)


def _image_mask(facts: Facts, batch: int, height: int, width: int) -> torch.Tensor:
    return torch.ones(batch, height, width, dtype=torch.int64)


def _spectrogram(facts: Facts, batch: int, decoder_sequence: int) -> torch.Tensor:
    return torch.randn(batch, decoder_sequence, facts.value("num_mel_bins", default=80))


def _task(facts: Facts, batch: int) -> torch.Tensor:
    return facts.tokens(
        batch, facts.value("task_seq_len", default=8), vocabulary=facts.value("text_encoder_vocab_size")
    )


def _flat_patches(facts: Facts, batch: int, sequence: int) -> torch.Tensor:
    """Rows, columns and pixels of patches."""
    place = torch.randint(1, 8, (batch, sequence, 2)).float()
    patch = facts.value("patch_size", default=16)
    width = facts.value("patch_embed_hidden_size", default=channels(facts) * patch * patch)
    return torch.cat([place, torch.randn(batch, sequence, int(width))], 2)


def _series(facts: Facts, batch: int) -> torch.Tensor:
    """Values of a time series, as far back as its lags reach."""
    length = facts.value("context_length", default=32) + max(facts.value("lags_sequence", default=[0]))
    channels = facts.value("num_input_channels") or facts.value("input_size", default=1)
    is_one = channels == 1 and not hasattr(facts.config, "num_input_channels")
    return torch.randn(batch, length) if is_one else torch.randn(batch, length, channels)


def _series_mask(facts: Facts, batch: int) -> torch.Tensor:
    return torch.ones_like(_series(facts, batch))


def _series_times(facts: Facts, batch: int) -> torch.Tensor:
    count = facts.value("num_time_features", default=0) + facts.value("num_dynamic_real_features", default=0)
    return torch.randn(batch, _series(facts, batch).shape[1], count)


def _all_frames(facts: Facts, batch: int) -> torch.Tensor:
    """As many frames as the model's positions are for, which it takes two by two."""
    return torch.randn(batch, bins(facts), 2 * facts.value("max_source_positions", default=64, part="audio"))


def channels(facts: Facts) -> int:
    found = facts.value("num_channels", "in_channels", "in_chans", default=3, part="vision")
    return found if isinstance(found, int) and found <= 4 else 3


def bins(facts: Facts) -> int:
    """How many features each frame of a sound has."""
    names = (
        "num_mel_bins",
        "feature_projection_input_dim",
        "input_feat_per_channel",
        "input_feat_size",
        "model_in_dim",
    )
    found = facts.value(
        *names, "num_mel_bin", "input_dim", "feature_size", "spectrogram_bins", "n_mels", default=80, part="audio"
    )
    return int(found) * facts.value("num_stacked_frames", default=1, part="audio")


def fixed_image(facts: Facts) -> tuple[int, int] | None:
    """The height and width that a configuration says, if it says them."""
    found = facts.value("image_size", "img_size", "input_size", part="vision")
    if isinstance(found, dict):
        found = (found["height"], found["width"])
    if isinstance(found, int):
        return (found, found) if found >= 16 else None
    if isinstance(found, list | tuple) and len(found) >= 2:
        return int(found[-2]), int(found[-1])
    return None


DRAWS: dict[str, tuple[Draw, ...]] = {
    "input_ids": (_tokens,),
    "attention_mask": (_mask,),
    "bbox": (_boxes,),
    "decoder_input_ids": (_decoder_tokens,),
    "pixel_values": (_image, _patches, _video, _pictures, _patch_rows),
    "pixel_values_videos": (_video,),
    "input_values": (_samples, _channel_samples, _frames),
    "input_features": (_frames, _frames_last, _all_frames),
    "input_features_mask": (_frame_mask,),
    "decoder_input_values": (_spectrogram,),
    "hidden_states": (_patches,),
    "grid_thw": (_grid,),
    "image_grid_thw": (_grid,),
    "pixel_mask": (_image_mask,),
    "pixel_attention_mask": (_patch_mask,),
    "spatial_shapes": (_grid_shapes,),
    "target_sizes": (_grid_shapes,),
    "task_inputs": (_task,),
    "qformer_input_ids": (_tokens,),
    "inputs": (_tokens, _image, _features),
    "flattened_patches": (_flat_patches,),
    "past_values": (_series,),
    "past_observed_mask": (_series_mask,),
    "past_time_features": (_series_times,),
}
"""For a parameter, what it may be drawn by: the first that the model runs on is its own."""


def sizes_of(draw: Draw) -> list[str]:
    """The names of the sizes that a draw takes."""
    code = draw.__code__
    return list(code.co_varnames[1 : code.co_argcount])
