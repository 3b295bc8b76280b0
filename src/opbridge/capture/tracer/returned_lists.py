"""Lists of as many tensors as inputs decide that a model returns; see `opbridge.graph.open_lists`."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge.base.torch_private import torch_sizes
from opbridge.capture.tracer.derived_sequences import Zipped
from opbridge.capture.tracer.list_forms import form_of
from opbridge.capture.tracer.loop_filled_lists import form_instead, gathered_list
from opbridge.capture.tracer.repeated_lists import Repeated
from opbridge.capture.tracer.sized_sequences import Range, SizedSequence, Unmodified
from opbridge.capture.tracer.symbolic_list import SymbolicList, is_list, plain
from opbridge.capture.tracer.tensor_sequences import Numbers, Parts, Rows
from opbridge.errors import CaptureError
from opbridge.graph.open_lists import OpenList, OpenRows, replaced

__all__ = ["with_lists_joined"]

_NONE: Any = object()


def with_lists_joined(returned: Any) -> Any:
    """What a model returns, with sequences of a symbolic length, and lists that loops append to, in their form.

    Raises:
        CaptureError: There is a sequence of a symbolic length that has no such form.
    """
    found = replaced(plain(returned, _joined), lambda value, path: _joined(value))
    if any(isinstance(each, SizedSequence) for each in pytree.tree_leaves(found)):
        raise CaptureError(
            "The model returns a list whose length depends on the inputs, and whose elements are neither tensors that "
            "can be concatenated, nor integers, nor containers with such values at the same keys. Return tensors: pad "
            "the elements to one shape and stack them, or concatenate them and return their sizes."
        )
    return found


def _joined(value: Any) -> OpenList | OpenRows | None:
    """The form of such a list; None for anything else, and where it has none."""
    if isinstance(value, Parts):
        joined = value.joined(value.dim)
        return None if joined is None else OpenList(joined, value.lengths.tensor(torch.int64), value.dim)
    if isinstance(value, Rows):
        return OpenList(value.stacked(0), None, None)
    if isinstance(value, Unmodified):
        return _joined(value.form)
    if isinstance(value, Zipped):
        return _rows(value)
    if isinstance(value, Numbers | Range | Repeated):
        return OpenList(value.tensor(), None, None)
    if type(value) is SymbolicList and (form := form_instead(value)) is not None:
        return _joined(form)
    found = gathered_list(value)
    if found is not None:
        return OpenList(*found)
    form = form_of(value) if is_list(value) else None
    return _rows(form) if isinstance(form, Zipped) else None


def _rows(rows: Zipped) -> OpenRows | None:
    """The form of a list of rows; None where what they hold at a place has none."""
    row = _row(rows)
    return None if row is _NONE else OpenRows(row)


def _row(rows: Zipped) -> Any:
    lengths = [each.length for each in rows.sequences]
    if not all(torch_sizes.is_equal(each, lengths[0]) for each in lengths):
        return _NONE
    columns = [_column(each) for each in rows.sequences]
    if any(each is _NONE for each in columns):
        return _NONE
    if rows.first is None:
        return rows.kind.row(columns)
    return (OpenList(torch.arange(lengths[0]) + rows.first, None, None), *columns)


def _column(of: SizedSequence) -> Any:
    """What takes the place of what the rows hold at a place."""
    of = of.form if isinstance(of, Unmodified) else of
    if isinstance(of, Zipped):
        return _row(of)
    if isinstance(of, Repeated) and not isinstance(of.values[0], torch.Tensor | int | float):
        return of.values[0]  # in all rows
    found = _joined(of)
    return _NONE if found is None else found
