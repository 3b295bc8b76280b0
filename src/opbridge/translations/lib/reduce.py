"""Reductions over torch's dimensions: one, several, none (which mean all), and those of a 0-d tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.dims import axes_of
from opbridge.translations.lib.dtypes import FLOATS, convert

__all__ = ["any_nan", "cast_for_sum", "is_any", "marks", "reduce", "reduced_axes"]


def reduced_axes(x: Any, dim: Any) -> list[int]:
    """The axes that a reduction's argument `dim` names: None and an empty list mean all, and a 0-d tensor has none."""
    rank = len(x.shape)
    if not rank:
        return []
    return list(range(rank)) if dim is None or dim in ([], ()) else axes_of(dim, rank)


def reduce(reduction: Callable[..., Any], x: Any, like: Any, dim: Any, keepdim: bool) -> Any:
    """One of ONNX's Reduce operators over torch's `dim`.

    Args:
        reduction: Such as op.ReduceSum.
        x: What to reduce.
        like: An argument of the same rank, which tells how many dimensions there are.
        dim: An int, a list, or None for all.
        keepdim: Whether the reduced dimensions stay, with size 1.
    """
    axes = reduced_axes(like, dim)
    if sorted(axes) == list(range(len(like.shape))):
        return reduction(x, keepdims=int(keepdim))
    return reduction(x, axes, keepdims=int(keepdim))


def cast_for_sum(x: Any, dtype: Any) -> Any:
    """A tensor in the type that its elements are summed in: int64 for all integers unless `dtype=` says otherwise."""
    if dtype in (None, -1) and x.dtype not in FLOATS:
        return op.Cast(x, to=ir.DataType.INT64)
    return convert(x, dtype)


def any_nan(x: Any, dim: Any, keepdim: bool) -> Any:
    """Whether there is a nan among the elements over `dim`."""
    return is_any(reduce(op.ReduceMax, marks(op.IsNaN(x)), x, dim, keepdim))


def marks(truths: Any) -> Any:
    """Truth values as numbers, in a type that every runtime reduces."""
    return op.Cast(truths, to=ir.DataType.FLOAT)


def is_any(largest: Any) -> Any:
    """Whether one of the truth values was true, by the largest of their marks: of none, it is minus infinity."""
    return op.Greater(largest, 0.0)
