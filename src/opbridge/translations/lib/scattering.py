"""ONNX's scatter operators, with the types and shapes that torch allows."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.dtypes import HALVES
from opbridge.translations.lib.reshaping import unsqueeze_around

__all__ = ["as_vector", "index_along", "scatter_elements", "scatter_nd"]

_BOOL, _FLOAT = ir.DataType.BOOL, ir.DataType.FLOAT
_OF_TRUTH = {"add": "max", "max": "max", "mul": "min", "min": "min"}


def scatter_elements(x: Any, index: Any, updates: Any, axis: int, reduction: str = "none") -> Any:
    """ScatterElements; with a reduction, of halves and truth values in float, as there are kernels for."""
    return _reducing(
        x, updates, reduction, lambda x, updates, how: op.ScatterElements(x, index, updates, axis=axis, reduction=how)
    )


def scatter_nd(x: Any, index: Any, updates: Any, reduction: str = "none") -> Any:
    """ScatterND, with the same care for types."""
    return _reducing(x, updates, reduction, lambda x, updates, how: op.ScatterND(x, index, updates, reduction=how))


def _reducing(x: Any, updates: Any, reduction: str, scatter: Any) -> Any:
    if reduction == "none":
        return scatter(x, updates, reduction)
    dtype = x.dtype
    wide = _FLOAT if dtype in HALVES or dtype == _BOOL else dtype
    how = _OF_TRUTH[reduction] if dtype == _BOOL else reduction
    return op.Cast(scatter(op.Cast(x, to=wide), op.Cast(updates, to=wide), how), to=dtype)


def as_vector(x: Any) -> Any:
    """A 0-d tensor as one element of a vector."""
    if x.shape:
        return x
    vector = op.Reshape(x, [1])
    vector.shape = ir.Shape([1])
    return vector


def index_along(index: Any, axis: int, rank: int, shape: Any) -> Any:
    """A vector of positions along one axis as the index of each element of a tensor of that shape."""
    return op.Expand(unsqueeze_around(index, axis, rank), shape)
