"""Where a part of a dimension ends, as in `x[: x.shape[0] - 2]`; Python counts it from the end where it is negative.

1. torch makes a size of its own for such a part, which only data decide: it is right whatever the sign is.
2. An operator that asks about that size cannot be captured. The sign is then asked for instead, as a condition on the
   sizes, and the part's size is an expression of them. Such an execution is another one: see `capture.retries`.
"""

from __future__ import annotations

import contextlib
import contextvars
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from opbridge.base.torch_private import torch_sizes

__all__ = ["EndsMet", "asking_for_ends", "asks_about", "length_of_part", "watching_ends"]

_asking: contextvars.ContextVar[bool] = contextvars.ContextVar("asking", default=False)
_watching: contextvars.ContextVar[EndsMet | None] = contextvars.ContextVar("watching", default=None)


@dataclass
class EndsMet:
    """Whether an execution has met an end of a part whose sign is not known."""

    any: bool = False


@contextlib.contextmanager
def asking_for_ends(enabled: bool) -> Iterator[None]:
    """Within this context, the sign of each end of a part is asked for where it is not known."""
    token = _asking.set(enabled)
    try:
        yield
    finally:
        _asking.reset(token)


@contextlib.contextmanager
def watching_ends() -> Iterator[EndsMet]:
    """Tells whether an end whose sign is not known was met within this context."""
    met = EndsMet()
    token = _watching.set(met)
    try:
        yield met
    finally:
        _watching.reset(token)


def asks_about(x: torch.Tensor, dim: int, start: Any, end: Any, step: Any) -> bool:
    """Whether the ends of a part are asked about: sizes of inputs decide them, and the sign of one is not known."""
    size = x.shape[dim]
    if type(step) is not int or step < 1 or torch_sizes.is_of_data(size):
        return False
    if not any(map(_has_no_sign, (start, end))) or any(map(torch_sizes.is_of_data, (start, end))):
        return False
    if (met := _watching.get()) is not None:
        met.any = True
    return _asking.get()


def _has_no_sign(end: Any) -> bool:
    is_seen = torch_sizes.is_at_most
    return isinstance(end, torch.SymInt) and not is_seen(0, end) and not is_seen(end, -1)


def length_of_part(size: Any, start: Any, end: Any, step: int) -> tuple[Any, Any]:
    """Where a part begins, and how many elements it has, as Python defines slices. Signs are asked for."""
    first = _place(size, 0 if start is None else start)
    last = size if end is None or (type(end) is int and end == sys.maxsize) else _place(size, end)
    length = last - first if torch_sizes.is_at_most(first, last) else torch.sym_max(last - first, 0)
    return first, (length + step - 1) // step


def _place(size: Any, index: Any) -> Any:
    """The place from the begin, at most the size."""
    if index >= 0:
        return index if torch_sizes.is_at_most(index, size) else torch.sym_min(index, size)
    return torch.sym_max(index + size, 0)
