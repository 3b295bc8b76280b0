"""The forms of lists that loops have filled: sequences of a symbolic length, made of what the iterations append.

| the elements are | the form |
| --- | --- |
| integers | `Numbers` |
| tensors of one shape | `Rows` |
| tensors that differ in one dimension | `Parts`, joined along it |
| tuples or lists of a fixed length of these | `Zipped`, a sequence for each place |
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from opbridge.capture.tracer.append_only_lists import AppendOnlyList
from opbridge.capture.tracer.derived_sequences import Zipped
from opbridge.capture.tracer.gathered_lists import Knowing, is_number, numbers_of, whole_list, width_of
from opbridge.capture.tracer.loop_filled_lists import filled_in, form_instead
from opbridge.capture.tracer.made_once import once
from opbridge.capture.tracer.sized_sequences import SizedSequence
from opbridge.capture.tracer.symbolic_list import SymbolicList
from opbridge.capture.tracer.tensor_sequences import Numbers, Parts, Rows

__all__ = ["form_of"]


def form_of(values: SymbolicList | list[Any] | tuple[Any, ...]) -> SizedSequence | None:
    """The sequence that a list is which a loop has filled; None for any other list."""
    instead: SizedSequence | None = form_instead(values)
    if instead is not None:
        return instead
    found = filled_in(values)
    if found is None:
        return None
    form: SizedSequence | None = once("form", (id(values), len(values)), lambda: (_form(*found), values))[0]
    return form[::-1] if form is not None and found[0].is_reversed else form


def _form(growing: AppendOnlyList, lists: Knowing) -> SizedSequence | None:
    if not growing.summary.is_nested and (kind := width_of(growing)) is not None:
        columns = [_form(column, lists) for column in _columns(growing, kind[1], lists)]
        return None if None in columns else Zipped(tuple(columns), kind=kind[0])  # type: ignore[arg-type]
    numbers = None if _rank(growing) else numbers_of(growing, lists)
    if numbers is not None:
        return Numbers(numbers) if growing.summary.holds_numbers else Rows(numbers)
    if growing.items and all(map(is_number, growing.items)):
        return None
    if not growing.items and growing.summary.varies and growing.summary.kind is None:
        lists.lacks_elements = True
        return None
    whole = whole_list(growing, lists, is_needed=False)
    if whole is None:
        return None
    tensor, sizes, dim = whole
    return Rows(tensor) if sizes is None or dim is None else Parts.of_list(tensor, sizes, dim)


def _rank(growing: AppendOnlyList) -> int:
    """How many dimensions the elements have; 0 for integers."""
    known = growing.summary.kind
    some = next((each for each in growing.items if isinstance(each, torch.Tensor)), None)
    return some.dim() if some is not None else 0 if known is None else len(known[1])


def _columns(growing: AppendOnlyList, width: int, lists: Knowing) -> list[AppendOnlyList]:
    """A list of tuples as a list for each place in them."""
    found = []
    for at in range(width):
        summary = lists.learned.of_list((growing.summary.place, at))
        if growing.summary.varies:
            summary.varies = True
        elif growing.count:
            summary.growth = growing.count
        found.append(
            dataclasses.replace(
                growing,
                held=[each[at] for each in growing.items],
                known=[each[at] for each in growing.known],
                beginning=[each[at] for each in growing.beginning],
                summary=summary,
                variable=None,
                is_reversed=False,
                _rows=None,
            )
        )
    return found
