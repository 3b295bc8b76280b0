"""Sizes, some known at export and some only when the model runs, and reshaping by them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

__all__ = ["ENDLESS", "axes_of", "axis_of", "is_static", "product", "reshape", "take_slice"]

ENDLESS = (1 << 63) - 1
"""The end of a slice that takes everything."""


def axis_of(dim: int, rank: int) -> int:
    """A dimension counted from the front. A scalar has one dimension, as torch sees it."""
    return dim + max(rank, 1) if dim < 0 else dim


def axes_of(dims: Any, rank: int) -> list[int]:
    """Dimensions counted from the front; one number stands for itself."""
    listed = dims if isinstance(dims, (list, tuple)) else [dims]
    return [axis_of(dim, rank) for dim in listed]


def is_static(value: Any) -> bool:
    """Whether all sizes of a value are known."""
    return all(isinstance(dim, int) for dim in value.shape)


def product(dims: Sequence[Any]) -> Any:
    """The product of sizes: an int where all are known."""
    known = math.prod(dim for dim in dims if isinstance(dim, int))
    result: Any = None
    for dim in dims:
        if not isinstance(dim, int):
            result = dim if result is None else op.Mul(result, dim)
    if result is None:
        return known
    return result if known == 1 else op.Mul(result, known)


def reshape(value: Any, dims: Sequence[Any]) -> Any:
    """Reshape to sizes of which some may be known only when the model runs, and one may be -1.

    One unknown size is as good as -1, which keeps the shape a constant. A size of 0 means 0.
    """
    dims = list(dims)
    if value.shape is not None and is_static(value) and -1 in dims and all(isinstance(dim, int) for dim in dims):
        others = math.prod(dim for dim in dims if dim != -1)
        if others:
            dims[dims.index(-1)] = math.prod(value.shape.numpy()) // others
    unknown = [position for position, dim in enumerate(dims) if not isinstance(dim, int)]
    has_zero = 0 in [dim for dim in dims if isinstance(dim, int)]
    if len(unknown) == 1 and not has_zero and not any(isinstance(dim, int) and dim == -1 for dim in dims):
        dims[unknown[0]] = -1
        unknown = []
    has_rest = any(isinstance(dim, int) and dim == -1 for dim in dims)
    shape = dims if dims else op.Constant(value=ir.tensor([], dtype=ir.DataType.INT64))
    return op.Reshape(value, shape, allowzero=int((has_zero or bool(unknown)) and not has_rest))


def take_slice(value: Any, axis: int, start: Any, end: Any, step: Any = 1) -> Any:
    """value[start:end:step] along one dimension."""
    given = all(isinstance(bound, int) for bound in (start, end, step))
    is_everything = given and start == 0 and end >= ENDLESS and step == 1
    return op.Identity(value) if is_everything else op.Slice(value, [start], [end], [axis], [step])
