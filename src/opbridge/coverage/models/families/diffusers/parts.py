"""The parts of an autoencoder that pipelines run alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from opbridge.coverage.models.entries import Inputs
from opbridge.coverage.models.families.diffusers.draws import Way, sizes_for

__all__ = ["PARTS"]


class _Encoder(torch.nn.Module):
    def __init__(self, autoencoder: Any):
        super().__init__()
        self.autoencoder = autoencoder

    def forward(self, sample: torch.Tensor) -> torch.Tensor:
        mode: torch.Tensor = self.autoencoder.encode(sample).latent_dist.mode()
        return mode


class _Decoder(torch.nn.Module):
    def __init__(self, autoencoder: Any):
        super().__init__()
        self.autoencoder = autoencoder

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        sample: torch.Tensor = self.autoencoder.decode(latents, return_dict=False)[0]
        return sample


def _encode(autoencoder: Any) -> tuple[torch.nn.Module, list[Way]]:
    channels, unit = autoencoder.config.in_channels, 2 ** (len(autoencoder.config.block_out_channels) - 1)
    return _Encoder(autoencoder), [_images("sample", channels, unit)]


def _decode(autoencoder: Any) -> tuple[torch.nn.Module, list[Way]]:
    return _Decoder(autoencoder), [_images("latents", autoencoder.config.latent_channels, 1)]


def _images(name: str, channels: int, unit: int) -> Way:
    def draw(batch: int, height: int, width: int) -> Inputs:
        return Inputs((), {name: torch.randn(batch, channels, unit * height, unit * width)})

    return Way(draw, sizes_for(("batch", "height", "width"), max(unit, 4)))


PARTS: Mapping[str, Callable[[Any], tuple[torch.nn.Module, list[Way]]]] = {"encoder": _encode, "decoder": _decode}
"""By name: makes the part, and the ways to draw its inputs."""
