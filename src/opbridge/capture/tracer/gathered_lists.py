"""What the iterations of loops have appended to lists, as tensors."""

from __future__ import annotations

from typing import Any, Protocol

import torch

from opbridge.base.torch_private import torch_overrides, torch_sizes
from opbridge.base.torch_private.torch_branch_operators import GATHERED, GATHERED_ALONG, GATHERED_NUMBERS
from opbridge.capture.tracer.append_only_lists import AppendOnlyList, sum_of_parts
from opbridge.capture.tracer.empty_lists import EmptyList
from opbridge.capture.tracer.loop_summaries import LoopSummary

__all__ = ["Knowing", "is_number", "joined", "numbers_of", "rows_of", "rows_of_piece", "whole_list"]


class Knowing(Protocol):
    """What is known of the lists of an execution.

    Attributes:
        learned: What executions have shown of them.
        has_learned: Whether this execution has shown what it needs to know from its begin.
        lacks_elements: Whether a list was empty that some iterations append to, before a run has shown what.
    """

    learned: LoopSummary
    has_learned: bool
    lacks_elements: bool


def joined(
    growing: AppendOnlyList, dim: int | None, lists: Knowing, *, is_needed: bool = True
) -> tuple[list[torch.Tensor], int | None] | None:
    """The elements of a list that has grown in a loop, as tensors to be joined.

    Args:
        growing: The list.
        dim: The dimension along which they are to be concatenated; None: they are to be stacked.
        lists: What is known of the lists.
        is_needed: Whether it is an error that there is no element at all, before an execution has shown one.

    Returns:
        The tensors, and the dimension along which they are to be concatenated; None for a new first one. None where
        there are none.
    """
    found = rows_of(growing, dim, lists, is_needed=is_needed)
    if found is None:
        return None
    appended, dim = found
    first, now = growing.items[: growing.first], growing.items[len(growing.known) :]
    if not all(isinstance(each, torch.Tensor) for each in (*first, *now)):
        return None
    if dim is not None:
        return [*first, appended, *now], dim
    return [*(each.unsqueeze(0) for each in first), appended, *(each.unsqueeze(0) for each in now)], None


def whole_list(
    growing: AppendOnlyList, lists: Knowing, *, is_needed: bool = True
) -> tuple[torch.Tensor, torch.Tensor | None, int | None] | None:
    """The elements of a list that has grown in a loop, as one tensor, for who is to have the whole list.

    Args:
        growing: The list.
        lists: What is known of the lists.
        is_needed: Whether it is an error that there is no element at all, before an execution has shown one.

    Returns:
        The elements, concatenated along a dimension in which they differ, or stacked; their sizes in that dimension,
        as int64, and the dimension, or None. None where they differ in more than one dimension, or are no tensors.
    """
    numbers = numbers_of(growing, lists)
    if numbers is not None:
        return numbers, None, None
    found = joined(growing, None, lists, is_needed=is_needed)
    if found is not None:
        return torch.cat(found[0]), None, None
    template = next((each for each in growing.items if isinstance(each, torch.Tensor)), None)
    known = growing.summary.kind
    for dim in range(template.dim() if template is not None else 0 if known is None else len(known[1])):
        found = joined(growing, dim, lists, is_needed=is_needed)
        if found is not None:
            return torch.cat(found[0], dim), _sizes(growing, dim), dim
    return None


def _sizes(growing: AppendOnlyList, dim: int) -> torch.Tensor:
    """The size of each element in one dimension, as int64."""
    loop = growing.loop
    length = None if growing.summary.varies else growing.count * loop.count()
    sizes = [each.shape[dim] for each in growing.tensors()]
    gathered = GATHERED_NUMBERS(sizes, length, [], growing.ends, loop.number, None)

    def known(part: Any) -> list[torch.Tensor]:
        return [torch._refs.tensor([each.shape[dim] for each in part], dtype=torch.int64)] if part else []

    parts = [*known(growing.items[: growing.first]), gathered, *known(growing.items[len(growing.known) :])]
    return torch.cat(parts) if len(parts) > 1 else gathered


def numbers_of(growing: AppendOnlyList, lists: Knowing) -> torch.Tensor | None:
    """A list of integers that has grown in a loop, or of tensors without dimensions, as a tensor of one dimension.

    Args:
        growing: The list.
        lists: What is known of the lists.

    Returns:
        None for any other list.
    """
    found = rows_of(growing, None, lists, is_needed=False)
    if found is None or found[0].dim() != 1:
        return None
    now = [rows_of_piece(piece, lists) for piece in growing.pieces()]
    first = [rows_of_piece(each, lists) for each in growing.beginning]
    parts = [each for each in (*first, found[0], *now) if each is not None and each.dtype == found[0].dtype]
    return torch.cat(parts) if len(parts) == len(first) + len(now) + 1 else None


def rows_of_piece(piece: Any, lists: Knowing) -> torch.Tensor | None:
    """An element as a tensor with a row, or what a loop within an iteration has appended; None where it is none."""
    if isinstance(piece, AppendOnlyList):
        found = rows_of(piece, None, lists, is_needed=False)
        return None if found is None or found[1] is not None else found[0]
    if isinstance(piece, torch.Tensor):
        return piece.unsqueeze(0)
    return torch._refs.tensor([piece], dtype=torch.int64) if is_number(piece) else None


def is_number(value: Any) -> bool:
    """Whether an element of a list is an integer of Python's."""
    return type(value) in (int, torch.SymInt)


def _has_numbers(growing: AppendOnlyList) -> bool:
    """Whether a list holds integers, or has held some where it is empty now."""
    if growing.items and all(map(is_number, growing.items)):
        growing.summary.holds_numbers = True
        return True
    return not growing.items and growing.summary.holds_numbers


def _numbers(growing: AppendOnlyList) -> torch.Tensor:
    """The integers that iterations have appended."""
    loop = growing.loop
    whole = loop.extended_by()
    if whole is not None:
        return whole
    length = None if growing.summary.varies else growing.count * loop.count()
    return GATHERED_NUMBERS(growing.tensors(), length, [], growing.ends, loop.number, None)


def rows_of(
    growing: AppendOnlyList, dim: int | None, lists: Knowing, *, is_needed: bool = True
) -> tuple[torch.Tensor, int | None] | None:
    """What iterations have appended, as one tensor, and the dimension that it is concatenated along; see `joined`.

    Args:
        growing: The list.
        dim: The dimension along which they are to be concatenated.
        lists: What is known of the lists.
        is_needed: Whether it is an error that there is no element at all.
    """
    summary = growing.summary
    if summary.is_nested:
        return _rows_of_loops_within(growing)
    if dim is None and _has_numbers(growing):
        return growing.rows(lambda: _numbers(growing)), None
    elements = growing.tensors()
    template = elements or growing.items
    if not template and (summary.varies or not is_needed) and summary.kind is not None:
        dtype, shape = summary.kind
        with torch_overrides.without_modes():  # no iteration has appended one
            template = [torch.zeros(shape, dtype=dtype)]
    if not template and not is_needed:
        return None
    if not template:
        lists.lacks_elements = summary.varies
        raise EmptyList("a non-empty list of tensors is expected")  # as torch does, which logs it besides
    if not all(isinstance(each, torch.Tensor) for each in growing.items):
        return None
    some, loop = template[-1], growing.loop
    if any(each.dtype != some.dtype or each.dim() != some.dim() for each in elements):
        return None
    sizes = list(some.shape)
    if elements and all(isinstance(each, int) for each in sizes):
        summary.kind = some.dtype, sizes
    differing = {
        index
        for each in elements
        for index, size in enumerate(each.shape)
        if not torch_sizes.is_equal(size, sizes[index])
    }
    _learn_differing(growing, sizes, differing)
    if dim is not None and differing == {dim % some.dim()}:
        summary.differs_in = dim % some.dim()
    elif differing:
        return None
    # Before the first iteration there are none; the operator needs one for the dtype.
    if summary.differs_in is not None:
        if dim is None or summary.differs_in != dim % some.dim():
            return None
        dim = dim % some.dim()
        sizes[dim] = 0
        if elements and all(isinstance(each, int) for each in sizes):
            summary.kind = some.dtype, sizes
        total = None if summary.varies else sum_of_parts(growing, dim)
        return GATHERED_ALONG(elements or [some], total, sizes, growing.ends, loop.number, dim), dim
    if summary.varies:
        return growing.rows(
            lambda: GATHERED_ALONG(elements or [some], None, sizes, growing.ends, loop.number, None)
        ), None
    length = growing.count * loop.count()
    return GATHERED(elements or [some], length, sizes, growing.ends, loop.number), None


def _learn_differing(growing: AppendOnlyList, sizes: list[Any], differing: set[int]) -> None:
    """Takes one element, of which data decide a size, for one that differs in it until there are several."""
    summary, count = growing.summary, len(growing.tensors())
    if count > 1 and summary.is_assumed:
        summary.is_assumed = False
        if not differing:
            summary.differs_in = None
    of_data = [index for index, size in enumerate(sizes) if torch_sizes.is_of_data(size)]
    if count > 1:
        summary.is_compared = True
    elif count and len(of_data) == 1 and not summary.is_compared and summary.differs_in is None:
        summary.differs_in, summary.is_assumed = of_data[0], True


def _rows_of_loops_within(growing: AppendOnlyList) -> tuple[torch.Tensor, None] | None:
    """What iterations have appended in which loops have appended some."""
    elements = growing.inner.rows
    if elements:
        if any(each.dtype != elements[0].dtype or each.dim() != elements[0].dim() for each in elements):
            return None
        sizes = [0, *elements[0].shape[1:]]
        if not all(isinstance(each, int) for each in sizes):
            return None
        growing.summary.kind_of_rows = elements[0].dtype, sizes
    if growing.summary.kind_of_rows is None:
        return None
    dtype, sizes = growing.summary.kind_of_rows
    if not elements:
        with torch_overrides.without_modes():  # no iteration has appended any
            elements = [torch.zeros(sizes, dtype=dtype)]
    return growing.rows(lambda: GATHERED_ALONG(elements, None, sizes, growing.ends, growing.loop.number, 0)), None
