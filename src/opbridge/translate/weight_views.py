"""Constants that are a whole weight in another layout: `self.weight.t()`, `self.weight[None]`."""

from __future__ import annotations

from typing import NamedTuple

import torch

__all__ = ["View", "WeightViews"]

_SMALL_BYTES = 1 << 16


class View(NamedTuple):
    """A weight in another layout.

    Attributes:
        weight: The weight.
        order: The order of its dimensions in the view; None where the view has another shape and the same order of
            elements.
    """

    weight: torch.Tensor
    order: list[int] | None


class WeightViews:
    """Finds the weight that a constant shares all of its memory with, so that the model does not hold both."""

    def __init__(self) -> None:
        self._weights: list[torch.Tensor] = []
        self._by_memory: dict[tuple[int, int, torch.dtype], torch.Tensor] = {}

    def add_weight(self, weight: torch.Tensor) -> None:
        """Notes a weight of the model."""
        self._weights.append(weight)

    def find(self, tensor: torch.Tensor) -> View | None:
        """What a constant is a view of; None where it is none, or is not one of floating-point numbers, or is small.

        Args:
            tensor: A constant that is no weight itself.
        """
        if tensor.nbytes <= _SMALL_BYTES or not _is_plain(tensor):
            return None
        while self._weights:
            weight = self._weights.pop()
            if _is_plain(weight) and weight.is_contiguous():
                self._by_memory[_memory(weight)] = weight
        weight = self._by_memory.get(_memory(tensor))
        if weight is None:
            return None
        if tensor.is_contiguous():
            return View(weight, None)
        strides = list(weight.stride())
        if tensor.dim() != weight.dim() or len(set(strides)) < len(strides):
            return None
        order = [strides.index(stride) for stride in tensor.stride() if stride in strides]
        is_same = len(order) == weight.dim() and weight.permute(order).shape == tensor.shape
        return View(weight, order) if is_same else None


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor's memory holds its floating-point numbers."""
    is_dense = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout == torch.strided
    return is_dense and tensor.is_floating_point() and tensor.device.type != "meta" and not tensor.is_neg()


def _memory(tensor: torch.Tensor) -> tuple[int, int, torch.dtype]:
    return tensor.data_ptr(), tensor.numel(), tensor.dtype
