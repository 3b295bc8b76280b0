"""segmentation_models_pytorch's models: every architecture, and every family of encoders in a U-Net."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from opbridge.coverage.models.entries import Case, Inputs, ModelEntry
from opbridge.coverage.models.varying import Size, vary

__all__ = ["PACKAGES", "entries"]

PACKAGES = ("segmentation_models_pytorch",)

_ENCODERS = {"dpt": "tu-vit_tiny_patch16_224.augreg_in21k"}
"""Encoders of the architectures that do not take `resnet18`."""
_SIZES = {"batch": Size(2, (1, 3)), "height": Size(128, (160, 192)), "width": Size(160, (192, 128))}
"""Multiples of 32."""


def entries() -> Iterator[ModelEntry]:
    """The architectures with a small encoder, and one encoder of each class in a U-Net."""
    import segmentation_models_pytorch as smp
    from segmentation_models_pytorch.encoders import encoders

    for name in smp.MODEL_ARCHITECTURES_MAPPING:
        yield ModelEntry(name, partial(_make, name, _ENCODERS.get(name, "resnet18")))
    first: dict[Any, str] = {}
    for name, encoder in encoders.items():
        first.setdefault(encoder["encoder"], name)
    for name in first.values():
        yield ModelEntry(f"unet, {name}", partial(_make, "unet", name))


def _make(name: str, encoder: str) -> Case:
    import segmentation_models_pytorch as smp

    sizes = dict(_SIZES)
    if name == "dpt":  # whose encoder has a fixed number of patches
        sizes |= {"height": Size(224, ()), "width": Size(224, ())}
    model = smp.create_model(name, encoder_name=encoder, encoder_weights=None, in_channels=3, classes=4)
    return vary(model, _images, sizes)


def _images(batch: int, height: int, width: int) -> Inputs:
    return Inputs((torch.randn(batch, 3, height, width),))
