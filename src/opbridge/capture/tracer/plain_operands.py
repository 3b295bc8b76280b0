"""What is plain to see of the operands of an operator: questions about sizes are not asked."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch

from opbridge.base.torch_private import torch_sizes
from opbridge.base.torch_private.torch_overrides import new_fake

__all__ = ["broadcast", "is_plain", "new"]


def is_plain(x: torch.Tensor) -> bool:
    """Whether a tensor is one of floats in memory."""
    return x.dtype.is_floating_point and x.layout == torch.strided


def broadcast(left: Sequence[Any], right: Sequence[Any]) -> list[Any] | None:
    """The sizes that two tensors are broadcast to; None where that is not plain to see."""
    found = []
    for one, other in itertools.zip_longest(reversed(left), reversed(right), fillvalue=1):
        if torch_sizes.is_equal(one, other) or torch_sizes.is_one_or_none_of(other, one):
            found.append(one)
        elif torch_sizes.is_one_or_none_of(one, other):
            found.append(other)
        else:
            return None
    return found[::-1]


def new(x: torch.Tensor, shape: Sequence[Any]) -> torch.Tensor:
    """What `x.new_empty` gives, which torch finds by running several operators where a size is dynamic."""
    is_dynamic = any(type(size) is torch.SymInt for size in shape)
    return new_fake(x, shape) if is_dynamic and not x.requires_grad else x.new_empty(shape)
