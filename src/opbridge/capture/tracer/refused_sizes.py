"""Errors that an operator raises for the sizes of its arguments, in PyTorch as in a capture.

Where data decide, a model may be captured on a path that none of its inputs takes, as its sizes do not fit there. What
the operator refuses then, with all sizes known, or for a tensor that has no elements whatever the others are, it
refuses in PyTorch too: the model raises an error on this way. An error that is raised for want of values, or by a
description of the operator's alone, is none of these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge.base.torch_private import torch_overrides, torch_sizes

__all__ = ["is_of_sizes", "note_error"]

_NOTE = "PyTorch raises an error for tensors of these sizes too."
_ERRORS = (RuntimeError, ValueError, IndexError)
_MOST_ELEMENTS = 1 << 22

_STAND_INS = (6, 11)
"""Values for the symbols of sizes, beside a tensor that has no elements whatever they are."""


def note_error(error: Exception, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Adds a note to an error where the operator raises one for real tensors of the same sizes.

    Args:
        error: What the operator raised in a capture.
        function: The operator.
        args: Its positional arguments, without values.
        kwargs: Its keyword arguments, without values.
    """
    if not isinstance(error, _ERRORS) or isinstance(error, NotImplementedError):  # which says that there is no kernel
        return
    if function.namespace != "aten":  # what another library's operator does beside its result is not known
        return
    leaves, structure = pytree.tree_flatten((tuple(args), dict(kwargs)))
    try:
        symbolic = [size for leaf in leaves for size in _numbers(leaf) if isinstance(size, torch.SymInt)]
        if symbolic and not any(_is_empty(leaf) for leaf in leaves):
            return
        if all(_raises(function, leaves, structure, value) for value in (_STAND_INS if symbolic else (1,))):
            error.add_note(_NOTE)
    except Exception:  # a number that is not known, or whatever has another cause
        return


def is_of_sizes(error: Exception) -> bool:
    """Whether an error has the note of `note_error`."""
    return _NOTE in getattr(error, "__notes__", ())


def _numbers(leaf: Any) -> tuple[Any, ...]:
    """The sizes of a tensor, or a number itself, as far as they are known.

    Raises:
        ValueError: It is a number that is no size, or a tensor that is not strided.
    """
    if isinstance(leaf, (torch.SymFloat, torch.SymBool)):
        raise ValueError("a number that only a run tells")
    if isinstance(leaf, torch.Tensor):
        if leaf.layout != torch.strided or leaf.is_quantized:
            raise ValueError("a tensor without strides")
        return tuple(map(torch_sizes.known_size, leaf.shape))
    return (torch_sizes.known_size(leaf),)


def _is_empty(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and 0 in [each for each in _numbers(leaf) if type(each) is int]


def _raises(function: Any, leaves: list[Any], structure: Any, value: int) -> bool:
    """Whether an operator refuses tensors of zeros, where each symbol of their sizes has a value."""

    def number(size: Any) -> int:
        return torch_sizes.with_all_symbols(torch_sizes.known_size(size), value)

    def real(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            sizes, strides = tuple(map(number, leaf.shape)), tuple(map(number, leaf.stride()))
            if math.prod(sizes) > _MOST_ELEMENTS:
                raise ValueError("a large tensor")
            return torch.empty_strided(sizes, strides, dtype=leaf.dtype).zero_()
        return number(leaf) if isinstance(leaf, torch.SymInt) else leaf

    with torch_overrides.without_modes(), torch.no_grad():
        given, named = pytree.tree_unflatten([real(leaf) for leaf in leaves], structure)
        try:
            function(*given, **named)
        except NotImplementedError:  # which is a RuntimeError
            return False
        except _ERRORS:  # what describes an operator raises another one of them than the operator itself
            return True
    return False
