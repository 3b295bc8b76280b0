"""Indices of tensors that are sizes, integer tensors without dimensions, slices or lists with these, as operators."""

from __future__ import annotations

from typing import Any

import torch

from opbridge.capture.tracer.sized_sequences import SizedSequence
from opbridge.capture.tracer.symbolic_list import sequence_of
from opbridge.capture.tracer.tensors_as_numbers import is_number, number

__all__ = ["asks_for_number", "index_by", "with_tensors", "write_at"]


def asks_for_number(item: Any) -> bool:
    if isinstance(item, slice):
        return any(isinstance(each, torch.SymInt) or is_number(each) for each in (item.start, item.stop, item.step))
    return isinstance(item, torch.SymInt) or is_number(item)


def with_tensors(index: Any) -> Any:
    """An index in which lists of integers are tensors, as torch makes them by their values.

    These are lists of integer tensors without dimensions, among the items of a tuple, and lists whose length is
    symbolic.

    Returns:
        The index; None where there is no such list.
    """
    if type(index) is not tuple:
        found = _of_sequence(index)
        return None if found is index else found
    items = tuple(_stacked(item) if _is_list_of_numbers(item) else _of_sequence(item) for item in index)
    return items if any(new is not item for new, item in zip(items, index, strict=True)) else None


def _of_sequence(item: Any) -> Any:
    """A tensor in the place of a list of integers whose length is symbolic; anything else as it is."""
    if isinstance(item, SizedSequence):
        return item.tensor()
    sequence = sequence_of(item)
    numbers = None if sequence is None else sequence.integers()
    return item if numbers is None else numbers


def _is_list_of_numbers(item: Any) -> bool:
    """Whether an item of an index is a list of integers, of which one at least is a tensor without dimensions."""
    if type(item) not in (list, tuple) or not any(map(is_number, item)):
        return False
    return all(is_number(each) or type(each) in (int, torch.SymInt) for each in item)


def _stacked(numbers: Any) -> torch.Tensor:
    (device, *_) = (each.device for each in numbers if isinstance(each, torch.Tensor))
    return torch.stack([torch.as_tensor(each, dtype=torch.int64, device=device) for each in numbers])


def write_at(x: torch.Tensor, index: Any, value: Any) -> bool:
    """Writes to places or slices that sizes or tensors give, for which torch asks numbers.

    Returns:
        False for other indices, which are left to torch.
    """
    items = list(index) if isinstance(index, tuple) else [index]
    if not any(map(asks_for_number, items)):
        return False
    found = _part(x, items)
    if found is None:
        return False
    part, rest = found
    if rest:
        part[rest] = value
        return True
    if isinstance(value, torch.Tensor):
        while value.dim() > part.dim() and isinstance(value.shape[0], int) and value.shape[0] == 1:
            value = value[0]  # as torch leaves out leading dimensions of 1
        if value.dim() > part.dim():
            return False
    if isinstance(value, torch.Tensor):
        part.copy_(value)
    else:
        part.fill_(value)
    return True


def index_by(x: torch.Tensor, items: list[Any]) -> Any:
    """An index of numbers, slices, tensors, None and Ellipsis, as operators; None where anything else is in it."""
    found = _part(x, items)
    if found is None:
        return None
    part, rest = found
    return part[rest] if rest else part


def _part(x: torch.Tensor, items: list[Any]) -> tuple[torch.Tensor, tuple[Any, ...]] | None:
    """The part of a tensor that numbers and slices give, and the index of that by the tensors among the items.

    As torch takes them, numbers select before tensors index: `x[i, :, places]` is `x[i][:, places]`.
    """
    if not all(map(_is_taken, items)):
        return None
    if ... in [item for item in items if not isinstance(item, torch.Tensor)]:
        at = next(i for i, item in enumerate(items) if item is ...)
        missing = x.dim() - sum(map(_width, items))
        items = [*items[:at], *[slice(None)] * missing, *items[at + 1 :]]
    rest: list[Any] = []
    dim = 0
    for item in items:
        if item is None:
            x = torch.unsqueeze(x, dim)
            dim += 1
            rest.append(slice(None))
        elif isinstance(item, slice):
            step = 1 if item.step is None else number(item.step)
            if isinstance(step, torch.SymInt):
                torch._check(step > 0)
            if item.start is not None or item.stop is not None or not isinstance(step, int) or step != 1:
                x = torch.ops.aten.slice(x, dim, number(item.start), number(item.stop), step)
            dim += 1
            rest.append(slice(None))
        elif isinstance(item, torch.Tensor) and not is_number(item):
            dim += _width(item)
            rest.append(item)
        else:
            x = torch.select(x, dim, number(item))
    return x, tuple(rest) if any(isinstance(each, torch.Tensor) for each in rest) else ()


def _is_taken(item: Any) -> bool:
    """Whether an item of an index is a number, a slice, a tensor, None or Ellipsis."""
    if isinstance(item, bool):
        return False
    return item is None or item is ... or isinstance(item, int | torch.SymInt | slice | torch.Tensor)


def _width(item: Any) -> int:
    """How many dimensions of a tensor an item of an index is for."""
    if item is None or item is ...:
        return 0
    is_mask = isinstance(item, torch.Tensor) and item.dtype in (torch.bool, torch.uint8)
    return item.dim() if is_mask else 1
