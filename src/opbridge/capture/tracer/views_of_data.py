"""Views of tensors whose sizes data decide, without torch's questions about these.

torch asks of each dimension whether its size is 0, 1 or less than another, as a view of such a tensor may be one
where other tensors have none. What is a view for all other sizes is one for these too, and nothing has to be asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from opbridge.base.torch_private import torch_sizes

__all__ = ["is_view_of_data", "view_of_data"]


def is_view_of_data(x: torch.Tensor, shape: Sequence[Any]) -> bool:
    """Whether `view_of_data` gives a view of a tensor: one that is not contiguous, with a size that data decide.

    Args:
        x: The tensor, without values.
        shape: The sizes of the view, of which one may be -1.
    """
    if not x.dim() or not shape or x.layout != torch.strided or not any(map(torch_sizes.is_of_data, x.shape)):
        return False
    if _are_equal(x.stride(), _contiguous(x.shape)):
        return False
    return _strides(x, _whole(x, shape)) is not None


def view_of_data(x: torch.Tensor, shape: Sequence[Any]) -> torch.Tensor:
    """The view.

    Args:
        x: The tensor, without values.
        shape: The sizes of the view.
    """
    sizes = _whole(x, shape)
    strides = _strides(x, sizes)
    assert strides is not None
    return x.as_strided(sizes, strides, x.storage_offset())


def _whole(x: torch.Tensor, shape: Sequence[Any]) -> list[Any]:
    """The sizes of a view, with the one that is given as -1."""
    given = [each for each in shape if type(each) is not int or each != -1]
    if len(given) == len(shape):
        return given
    rest = _product(given)
    if type(rest) is int and not rest:
        return given
    return [_product(x.shape) // rest if type(each) is int and each == -1 else each for each in shape]


def _strides(x: torch.Tensor, shape: Sequence[Any]) -> list[Any] | None:
    """The strides of a view; None where it is none for all sizes, or that is not seen."""
    found: list[Any] = [1] * len(shape)
    place = len(shape) - 1
    held: Any = 1
    begin = x.stride(-1)
    for dim in reversed(range(x.dim())):
        held = held * x.shape[dim]
        if dim and _is_one(x.shape[dim - 1]):
            continue
        if dim and torch_sizes.is_equal_beside_zero(x.stride(dim - 1), held * begin):
            continue
        taken: Any = 1
        while place >= 0 and (_is_one(shape[place]) or not _is_whole(taken, held)):
            found[place] = taken * begin
            taken = taken * shape[place]
            place -= 1
        if not _is_whole(taken, held):
            return None
        held, begin = 1, x.stride(dim - 1) if dim else 1
    return found if place == -1 else None


def _is_whole(taken: Any, held: Any) -> bool:
    """Whether sizes are all of a dimension that is split into them: `2 * (h // 2)` of `h`, or else there is no view."""
    return torch_sizes.is_equal_beside_zero(taken, held) or torch_sizes.quotient_if_exact(held, taken) == 1


def _contiguous(shape: Sequence[Any]) -> list[Any]:
    return [_product(shape[index + 1 :]) for index in range(len(shape))]


def _are_equal(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return all(map(torch_sizes.is_equal_beside_zero, one, other))


def _is_one(size: Any) -> bool:
    return type(size) is int and size == 1


def _product(sizes: Sequence[Any]) -> Any:
    found: Any = 1
    for size in sizes:
        found = found * size
    return found
