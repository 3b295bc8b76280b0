"""Errors that are raised because a list is empty, as one is that a loop without iterations has filled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge.base.sources import of_code
from opbridge.base.torch_private.torch_decisions import NoSuchElement

__all__ = ["OF_EMPTY_LIST", "EmptyList", "is_of_empty_list", "note_empty_list"]

OF_EMPTY_LIST = (RuntimeError, IndexError, ValueError, AssertionError)
"""What is raised for an empty list: some releases of torch assert that there is a tensor to stack."""

_NOTE = "The function was called with an empty list."


class EmptyList(RuntimeError):
    """What is raised for a list that is empty because the loop that fills it has no iterations."""


def note_empty_list(error: Exception, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Adds a note to what a function of torch raises where an argument is an empty list or tuple.

    An index that `torch.tensor` has made of an empty list is one too: it has the default dtype, which is no integer.

    Args:
        error: What it raised.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
    """
    given = (*args, *kwargs.values())
    if any(isinstance(each, (list, tuple)) and not len(each) for each in given) or (
        isinstance(error, IndexError) and any(map(_is_of_no_numbers, pytree.tree_leaves(given)))
    ):
        error.add_note(_NOTE)


def _is_of_no_numbers(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and tuple(value.shape) == (0,)


def is_of_empty_list(error: Exception) -> bool:
    """Whether an error is raised because a list is empty.

    That is one with the note of `note_empty_list`, or an IndexError of an instruction of the model's own.
    """
    if isinstance(error, (EmptyList, NoSuchElement)):
        return True
    if not isinstance(error, OF_EMPTY_LIST):
        return False
    if _NOTE in getattr(error, "__notes__", ()):
        return True
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return isinstance(error, IndexError) and trace is not None and of_code(trace.tb_frame.f_code, 0) is not None
