"""Errors that an operator raises for the sizes of its arguments, in PyTorch as in a capture.

Where data decide, a model may be captured on a way that none of its inputs takes, as its sizes do not fit there. What
the operator refuses then, with all sizes known, it refuses in PyTorch too: the model raises an error on this way. An
error that is raised for want of values, or by a description of the operator's alone, is none of these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge.base.torch_private import torch_overrides, torch_sizes

__all__ = ["is_of_sizes", "note_error"]

_NOTE = "PyTorch raises an error for tensors of these sizes as well."
_ERRORS = (RuntimeError, ValueError, IndexError)
_MOST_ELEMENTS = 1 << 22


def note_error(error: Exception, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Adds a note to an error where the operator raises one for real tensors of the same sizes.

    Args:
        error: What the operator raised in a capture.
        function: The operator.
        args: Its positional arguments, without values.
        kwargs: Its keyword arguments, without values.
    """
    if not isinstance(error, _ERRORS) or isinstance(error, NotImplementedError):
        return
    leaves, structure = pytree.tree_flatten((tuple(args), dict(kwargs)))
    try:
        sizes = [_known_sizes(each) for each in leaves]
        if sum(math.prod(each) for each in sizes if each is not None) > _MOST_ELEMENTS:
            return
        with torch_overrides.without_modes(), torch.no_grad():
            given = [_real(leaf, known) for leaf, known in zip(leaves, sizes, strict=True)]
            real_args, real_kwargs = pytree.tree_unflatten(given, structure)
            function(*real_args, **real_kwargs)
    except NotImplementedError:  # which is a RuntimeError
        return
    except _ERRORS:  # what describes an operator raises another one of them than the operator itself
        error.add_note(_NOTE)
    except Exception:  # a size that is not known, or whatever has another cause
        return


def is_of_sizes(error: Exception) -> bool:
    """Whether an error has the note of `note_error`."""
    return _NOTE in getattr(error, "__notes__", ())


class _Unknown(Exception):
    """A size or a number is not known."""


def _number(value: Any) -> Any:
    if isinstance(value, (torch.SymFloat, torch.SymBool)):
        raise _Unknown
    found = torch_sizes.known_size(value)
    if isinstance(found, torch.SymInt):
        raise _Unknown
    return found


def _known_sizes(leaf: Any) -> tuple[int, ...] | None:
    """The sizes of a tensor; None for what is none.

    Raises:
        _Unknown: One is not known.
    """
    if not isinstance(leaf, torch.Tensor):
        return None
    if leaf.layout != torch.strided or leaf.is_quantized:
        raise _Unknown
    return tuple(map(_number, leaf.shape))


def _real(leaf: Any, sizes: tuple[int, ...] | None) -> Any:
    """A tensor of zeros of the same sizes, strides and dtype, on the CPU; a number, or what is neither, as it is."""
    if sizes is None:
        return _number(leaf)
    strides = tuple(map(_number, leaf.stride()))
    return torch.empty_strided(sizes, strides, dtype=leaf.dtype).zero_()
