"""Integer tensors without dimensions, which PyTorch takes as numbers where sizes and indices are."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["is_number", "number"]


def is_number(item: Any) -> bool:
    """Whether a value is an integer tensor without dimensions. Under vmap it has to stay a tensor."""
    if not isinstance(item, torch.Tensor) or item.dim() != 0 or torch._C._functorch.is_batchedtensor(item):
        return False
    return not (item.dtype.is_floating_point or item.dtype.is_complex or item.dtype is torch.bool)


def number(item: Any) -> Any:
    """The number that such a tensor holds; everything else as it is."""
    return item.item() if is_number(item) else item
