"""Tensors for parameters of transformers' models that stand for sounds: samples, and features of frames."""

from __future__ import annotations

import torch

from opbridge.coverage.models.families.transformers.facts import Facts

__all__ = [
    "all_frames",
    "channel_frames",
    "channel_samples",
    "frame_mask",
    "frames",
    "frames_last",
    "is_longer",
    "latents_last",
    "mono_samples",
    "no_frame_mask",
    "samples",
    "spectrogram",
    "stacked_frames",
    "whole_frames",
]


def samples(facts: Facts, batch: int, samples: int) -> torch.Tensor:
    return torch.randn(batch, samples)


def channel_samples(facts: Facts, batch: int, samples: int) -> torch.Tensor:
    channels = facts.value("audio_channels", "channels", default=1)
    return torch.randn(batch, channels if channels <= 2 else 1, samples)


def mono_samples(facts: Facts, batch: int, samples: int) -> torch.Tensor:
    return torch.randn(batch, 1, samples)


def frames(facts: Facts, batch: int, frames: int) -> torch.Tensor:
    return torch.randn(batch, frames, _bins(facts))


def frames_last(facts: Facts, batch: int, frames: int) -> torch.Tensor:
    return torch.randn(batch, _bins(facts), frames)


def channel_frames(facts: Facts, batch: int, frames: int) -> torch.Tensor:
    return torch.randn(batch, 1, frames, _bins(facts))


def stacked_frames(facts: Facts, batch: int, frames: int) -> torch.Tensor:
    """Frames with the features that the model's encoder takes: of several of them side by side."""
    names = ("input_dim", "input_size", "input_feat_size")
    return torch.randn(batch, frames, facts.value(*names, default=4 * _bins(facts), part="encoder"))


def all_frames(facts: Facts, batch: int) -> torch.Tensor:
    """As many frames as the model's positions are for, which it takes two by two."""
    return torch.randn(batch, _bins(facts), 2 * facts.value("max_source_positions", default=64, part="audio"))


def whole_frames(facts: Facts, batch: int) -> torch.Tensor:
    """As many frames as the model has positions for."""
    return torch.randn(batch, facts.value("max_length", "spectrogram_length", part="audio"), _bins(facts))


def latents_last(facts: Facts, batch: int, sequence: int) -> torch.Tensor:
    return torch.randn(batch, facts.value("d_model", "hidden_size"), sequence)


def frame_mask(facts: Facts, batch: int, frames: int) -> torch.Tensor:
    return torch.ones(batch, frames, dtype=torch.int64)


def no_frame_mask(facts: Facts, batch: int, frames: int) -> torch.Tensor:
    """A mask in which what is true is left out."""
    return torch.zeros(batch, frames, dtype=torch.bool)


def is_longer(facts: Facts, batch: int) -> torch.Tensor:
    return torch.zeros(batch, 1, dtype=torch.bool)


def spectrogram(facts: Facts, batch: int, decoder_sequence: int) -> torch.Tensor:
    return torch.randn(batch, decoder_sequence, facts.value("num_mel_bins", default=80))


def _bins(facts: Facts) -> int:
    """How many features each frame of a sound has."""
    subsampled = facts.value("subsampling_conv_channels")
    if isinstance(subsampled, list | tuple):  # the code takes as many bins as the first of them has channels
        return int(subsampled[0])
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
