"""A sample as a model: its tensors are inputs, everything else is a constant of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge.coverage.entries import Sample

__all__ = ["Call", "as_model"]


class Call(torch.nn.Module):
    """Calls a function with the tensors that it is given in their places among a sample's arguments."""

    def __init__(self, function: Callable[..., Any], sample: Sample) -> None:
        super().__init__()
        self._function = function
        leaves, self._layout = pytree.tree_flatten((sample.args, dict(sample.kwargs)))
        self._places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self._constants = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]

    def forward(self, *tensors: torch.Tensor) -> Any:
        leaves = list(self._constants)
        for place, tensor in zip(self._places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self._layout)
        return self._function(*args, **kwargs)


def as_model(function: Callable[..., Any], sample: Sample) -> tuple[Call, tuple[torch.Tensor, ...]]:
    """The model, and the tensors that it is called with."""
    leaves = pytree.tree_leaves((sample.args, dict(sample.kwargs)))
    return Call(function, sample).eval(), tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))
