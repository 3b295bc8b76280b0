"""The shapes and strides of copies: `copy_`, and what writes through views become where torch rewrites a graph.

torch's own functions compare strides to find their order, which asks whether dynamic sizes are one, and copy strides by
path of a flat tensor as large as the storage. A model that writes rows in a loop calls them hundreds of times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from opbridge.base.torch_private import torch_sizes
from opbridge.base.torch_private.torch_overrides import new_fake

__all__ = ["REPLACED", "REPLACED_IN_REWRITING"]


def _copy_(x: torch.Tensor, source: Any, non_blocking: bool = False) -> Any:
    """The tensor itself, where what is copied to it is seen to broadcast to it, and it has no element twice."""
    if not isinstance(source, torch.Tensor) or source.dim() > x.dim() or source.device != x.device:
        return NotImplemented
    sizes = zip(reversed(source.shape), reversed(x.shape), strict=False)
    if not all((type(one) is int and one == 1) or torch_sizes.is_equal(one, other) for one, other in sizes):
        return NotImplemented
    return NotImplemented if _has_zero_stride(x) else x


def _written(x: torch.Tensor, *_: Any, **__: Any) -> Any:
    """A tensor with the sizes and strides of the one that is written to: the write itself was checked when it was seen.

    What overlaps in memory, or does not begin with its storage, is left to torch.
    """
    offset = x.storage_offset()
    if x.layout != torch.strided or type(offset) is not int or offset:
        return NotImplemented
    return NotImplemented if _has_zero_stride(x) else new_fake(x, x.shape, strides=x.stride())


def _has_zero_stride(x: torch.Tensor) -> bool:
    return any(type(stride) is int and stride == 0 for stride in x.stride())


REPLACED: dict[str, Callable[..., Any]] = {"aten::copy_": _copy_}

REPLACED_IN_REWRITING: dict[str, Callable[..., Any]] = {
    "aten::copy": _written,
    "aten::diagonal_scatter": _written,
    "aten::select_scatter": _written,
    "aten::slice_scatter": _written,
}
