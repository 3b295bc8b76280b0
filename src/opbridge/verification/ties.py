"""Positions among equal elements, whose order PyTorch leaves open (sort without stable, topk, kthvalue)."""

from __future__ import annotations

import torch

__all__ = ["picks_along", "picks_the_same"]


def picks_the_same(source: torch.Tensor, expected: torch.Tensor, actual: torch.Tensor, allowed: float = 0.0) -> bool:
    """Whether two tensors of positions pick equal elements along some dimension, and neither picks one twice.

    Args:
        source: What is picked from.
        expected: Positions, int64, of the source's shape but along one dimension, which may be missing.
        actual: Positions of the same shape.
        allowed: How far two elements may be apart that count as equal.
    """
    return any(picks_along(source, expected, actual, dim, allowed) for dim in range(source.dim()))


def picks_along(
    source: torch.Tensor,
    expected: torch.Tensor,
    actual: torch.Tensor,
    dim: int,
    allowed: float = 0.0,
    *,
    in_any_order: bool = False,
) -> bool:
    """`picks_the_same` along one dimension; with `in_any_order` both pick the same elements, in whatever order."""
    pair = [each if each.dim() == source.dim() else each.unsqueeze(dim) for each in (expected, actual)]
    if not all(_are_positions(each, source, dim) for each in pair):
        return False
    in_order = pair[1].sort(dim).values
    if bool((in_order.diff(dim=dim) == 0).any()):
        return False
    left, right = (source.gather(dim, each) for each in pair)
    if in_any_order:
        left, right = (each.sort(dim).values for each in (left, right))
    same = (left == right) | ((left != left) & (right != right))
    if allowed:
        same |= (left - right).abs() <= allowed
    return bool(same.all())


def _are_positions(given: torch.Tensor, source: torch.Tensor, dim: int) -> bool:
    if given.dtype != torch.int64 or given.dim() != source.dim():
        return False
    if any(size != whole for at, (size, whole) in enumerate(zip(given.shape, source.shape, strict=True)) if at != dim):
        return False
    return bool(((given >= 0) & (given < source.shape[dim])).all())
