"""The models that are measured: as torchvision builds them, with random weights, in eval mode."""

from __future__ import annotations

from typing import Any

import torch
import torchvision

__all__ = ["NAMES", "build"]

NAMES = ("resnet50", "swin_t", "vit_b_16", "convnext_tiny", "densenet121")


class TwoOperators(torch.nn.Module):
    """An addition and a ReLU: what an export costs when there is next to nothing to export."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """x, y and the result: any one shape and float dtype."""
        return (x + y).relu()


def build(name: str) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    """A model and example inputs: one image of 224 by 224, or two vectors for "two operators"."""
    torch.manual_seed(0)
    if name == "two operators":
        return TwoOperators().eval(), (torch.randn(8), torch.randn(8))
    return torchvision.models.get_model(name, weights=None).eval(), (torch.randn(1, 3, 224, 224),)
