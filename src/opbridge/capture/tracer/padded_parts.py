"""`torch.nn.utils.rnn.pad_sequence` of parts of a tensor, of which data decide the number and the lengths."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from opbridge.base.attributes import replacing

__all__ = ["padded", "padding_by"]

_RNN: Any = torch.nn.utils.rnn
_PADDED = "__opbridge_padded"
_ORIGINAL: Any = types.FunctionType(_RNN.pad_sequence.__code__, vars(_RNN))


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


@contextlib.contextmanager
def padding_by(pad: Callable[..., torch.Tensor | None]) -> Iterator[None]:
    """Within this context, `pad_sequence` asks a function first, wherever a model has imported it from.

    Args:
        pad: Called with all four arguments; what it gives is the result, unless that is None.
    """
    function = _RNN.pad_sequence

    def asking(*args: Any) -> torch.Tensor:
        found = pad(*args)
        return _ORIGINAL(*args) if found is None else found

    names = function.__globals__
    before = names.get(_PADDED)
    names[_PADDED] = asking
    try:
        with replacing((function, "__code__", _pad_sequence.__code__)):
            yield
    finally:
        if before is None:
            del names[_PADDED]
        else:
            names[_PADDED] = before


def _pad_sequence(
    sequences: Any, batch_first: Any = False, padding_value: Any = 0.0, padding_side: Any = "right"
) -> Any:
    """What torch's function of this name runs in the place of its own code, with the globals of that."""
    return __opbridge_padded(sequences, batch_first, padding_value, padding_side)  # type: ignore[name-defined]  # noqa: F821
