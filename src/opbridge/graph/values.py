"""Properties of the values of a captured graph's nodes, fake or real."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Node

__all__ = ["as_tensor", "is_complex", "tensors_in"]


def as_tensor(leaf: Any) -> torch.Tensor:
    """A leaf in the form that it has in the graph: an integer is an int64 tensor without dimensions."""
    return leaf if isinstance(leaf, torch.Tensor) else torch.tensor(leaf)


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
