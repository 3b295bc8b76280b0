"""Lengths of parts, whose sum is a size: `torch.split(x, lengths.tolist())` raises for lengths of another sum.

Inputs of other values or sizes are made a tensor at a time, so that the sum of the lengths may be any. Where the model
raises on them, the lengths are scaled to add up to the size that they add up to in the example. Nothing is changed
where it does not raise, as labels and token ids have the sum of a size by chance.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Any

import torch

__all__ = ["with_lengths_adding_up"]

_MOST = 4
"""How many sizes are tried, where the sum in the example is the size of several dimensions."""


def with_lengths_adding_up(
    example: Sequence[Any], drawn: Sequence[Any], kept: Container[int] = ()
) -> Iterator[tuple[list[int], list[Any]]]:
    """Inputs whose lengths of parts add up to sizes, where those of the example do.

    Args:
        example: The leaves of the example inputs.
        drawn: The leaves of other inputs, in the same order.
        kept: The positions of leaves that are not changed.

    Yields:
        The positions of the lengths that were changed, and the leaves with them: for each size, the lengths of all
        tensors whose sum in the example is the size in the example. The proportions of the lengths are about those
        that were drawn.
    """
    lengths = [
        (position, int(leaf.sum()))
        for position, leaf in enumerate(example)
        if position not in kept and _are_lengths(leaf)
    ]
    tried: set[tuple[tuple[int, ...], int]] = set()
    for before, now in _sizes(example, drawn):
        changed = [position for position, total in lengths if total == before and int(drawn[position].sum()) != now]
        key = (tuple(changed), now)
        if not changed or key in tried or len(tried) == _MOST:
            continue
        tried.add(key)
        others = list(drawn)
        for position in changed:
            others[position] = _adding_up(drawn[position], now, is_positive=int(example[position].min()) > 0)
        yield changed, others


def _are_lengths(leaf: Any) -> bool:
    if not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided or leaf.is_quantized:
        return False
    is_integer = not (leaf.is_floating_point() or leaf.is_complex() or leaf.dtype == torch.bool)
    return is_integer and leaf.dim() == 1 and leaf.numel() > 0 and int(leaf.min()) >= 0 < int(leaf.max())


def _sizes(example: Sequence[Any], drawn: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """The sizes of the example's tensors with those of the other inputs, the ones that differ first."""
    pairs = [
        pair
        for own, leaf in zip(example, drawn, strict=True)
        if isinstance(own, torch.Tensor) and isinstance(leaf, torch.Tensor) and own.dim() == leaf.dim()
        for pair in zip(own.shape, leaf.shape, strict=True)
    ]
    yield from sorted(dict.fromkeys(pairs), key=lambda pair: pair[0] == pair[1])


def _adding_up(drawn: torch.Tensor, total: int, *, is_positive: bool) -> torch.Tensor:
    """Integers of about the proportions of others, at least 1 where that is asked for and possible."""
    if not drawn.numel():
        return drawn
    least = int(is_positive and total >= drawn.numel())
    shares = (drawn.to(torch.float64) - least).clamp(min=0).cpu()
    if not bool(shares.sum() > 0):
        shares = torch.ones_like(shares)
    # The rounded ends of the parts, so that the last one is the total itself.
    ends = (shares.cumsum(0) * ((total - least * drawn.numel()) / shares.sum())).round().to(torch.int64)
    return (ends.diff(prepend=ends.new_zeros(1)) + least).to(dtype=drawn.dtype, device=drawn.device)
