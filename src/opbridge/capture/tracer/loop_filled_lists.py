"""What is known of a list that the loops of a run fill."""

from __future__ import annotations

import operator
from typing import Any

import torch

from opbridge.capture.tracer.append_only_lists import AppendOnlyList
from opbridge.capture.tracer.followed_lists import FollowedLists
from opbridge.capture.tracer.gathered_lists import joined, numbers_of, rows_of, whole_list
from opbridge.capture.tracer.symbolic_list import is_list
from opbridge.capture.tracer.symbolic_loops import active_loops

__all__ = [
    "copied",
    "filled_in",
    "form_instead",
    "gathered",
    "gathered_list",
    "gathered_numbers",
    "grown_length",
    "has_grown",
    "lacks_elements",
    "note_prepended",
    "replace_form",
]


def grown_length(value: Any) -> Any:
    """The length of a list that has grown in a loop; None for any other value."""
    found = _growing(value, may_be_reversed=True)
    if found is None:
        return None
    growing, lists = found
    now = len(growing.held) - len(growing.known)
    if growing.summary.varies or growing.summary.is_nested:
        rows = rows_of(growing, None, lists)
        return None if rows is None or [*growing.within()] else growing.first + rows[0].shape[0] + now
    return growing.first + growing.count * growing.loop.count() + now


def has_grown(value: Any) -> bool:
    """Whether a value is a list or a tuple that has grown in a loop."""
    return _growing(value, may_be_reversed=True) is not None


def copied(value: Any, copy: Any) -> Any:
    """A copy of a list, or a tuple of its elements, which has grown as the list has."""
    found = _growing(value)
    if found is not None:
        growing, lists = found
        lists.add_copy(growing, copy)
    return copy


def gathered(value: Any, dim: int | None) -> tuple[list[torch.Tensor], int | None] | None:
    """The elements of a list that has grown in a loop, as tensors to be joined; see `gathered_lists.joined`."""
    found = _growing(value)
    return None if found is None else joined(found[0], dim, found[1])


def gathered_list(value: Any) -> tuple[torch.Tensor, torch.Tensor | None, int | None] | None:
    """The elements of a list that has grown in a loop, as one tensor; see `gathered_lists.whole_list`."""
    found = _growing(value)
    return None if found is None else whole_list(*found)


def gathered_numbers(value: Any) -> torch.Tensor | None:
    """A list of integers that has grown in a loop, as a tensor; see `gathered_lists.numbers_of`."""
    found = _growing(value)
    return None if found is None else numbers_of(*found)


def filled_in(value: Any) -> tuple[AppendOnlyList, FollowedLists] | None:
    """What is known of a list that a loop has filled, which is over, and of all lists; None for any other value."""
    found = _growing(value, may_be_reversed=True)
    return None if found is None or not found[0].loop.is_over or found[0].running() is not None else found


def form_instead(value: Any) -> Any:
    """The sequence that a list has become since a loop has filled it; None where it is what the loop has made of it."""
    loops = active_loops()
    found = None if loops is None else loops.lists.forms.get(id(value))
    return found[1] if found is not None and found[0] is value else None


def lacks_elements(value: Any) -> bool:
    """Whether a list is empty because the loop that fills it, an element in each iteration, has had none."""
    found = None if form_instead(value) is not None else _growing(value, may_be_reversed=True)
    if found is None or found[0].items or found[0].summary.varies:
        return False
    return not found[0].summary.is_nested


def note_prepended(value: Any) -> None:
    """Notes that an element is inserted before the others of a list."""
    if (loops := active_loops()) is not None:
        loops.lists.note_prepended(value, loops.running)


def replace_form(value: Any, form: Any) -> None:
    """Notes that a list is another sequence from now on."""
    if (loops := active_loops()) is not None:
        loops.lists.forms[id(value)] = value, form


def _growing(value: Any, *, may_be_reversed: bool = False) -> tuple[AppendOnlyList, FollowedLists] | None:
    """What is known of a list or tuple to which iterations have appended, and of all lists; None for any other."""
    loops = active_loops()
    if loops is None or not (is_list(value) or type(value) is tuple):
        return None
    found = loops.lists.growing(value)
    if found is None or not found.is_kept or not all(map(operator.is_, found.items, found.known)):
        return None
    if found.is_reversed and not may_be_reversed:
        return None
    return (found, loops.lists) if found.count or found.summary.varies else None
