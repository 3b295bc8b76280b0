"""Constant sizes that are read from data while a model runs, as the sizes are that other execution paths have there."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Collection, Iterator, Sequence
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from opbridge.base.sources import Source, of_code

__all__ = ["constant_sizes", "sizes_read_from_data"]


@contextlib.contextmanager
def sizes_read_from_data(made: Collection[tuple[Source, int]]) -> Iterator[None]:
    """Within this context, tensors that some lines make have sizes that are read from data.

    Args:
        made: The lines, each with a size that the tensors have.
    """
    if not made:
        yield
        return
    with _Reading(made):
        yield


class _Reading(TorchFunctionMode):
    def __init__(self, made: Collection[tuple[Source, int]]) -> None:
        super().__init__()
        self._made = frozenset(made)
        self._sizes = {size for _, size in made}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        old = {size for each in given for size in constant_sizes(each.shape)}
        return pytree.tree_map_only(torch.Tensor, functools.partial(self._read, old=old), result)

    def _read(self, made: torch.Tensor, old: Collection[int]) -> torch.Tensor:
        """A tensor that a line makes, with the sizes of data that it is to have instead of constant ones.

        Args:
            made: The tensor.
            old: The constant sizes of the tensors that it is made from.
        """
        new = {*constant_sizes(made.shape)}.difference(old) & self._sizes
        if new and (source := _running()) is not None:
            for dim, size in enumerate(made.shape):
                if type(size) is int and size in new and (source, size) in self._made:
                    made = made.index_select(dim, _all(size, made.device))
        return made


def constant_sizes(shape: Sequence[Any]) -> list[int]:
    """The sizes of a shape that are no symbolic ones."""
    return [size for size in shape if type(size) is int]


def _all(size: int, device: torch.device) -> torch.Tensor:
    """The indices of all elements of a dimension, whose number is any that data may give, as far as torch knows."""
    return torch.repeat_interleave(torch.full((max(size, 1),), int(size > 0), device=device))


def _running() -> Source | None:
    """The innermost line of the model's code that is running."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if (source := of_code(frame.f_code, frame.f_lineno)) is not None:
            return source
        frame = frame.f_back
    return None
