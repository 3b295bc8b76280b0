"""The shape of what scaled_dot_product_attention gives, without the questions by which torch selects a kernel.

torch asks, for instance, whether a mask for each of `n` windows is one for a single window, and the capture would not
be valid where there is one. The kernels differ in the strides of the result: some give those of the queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from opbridge.base.torch_private import torch_sizes
from opbridge.capture.tracer.plain_operands import is_plain, new
from opbridge.capture.tracer.shapes_of_parts import is_dynamic

__all__ = ["attention", "is_attention"]

_IN_ORDER = [0, 1, 2, 3]
_HEADS_INSIDE = [0, 2, 1, 3]
"""The order in memory of queries that are a view of (batch, length, heads, features)."""


def is_attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    dropout: Any = 0.0,
    is_causal: Any = False,
    *,
    scale: Any = None,
    enable_gqa: Any = False,
) -> bool:
    """Whether `attention` gives the shape and the strides of an attention, of sizes that are seen to fit."""
    given = (query, key, value)
    fits = (
        dropout == 0.0
        and type(is_causal) is bool
        and (mask is None or not is_causal)
        and len({each.dim() for each in given}) == 1
        and query.dim() in (3, 4)
        and all(map(is_plain, given))
        and len({(each.dtype, each.device) for each in given}) == 1
        and all(map(torch_sizes.is_equal, key.shape[:-1], value.shape[:-1]))
        and torch_sizes.is_equal(query.shape[0], key.shape[0])
        and torch_sizes.is_equal(query.shape[-1], key.shape[-1])
        and (query.dim() == 3 or _are_heads(query.shape[1], key.shape[1], enable_gqa is True))
        and (mask is None or _is_mask(mask, query, (*query.shape[:-1], key.shape[-2])))
    )
    return fits and (_is_of_data(given) or _has_known_strides(query, key, value, mask))


def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *settings: Any) -> torch.Tensor:
    """What attention gives: (*the shape of the queries without features, features of the values)."""
    shape = (*query.shape[:-1], value.shape[-1])
    if _is_of_data((query, key, value)):
        return query.new_empty(shape)
    if torch_sizes.memory_order(query) == _HEADS_INSIDE:
        return new(query, (shape[0], shape[2], shape[1], shape[3])).transpose(1, 2)
    return new(query, shape)


def _is_of_data(given: Sequence[torch.Tensor]) -> bool:
    return any(torch_sizes.is_of_data(each.shape[-2]) for each in given)


def _has_known_strides(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None) -> bool:
    """Whether the strides are seen for whatever kernel torch selects, with four dimensions, some of them dynamic."""
    if query.dim() != 4 or not any(map(is_dynamic, (query, key, value))):
        return False
    if query.requires_grad or (mask is not None and mask.requires_grad):
        return False
    order = torch_sizes.memory_order(query)
    if order == _IN_ORDER:
        return True
    # One kernel alone is selected for these, and it gives the strides of the queries.
    return (
        order == _HEADS_INSIDE
        and torch_sizes.is_equal(query.shape[1], key.shape[1])
        and torch_sizes.is_equal(query.shape[-1], value.shape[-1])
        and (mask is None or mask.dim() in (2, 4))
        and all(type(each.stride(-1)) is int and each.stride(-1) == 1 for each in (query, key, value))
    )


def _are_heads(count: Any, of_keys: Any, grouped: bool) -> bool:
    """Whether there are as many heads of queries as of keys, or, where they are grouped, a multiple of these."""
    is_multiple = type(count) is int and type(of_keys) is int and of_keys > 0 and count % of_keys == 0
    return torch_sizes.is_equal(count, of_keys) or (grouped and is_multiple)


def _is_mask(mask: torch.Tensor, query: torch.Tensor, shape: Sequence[Any]) -> bool:
    """Whether a mask is broadcast to a shape, and of a dtype that attention takes.

    Where that is not plain to see of a size, as of a table for 7 x 7 positions beside a window of `min(h, 7)` squared,
    it is asked, as torch asks it: for other sizes the model fails.
    """
    if mask.dtype not in (torch.bool, query.dtype) or mask.dim() > len(shape):
        return False
    return all(
        torch_sizes.is_equal(one, size) or torch_sizes.is_one_or_none_of(one, size) or torch_sizes.ask_equal(one, size)
        for one, size in zip(reversed(mask.shape), reversed(shape), strict=False)
    )
