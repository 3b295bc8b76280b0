"""The forms of lists that loops have filled: sequences of a symbolic length, made of what the iterations append.

| the elements are | the form |
| --- | --- |
| integers | `Numbers` |
| tensors of one shape | `Rows` |
| tensors that differ in one dimension | `Parts`, joined along it |
| rows of these, such as tuples, dicts and objects | `Zipped`, a sequence for each place in them |
| constants, in rows | `Repeated`, where all are the same |
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import torch

from opbridge.capture.tracer.append_only_lists import AppendOnlyList
from opbridge.capture.tracer.derived_sequences import Zipped
from opbridge.capture.tracer.gathered_lists import Knowing, is_number, numbers_of, whole_list
from opbridge.capture.tracer.list_rows import MOST_DEEP, RowKind, is_constant, parts_of
from opbridge.capture.tracer.loop_filled_lists import filled_in, form_instead
from opbridge.capture.tracer.loop_summaries import NO_CONSTANT
from opbridge.capture.tracer.made_once import once
from opbridge.capture.tracer.repeated_lists import Repeated
from opbridge.capture.tracer.sized_sequences import SizedSequence
from opbridge.capture.tracer.symbolic_list import SymbolicList
from opbridge.capture.tracer.symbolic_loops import active_loops
from opbridge.capture.tracer.tensor_sequences import Numbers, Parts, Rows
from opbridge.errors import CaptureError

__all__ = ["form_of"]


def form_of(values: SymbolicList | list[Any] | tuple[Any, ...]) -> SizedSequence | None:
    """The sequence that a list is which a loop has filled; None for any other list.

    Raises:
        CaptureError: It is a list of rows, and a row has been changed since it was appended, or read from the list.
    """
    form: SizedSequence | None = form_instead(values)
    if form is None:
        found = filled_in(values)
        if found is None:
            return None
        form = once("form", (id(values), len(values)), lambda: (_form(*found), values))[0]
        form = form[::-1] if form is not None and found[0].is_reversed else form
    if form is not None and form.has_modifiable_rows:
        _check_unchanged()
    return form


def _check_unchanged() -> None:
    loops = active_loops()
    if loops is not None and not loops.lists.rows.are_unchanged():
        raise CaptureError(
            "An element of a list that a loop has filled is changed after that, and then the list is read again. Make "
            "a list of new elements: [{**each, 'score': each['score'] * 2} for each in values]."
        )


def _form(growing: AppendOnlyList, lists: Knowing, depth: int = 0) -> SizedSequence | None:
    if not growing.summary.is_nested and (kind := _row_kind(growing)) is not None:
        return _of_rows(growing, kind, lists, depth) if depth < MOST_DEEP else None
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


def _row_kind(growing: AppendOnlyList) -> RowKind | None:
    """The kind of the rows that a list holds, or has held; None where it holds anything else."""
    kinds = [None if found is None else found[0] for found in map(parts_of, growing.items)]
    if not kinds:
        return growing.summary.row_kind
    if any(each != kinds[0] for each in kinds):
        return None
    if kinds[0] is not None:
        growing.summary.row_kind = kinds[0]
    return kinds[0]


def _of_rows(growing: AppendOnlyList, kind: RowKind, lists: Knowing, depth: int) -> SizedSequence | None:
    """A list of rows of one kind."""
    columns = _columns(growing, kind.width, lists)
    found = [None if _has_constants(each, lists) else _form(each, lists, depth + 1) for each in columns]
    length = next((each.length for each in found if each is not None), None)
    if length is None:
        return None
    for at, each in enumerate(columns):
        if found[at] is None and each.summary.constant is not NO_CONSTANT:
            found[at] = Repeated([each.summary.constant], length)
    whole = tuple(each for each in found if each is not None)
    return Zipped(whole, kind=kind) if len(whole) == len(found) else None


def _has_constants(growing: AppendOnlyList, lists: Knowing) -> bool:
    """Whether a list holds constants, or has held one where it is empty now; notes whether they differ."""
    summary = growing.summary
    for each in growing.items:
        if summary.differs_in_constants or not is_constant(each):
            break
        if summary.constant is NO_CONSTANT:
            summary.constant = each
        elif type(each) is not type(summary.constant) or each != summary.constant:
            summary.differs_in_constants, summary.constant = True, NO_CONSTANT
            lists.has_learned = True
    return summary.constant is not NO_CONSTANT


def _rank(growing: AppendOnlyList) -> int:
    """How many dimensions the elements have; 0 for integers."""
    known = growing.summary.kind
    some = next((each for each in growing.items if isinstance(each, torch.Tensor)), None)
    return some.dim() if some is not None else 0 if known is None else len(known[1])


def _columns(growing: AppendOnlyList, width: int, lists: Knowing) -> list[AppendOnlyList]:
    """A list of rows as a list for each place in them."""
    known, beginning, items = map(_parts, (growing.known, growing.beginning, growing.items))
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
                held=[each[at] for each in items],
                known=[each[at] for each in known],
                beginning=[each[at] for each in beginning],
                summary=summary,
                variable=None,
                is_reversed=False,
                _rows=None,
            )
        )
    return found


def _parts(elements: Iterable[Any]) -> list[list[Any]]:
    """What each row holds."""
    return [found[1] for found in map(parts_of, elements) if found is not None]
