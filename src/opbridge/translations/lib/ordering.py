"""The order of elements: ONNX's TopK, which is stable in ONNX Runtime, with a nan above every number, as in torch."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.dims import Dim, dim_of, shape_of
from opbridge.translations.lib.dtypes import FLOATS, cast, const

__all__ = ["last_position", "sorted_positions", "take_along_axis"]

_DOUBLE = ir.DataType.DOUBLE


def sorted_positions(x: Any, axis: int, *, descending: bool = False, first: Any = None) -> Any:
    """The positions of the elements along an axis in their order, equal elements staying in theirs.

    Args:
        x: An argument, of known rank, not 0-d.
        axis: The axis, from the front.
        descending: Whether the largest come first.
        first: How many positions are wanted; all by default.
    """
    count = Dim(dim_of(x, axis) if first is None else first)
    if x.dtype not in FLOATS:
        return _topk(x, count, axis, descending)
    is_nan = op.IsNaN(x)
    if x.dtype != _DOUBLE and first is not None:
        # Double has room between the largest number and inf, and inf for nan then: no more than the first are sorted.
        bounded = op.Min(cast(x, _DOUBLE), const(1e300, _DOUBLE))
        key = op.Where(is_nan, const(math.inf, _DOUBLE), bounded)
        return _topk(key, count, axis, descending)
    # By value, and then, since sorting is stable, the nans to their end.
    by_value = _topk(op.Where(is_nan, math.inf, x), dim_of(x, axis), axis, descending)
    nan_last = op.GatherElements(op.Cast(is_nan, to=ir.DataType.FLOAT), by_value, axis=axis)
    return op.GatherElements(by_value, _topk(nan_last, count, axis, descending), axis=axis)


def _topk(key: Any, count: Dim, axis: int, descending: bool) -> Any:
    return op.TopK(key, shape_of([count]), axis=axis, largest=int(descending))[1]


def take_along_axis(x: Any, positions: Any, axis: int) -> Any:
    """The elements at positions along an axis."""
    return op.GatherElements(x, positions, axis=axis)


def last_position(positions: Any, axis: int) -> Any:
    """The last of the positions along an axis, which stays with size 1."""
    return op.Gather(positions, [-1], axis=axis)
