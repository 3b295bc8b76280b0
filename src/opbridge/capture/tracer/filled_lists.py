"""Lists of numbers that a loop has filled, as what further loops go over by `zip` and `enumerate`.

Such a list is gone over as the tensor that its numbers are, of which each iteration reads its own. A plain `for` over a
list asks no function of Python's for the elements, and stays what it is.
"""

from __future__ import annotations

import operator
import weakref
from typing import Any

import torch

from opbridge.capture.tracer.sized_sequences import SizedSequence
from opbridge.capture.tracer.symbolic_loops import gathered_numbers, gathered_tuples, number_at, once
from opbridge.errors import CaptureError

__all__ = ["Filled", "filled"]


class Filled(SizedSequence):
    """A list that a loop has filled with integers, or with tuples of these.

    Args:
        held: The list.
        rows: Its elements as a tensor, with a row for each tuple.
    """

    is_indexed = True

    def __init__(self, held: list[Any] | tuple[Any, ...], rows: torch.Tensor) -> None:
        self.held, self.rows = held, rows
        _known[self] = tuple(held)

    @property
    def length(self) -> Any:
        return self.rows.shape[0]

    def has(self, index: Any) -> Any:
        known = _known[self]
        if len(self.held) != len(known) or not all(map(operator.is_, self.held, known)):
            raise CaptureError(
                "A list that was filled in a loop is modified while another loop iterates over it. Iterate over a "
                "copy: list(values)."
            )
        return super().has(index)

    def at(self, index: Any) -> Any:
        if self.rows.dim() == 1:
            return number_at(self.rows, index)
        columns = once("columns", (self.rows,), lambda: self.rows.unbind(1))
        return tuple(number_at(column, index) for column in columns)

    def tensor(self, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
        return self.rows.to(dtype=dtype, device=device)

    def elements(self) -> list[Any]:
        return list(self.held)


# Not an attribute: the elements of all iterations would tell paths apart that differ in the number of iterations alone.
_known: weakref.WeakKeyDictionary[Filled, tuple[Any, ...]] = weakref.WeakKeyDictionary()


def filled(values: Any) -> SizedSequence | None:
    """A list of integers, or of tuples of these, that a loop has filled, as a sequence; None for any other value."""
    if type(values) not in (list, tuple) or any(isinstance(each, torch.Tensor) for each in values):
        return None
    rows = gathered_numbers(values)
    if rows is None:
        rows = gathered_tuples(values)
    return None if rows is None else Filled(values, rows)
