"""Positions among equal elements, whose order PyTorch leaves open (sort without stable, topk, kthvalue)."""

from __future__ import annotations

import torch

__all__ = ["picks_the_same"]


def picks_the_same(source: torch.Tensor, expected: torch.Tensor, actual: torch.Tensor) -> bool:
    """Whether two tensors of positions pick equal elements along some dimension, and neither picks one twice.

    Args:
        source: What is picked from.
        expected: Positions, int64, of the source's shape but along one dimension, which may be missing.
        actual: Positions of the same shape.
    """
    return any(_picks_along(source, expected, actual, dim) for dim in range(source.dim()))


def _picks_along(source: torch.Tensor, expected: torch.Tensor, actual: torch.Tensor, dim: int) -> bool:
    pair = [each if each.dim() == source.dim() else each.unsqueeze(dim) for each in (expected, actual)]
    if not all(_are_positions(each, source, dim) for each in pair):
        return False
    in_order = pair[1].sort(dim).values
    if bool((in_order.diff(dim=dim) == 0).any()):
        return False
    left, right = (source.gather(dim, each) for each in pair)
    return bool(((left == right) | ((left != left) & (right != right))).all())


def _are_positions(given: torch.Tensor, source: torch.Tensor, dim: int) -> bool:
    if given.dtype != torch.int64 or given.dim() != source.dim():
        return False
    if any(size != whole for at, (size, whole) in enumerate(zip(given.shape, source.shape, strict=True)) if at != dim):
        return False
    return bool(((given >= 0) & (given < source.shape[dim])).all())
