"""Reshape, Slice and Expand by sizes of which some may be known only when the model runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.dims import Dim, all_known, as_dims, is_static, shape_of
from opbridge.translations.lib.dtypes import described

__all__ = ["ENDLESS", "reshape", "take_slice", "unsqueeze_around", "with_batch"]

ENDLESS = (1 << 63) - 1
"""The end of a slice that takes everything."""


def reshape(x: Any, sizes: Sequence[Any]) -> Any:
    """A value in another shape.

    One unknown size is as good as -1, which keeps the shape a constant.

    Args:
        x: The value.
        sizes: The sizes, of which one may be -1. A size of 0 means no elements.
    """
    dims = as_dims(sizes)
    if -1 in dims and all_known(*dims) and is_static(x):
        others = math.prod(dim.value for dim in dims if dim != -1)
        if others:
            dims[dims.index(Dim(-1))] = Dim(math.prod(x.shape.numpy()) // others)
    shape = ir.Shape([None if dim.known in (None, -1) else dim.known for dim in dims])
    unknown = [position for position, dim in enumerate(dims) if not dim.is_known]
    if len(unknown) == 1 and 0 not in dims and -1 not in dims:
        dims[unknown[0]] = Dim(-1)
        unknown = []
    allows_zero = (0 in dims or bool(unknown)) and -1 not in dims
    return described(op.Reshape(x, shape_of(dims), allowzero=int(allows_zero)), shape, x.dtype)


def take_slice(x: Any, axis: int, start: Any, end: Any, step: Any = 1) -> Any:
    """x[start:end:step] along one axis."""
    start, end, step = as_dims((start, end, step))
    is_everything = start == 0 and end.is_known and end >= ENDLESS and step == 1
    return op.Identity(x) if is_everything else op.Slice(x, [start.value], [end.value], [axis], [step.value])


def unsqueeze_around(vector: Any, axis: int, rank: int) -> Any:
    """A vector as a tensor of a rank, whose other axes have size 1."""
    others = [other for other in range(rank) if other != axis]
    return op.Unsqueeze(vector, others) if others else vector


def with_batch(x: Any, rank: int, function: Callable[[Any], Any]) -> Any:
    """Applies a function that wants a batch dimension; an input of rank `rank - 1` is given one for the time being."""
    if len(x.shape) == rank:
        return function(x)
    results = function(described(op.Unsqueeze(x, [0]), ir.Shape([1, *x.shape]), x.dtype))
    if isinstance(results, Sequence):
        return [op.Squeeze(result, [0]) for result in results]
    return op.Squeeze(results, [0])
