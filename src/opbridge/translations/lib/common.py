"""What several families of translations share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.sizes import reshape

__all__ = [
    "FLOATS",
    "HALVES",
    "axis_of",
    "cast",
    "const",
    "count",
    "may_be_empty",
    "per_dim",
    "reshaped",
    "size",
    "sizes",
    "widened",
    "with_batch",
]

HALVES = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, *HALVES})


def size(value: Any, axis: int) -> Any:
    """A dimension's size: an int where it is known, an int64 scalar of the graph where it is not."""
    axis = axis + len(value.shape) if axis < 0 else axis
    dim = value.shape[axis]
    return dim if isinstance(dim, int) else op.Gather(op.Shape(value), axis)


def sizes(value: Any) -> list[Any]:
    """All sizes of a value, as `size` gives them."""
    return [size(value, axis) for axis in range(len(value.shape))]


def const(array: Any, dtype: Any = None) -> Any:
    """A constant of the graph from an array or nested lists, of a numpy or ONNX type."""
    if isinstance(dtype, ir.DataType):
        return op.Constant(value=ir.tensor(np.asarray(array).astype(dtype.numpy()), dtype=dtype))
    return op.Constant(value=ir.tensor(np.asarray(array, dtype=dtype)))


def cast(value: Any, dtype: ir.DataType) -> Any:
    """A value as another type; its shape stays known."""
    if value.dtype == dtype:
        return value
    result = op.Cast(value, to=dtype)
    result.shape, result.dtype = value.shape, dtype
    return result


def widened(value: Any) -> Any:
    """A float16 or bfloat16 value as float32, in which torch computes what takes several steps; others as they are."""
    return cast(value, ir.DataType.FLOAT) if value is not None and value.dtype in HALVES else value


def reshaped(value: Any, shape: Sequence[Any]) -> Any:
    """A value in another shape, each size an int or a scalar of the graph; a size of 0 means no elements."""
    known = [dim if isinstance(dim, int) and dim >= 0 else None for dim in shape]
    result = reshape(value, shape)
    if result.producer() is not None:
        # torch.onnx.export, which may call translations too, finds no types out while they run.
        result.shape, result.dtype = ir.Shape(known), value.dtype
    return result


def per_dim(given: Any, count: int) -> list[Any]:
    """An argument such as a stride or a padding, one for each of `count` dimensions; torch lets one stand for all."""
    items = list(given) if isinstance(given, (list, tuple)) else [given]
    return items * count if len(items) == 1 else items


def with_batch(value: Any, rank: int, function: Callable[[Any], Any]) -> Any:
    """Applies a function that wants a batch dimension; an input of rank `rank - 1` is given one for the time being."""
    if len(value.shape) == rank:
        return function(value)
    batched = op.Unsqueeze(value, [0])
    batched.shape, batched.dtype = ir.Shape([1, *value.shape]), value.dtype
    results = function(batched)
    if isinstance(results, Sequence):
        return [op.Squeeze(result, [0]) for result in results]
    return op.Squeeze(results, [0])


def axis_of(value: Any, dim: int) -> int:
    """A dimension counted from the front; 0 for a 0-d tensor, whose only dimensions are 0 and -1 for torch."""
    return dim % max(len(value.shape), 1)


def count(value: Any, axes: Iterable[int] | None = None) -> Any:
    """The number of elements over some axes (all by default): an int, or an int64 value with one element."""
    total: Any = 1
    for axis in range(len(value.shape)) if axes is None else axes:
        total = total * size(value, axis)
    return total


_UNBACKED = re.compile(r"\bu\d+\b")


def may_be_empty(value: Any, axes: Iterable[int] | None = None) -> bool:
    """Whether one of the axes is empty, or is counted when the model runs, as the rows are that a mask selects.

    torch.export takes it for granted that no dynamic size of an input is 0.
    """
    dims = [value.shape[axis] for axis in (range(len(value.shape)) if axes is None else axes)]
    return any(dim == 0 if isinstance(dim, int) else bool(_UNBACKED.search(str(dim))) for dim in dims)
