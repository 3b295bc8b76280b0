"""Lists of as many tensors as inputs decide that a model returns; see `opbridge.graph.open_lists`."""

from __future__ import annotations

from typing import Any

import torch

from opbridge.capture.tracer.loop_filled_lists import form_instead, gathered_list
from opbridge.capture.tracer.repeated_lists import Repeated
from opbridge.capture.tracer.sized_sequences import Range
from opbridge.capture.tracer.symbolic_list import SymbolicList, plain
from opbridge.capture.tracer.tensor_sequences import Numbers, Parts, Rows
from opbridge.graph.open_lists import OpenList, replaced

__all__ = ["with_lists_joined"]


def with_lists_joined(returned: Any) -> Any:
    """What a model returns, with sequences of a symbolic length, and lists that loops append to, in their form."""
    return replaced(plain(returned, _joined), lambda value, path: _joined(value))


def _joined(value: Any) -> OpenList | None:
    """The form of such a list; None for anything else, and where it has none."""
    if isinstance(value, Parts):
        joined = value.joined(value.dim)
        return None if joined is None else OpenList(joined, value.lengths.tensor(torch.int64), value.dim)
    if isinstance(value, Rows):
        return OpenList(value.stacked(0), None, None)
    if isinstance(value, Numbers | Range | Repeated):
        return OpenList(value.tensor(), None, None)
    if type(value) is SymbolicList and (form := form_instead(value)) is not None:
        return _joined(form)
    found = gathered_list(value)
    return None if found is None else OpenList(*found)
