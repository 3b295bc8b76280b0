"""Positions among equal elements, whose order PyTorch leaves open (sort without stable, topk, kthvalue)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from opbridge.graph.operators import functional_operator_of

__all__ = ["Picked", "picked", "picks_positions", "picks_the_same"]

_PAIRS = frozenset({"topk", "sort", "max", "min", "kthvalue", "median", "nanmedian", "mode"})
"""Operators that return values and their positions."""

_POSITIONS = frozenset({"argsort", "argmax", "argmin"})


@dataclass(frozen=True)
class Picked:
    """Another result of an operator that PyTorch's definition allows as well.

    Attributes:
        result: The result, with the positions of the runtime.
        which: The elements that stand in another order: "elements" or "equal elements".
    """

    result: Any
    which: str


def picks_positions(node: Node) -> bool:
    """Whether a node's operator returns positions of elements of its input."""
    return _base(node) in _PAIRS | _POSITIONS


def picked(
    node: Node, result: Any, source: torch.Tensor, actual: Mapping[str, torch.Tensor], allowed: float
) -> Picked | None:
    """The result of an operator that picks elements, with the positions that a runtime has picked.

    Args:
        node: A node of which `picks_positions` holds.
        result: PyTorch's result.
        source: What is picked from.
        actual: The runtime's values, by "node" or "node:output".
        allowed: How far two elements may be apart that count as equal.

    Returns:
        None where the runtime's positions are PyTorch's, or pick other elements.
    """
    is_pair = isinstance(result, (tuple, list)) and len(result) == 2
    own = result[1] if is_pair else result
    other = actual.get(f"{node.name}:1" if is_pair else node.name)
    if not isinstance(own, torch.Tensor) or own.dtype != torch.int64 or other is None:
        return None  # the maximum of all elements, which has no position
    if own.shape != other.shape or own.dtype != other.dtype or torch.equal(own, other):
        return None
    in_any_order = _base(node) == "topk" and (node.kwargs.get("sorted") is False or node.args[4:5] == (False,))
    for dim in range(source.dim()):
        left, right = (each if each.dim() == source.dim() else each.unsqueeze(dim) for each in (own, other))
        if left.dim() != source.dim() or not _picks_along(source, left, right, dim, allowed, in_any_order=in_any_order):
            continue
        moved = (left != right) & (source.gather(dim, left) == source.gather(dim, right))
        if not (node.kwargs.get("stable") and bool(moved.any())):
            values = source.gather(dim, right).reshape(own.shape)
            return Picked((values, other) if is_pair else other, "elements" if in_any_order else "equal elements")
    flat = source.reshape(-1)
    if own.numel() == 1 and _picks_along(flat, own.reshape(1), other.reshape(1), 0, allowed):
        return Picked(other, "equal elements")
    return None


def picks_the_same(source: torch.Tensor, expected: torch.Tensor, actual: torch.Tensor, allowed: float = 0.0) -> bool:
    """Whether two tensors of positions pick equal elements along some dimension, and neither picks one twice.

    Args:
        source: What is picked from.
        expected: Positions, int64, of the source's shape but along one dimension, which may be missing.
        actual: Positions of the same shape.
        allowed: How far two elements may be apart that count as equal.
    """
    return any(_picks_along(source, expected, actual, dim, allowed) for dim in range(source.dim()))


def _picks_along(
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


def _base(node: Node) -> str:
    namespace, _, name = functional_operator_of(node).partition("::")
    return name.partition(".")[0] if namespace == "aten" else ""
