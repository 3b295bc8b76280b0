"""`pad_sequence` and `unpad_sequence` of `torch.nn.utils.rnn`, of parts whose number and lengths data decide."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from opbridge.base.attributes import replacing

__all__ = ["padded", "padding_by", "unpadded"]

_RNN: Any = torch.nn.utils.rnn
_UNPAD: Any = _RNN.unpad_sequence
_PADDED, _UNPADDED = "__opbridge_padded", "__opbridge_unpadded"
_ORIGINALS: dict[Any, Any] = {
    each: types.FunctionType(each.__code__, vars(_RNN), argdefs=each.__defaults__)
    for each in (_RNN.pad_sequence, _UNPAD)
}


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


def unpadded(padded: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What `unpad_sequence` leaves of rows that were padded at the right.

    Args:
        padded: The rows, of one length, along the first dimension.
        lengths: How many elements of each row are left, or more than it has.

    Returns:
        The elements that are left, joined along the first dimension, and how many each row has of them.
    """
    torch._check(padded.shape[0] == lengths.shape[0])
    is_part = torch.arange(padded.shape[1], device=lengths.device) < lengths.unsqueeze(1)
    return padded[is_part], is_part.sum(1)


@contextlib.contextmanager
def padding_by(pad: Callable[..., Any], unpad: Callable[..., Any]) -> Iterator[None]:
    """Within this context, `pad_sequence` and `unpad_sequence` ask a function first, wherever a model has them from.

    Args:
        pad: Called with all four arguments of `pad_sequence`; what it gives is the result, unless that is None.
        unpad: The same of `unpad_sequence`, with three.
    """
    with _asking(_PADDED, _RNN.pad_sequence, _pad_sequence, pad), _asking(_UNPADDED, _UNPAD, _unpad_sequence, unpad):
        yield


@contextlib.contextmanager
def _asking(name: str, function: Any, own: Any, first: Callable[..., Any]) -> Iterator[None]:
    """Within this context, a function of torch's has the code of our own, which calls a global of this name."""
    original = _ORIGINALS[function]

    def asking(*args: Any) -> Any:
        found = first(*args)
        return original(*args) if found is None else found

    names = function.__globals__
    before = names.get(name)
    names[name] = asking
    try:
        with replacing((function, "__code__", own.__code__)):
            yield
    finally:
        if before is None:
            del names[name]
        else:
            names[name] = before


def _pad_sequence(
    sequences: Any, batch_first: Any = False, padding_value: Any = 0.0, padding_side: Any = "right"
) -> Any:
    """What torch's function of this name runs in the place of its own code, with the globals of that."""
    return __opbridge_padded(sequences, batch_first, padding_value, padding_side)  # type: ignore[name-defined]  # noqa: F821


def _unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: Any = False) -> Any:
    """The same for this function: what it calls is a global there while `_asking` is on."""
    return __opbridge_unpadded(padded_sequences, lengths, batch_first)  # type: ignore[name-defined]  # noqa: F821
