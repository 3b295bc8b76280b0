"""Numbers of tensors as sizes, while a model is captured."""

from __future__ import annotations

from typing import cast

import torch

__all__ = ["size_of"]


def size_of(number: torch.Tensor, smallest: int) -> int:
    """A number of a tensor as a size, which is not smaller than another; a symbolic one while a model is captured."""
    size = cast(int, number.item())
    torch._check(size >= smallest)
    return size
