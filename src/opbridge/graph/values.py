"""Properties of the values of a captured graph's nodes, fake or real."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Node

__all__ = ["as_tensor", "is_complex", "tensors_in"]


_DTYPES = {float: torch.float64, complex: torch.complex128}


def as_tensor(leaf: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
    """A leaf in the form that it has in the graph: a number is a tensor without dimensions.

    Args:
        leaf: A tensor, which stays as it is, or a number.
        dtype: The dtype of a number that has a fraction, where it is another one than float64: that of the output
            which it is compared with.
    """
    if isinstance(leaf, torch.Tensor):
        return leaf
    if isinstance(leaf, float) and dtype is not None and dtype.is_floating_point:
        return torch.tensor(leaf, dtype=dtype)
    return torch.tensor(leaf, dtype=next((each for kind, each in _DTYPES.items() if isinstance(leaf, kind)), None))


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors of a value, which may be a list or tuple of values."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


def is_complex(node: Node) -> bool:
    """Whether a node stands for a complex tensor, or a list that starts with one."""
    value = node.meta.get("val")
    if isinstance(value, (list, tuple)) and value:
        value = value[0]
    return isinstance(value, torch.Tensor) and value.is_complex()
