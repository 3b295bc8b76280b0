"""A tensor with a part replaced: what functionalisation makes of a write to a view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.translations.lib.common import axis_of, const, size
from opbridge.translations.lib.scattering import index_along
from opbridge.translations.registry import builtin

_END = 2**63 - 1


@builtin("aten::select_scatter")
def select_scatter(self, src, dim: int, index):
    """select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor"""
    axis = axis_of(self, dim)
    part = op.Unsqueeze(src, [axis])
    length = size(self, axis)
    if not isinstance(index, int) or (index < 0 and not isinstance(length, int)):
        here = op.Equal(op.Range(0, length, 1), index if not isinstance(index, int) else length + index)
        later = list(range(1, len(self.shape) - axis))
        return op.Where(op.Unsqueeze(here, later) if later else here, part, self)
    start = index if index >= 0 else index + length
    return _between(self, part, axis, start, start + 1)


@builtin("aten::slice_scatter")
def slice_scatter(self, src, dim: int = 0, start=None, end=None, step=1):
    """slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1)
    -> Tensor
    """
    axis = axis_of(self, dim)
    length, count = size(self, axis), size(src, axis)
    start = 0 if start is None else start
    if isinstance(start, int) and start < 0:
        start = max(start + length, 0) if isinstance(length, int) else op.Max(length + start, 0)
    elif not isinstance(start, int):
        start = op.Where(start < 0, start + length, start)
    if isinstance(step, int) and step == 1:
        return _between(self, src, axis, start, start + count)
    places = op.Range(start, start + count * step, step)
    index = index_along(places, axis, len(self.shape), op.Shape(src))
    return op.ScatterElements(self, index, src, axis=axis)


def _between(x: Any, part: Any, axis: int, start: Any, end: Any) -> Any:
    """A tensor whose elements from `start` to `end`, which count from the front, are replaced."""
    length = x.shape[axis]
    pieces = [part]
    if not (isinstance(start, int) and start == 0):
        pieces.insert(0, op.Slice(x, [0], [start], [axis]))
    if not (isinstance(end, int) and isinstance(length, int) and end >= length):
        pieces.append(op.Slice(x, [end], [_END], [axis]))
    return op.Concat(*pieces, axis=axis) if len(pieces) > 1 else op.Identity(part)


@builtin("aten::diagonal_scatter")
def diagonal_scatter(self, src, offset: int = 0, dim1: int = 0, dim2: int = 1):
    """diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor"""
    rank = len(self.shape)
    row, column = axis_of(self, dim1), axis_of(self, dim2)
    # The diagonal runs along this axis from its start: the rows of one above the main diagonal, else the columns.
    along, across = (row, column) if offset >= 0 else (column, row)
    others = [axis for axis in range(rank) if axis not in (row, column)]
    # src has the other axes in their order and the diagonal's last; it goes where `along` is.
    order = [others.index(axis) if axis != along else rank - 2 for axis in range(rank) if axis != across]
    part = op.Transpose(src, perm=order)
    missing = size(self, along) - size(src, rank - 2)
    place = along - (across < along)
    part = op.Unsqueeze(op.Pad(part, [0, missing], None, [place]), [across])
    rows = op.Range(0, size(self, row), 1)
    columns = op.Range(0, size(self, column), 1)
    grid_rows = op.Unsqueeze(rows, [axis for axis in range(rank) if axis != row])
    grid_columns = op.Unsqueeze(columns, [axis for axis in range(rank) if axis != column])
    return op.Where(op.Equal(grid_columns - grid_rows, offset), part, self)


@builtin("aten::as_strided_scatter")
def as_strided_scatter(self, src, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None):
    """as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) ->
    Tensor
    """
    if not all(isinstance(number, int) for number in (*size, *stride, storage_offset or 0)):
        raise TranslationError("as_strided_scatter needs sizes and strides that are known at export.")
    places = np.full((), storage_offset or 0, dtype=np.int64)
    for length, step in zip(size, stride, strict=True):
        places = np.add.outer(places, np.arange(length) * step)
    flat = op.Reshape(self, [-1])
    scattered = op.ScatterElements(flat, const(places.ravel(), np.int64), op.Reshape(src, [-1]))
    return op.Reshape(scattered, op.Shape(self))
