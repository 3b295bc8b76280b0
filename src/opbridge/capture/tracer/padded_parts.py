"""`torch.nn.utils.rnn.pad_sequence` of parts of a tensor, of which data decide the number and the lengths."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["padded"]


def padded(
    whole: torch.Tensor, lengths: torch.Tensor, ends: torch.Tensor, batch_first: bool, value: float, side: str
) -> torch.Tensor:
    """The parts one beside another, each as long as the longest.

    Args:
        whole: The tensor that they are parts of, along its first dimension.
        lengths: How many elements each has.
        ends: Where each ends.
        batch_first: Whether the parts come before their elements.
        value: What they are padded with.
        side: Whether they are padded at the "left" or at the "right".
    """
    if side not in ("left", "right"):
        raise RuntimeError(f"padding_side should be 'left' or 'right', and is {side!r}")
    longest: Any = lengths.max().item()
    torch._check(longest >= 0)
    torch._check(longest <= whole.shape[0])
    places = torch.arange(longest, device=whole.device)
    if side == "left":
        index = ends.unsqueeze(1) - longest + places
        is_part = places >= longest - lengths.unsqueeze(1)
    else:
        index = (ends - lengths).unsqueeze(1) + places
        is_part = places < lengths.unsqueeze(1)
    found = whole[torch.where(is_part, index, 0)]
    is_part = is_part.reshape(*is_part.shape, *[1] * (whole.dim() - 1))
    found = found.masked_fill(~is_part, value)
    return found if batch_first else found.transpose(0, 1)
