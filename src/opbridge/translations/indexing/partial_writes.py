"""A tensor with a part replaced: what functionalisation makes of a write to a view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.translations.lib.dims import Dim, all_known, axis_of, dim_of, maximum, positions, shape_of
from opbridge.translations.lib.dtypes import const, is_tensor
from opbridge.translations.lib.reshaping import ENDLESS, take_slice
from opbridge.translations.lib.scattering import index_along
from opbridge.translations.registry import builtin


@builtin("aten::select_scatter")
def select_scatter(self, src, dim: int, index):
    """select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor"""
    axis = axis_of(dim, len(self.shape))
    part = op.Unsqueeze(src, [axis])
    length = dim_of(self, axis)
    if is_tensor(index) or (index < 0 and not length.is_known):
        place = op.Where(index < 0, index + length.value, index) if is_tensor(index) else (length + index).value
        here = op.Equal(positions(length), place)
        later = list(range(1, len(self.shape) - axis))
        return op.Where(op.Unsqueeze(here, later) if later else here, part, self)
    start = Dim(index) if index >= 0 else length + index
    return _with_part(self, part, axis, start, start + 1)


@builtin("aten::slice_scatter")
def slice_scatter(self, src, dim: int = 0, start=None, end=None, step=1):
    """slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1)
    -> Tensor
    """
    axis = axis_of(dim, len(self.shape))
    length, count = dim_of(self, axis), dim_of(src, axis)
    start = 0 if start is None else start
    if is_tensor(start):
        first = Dim(op.Where(start < 0, op.Max(start + length.value, 0), start))
    else:
        first = maximum(length + start, 0) if start < 0 else Dim(start)
    if Dim(step) == 1:
        return _with_part(self, src, axis, first, first + count)
    places = op.Range(first.value, (first + count * step).value, step)
    index = index_along(places, axis, len(self.shape), op.Shape(src))
    return op.ScatterElements(self, index, src, axis=axis)


def _with_part(x: Any, part: Any, axis: int, start: Dim, end: Dim) -> Any:
    """A tensor whose elements from `start` to `end`, which count from the front, are replaced."""
    length = dim_of(x, axis)
    pieces = [part]
    if start != 0:
        pieces.insert(0, take_slice(x, axis, 0, start))
    if not (all_known(end, length) and end >= length):
        pieces.append(take_slice(x, axis, end, ENDLESS))
    return op.Concat(*pieces, axis=axis) if len(pieces) > 1 else op.Identity(part)


@builtin("aten::diagonal_scatter")
def diagonal_scatter(self, src, offset: int = 0, dim1: int = 0, dim2: int = 1):
    """diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor"""
    rank = len(self.shape)
    row, column = axis_of(dim1, len(self.shape)), axis_of(dim2, len(self.shape))
    # The diagonal runs along this axis from its start: the rows of one above the main diagonal, else the columns.
    along, across = (row, column) if offset >= 0 else (column, row)
    others = [axis for axis in range(rank) if axis not in (row, column)]
    # src has the other axes in their order and the diagonal's last; it goes where `along` is.
    order = [others.index(axis) if axis != along else rank - 2 for axis in range(rank) if axis != across]
    part = op.Transpose(src, perm=order)
    missing = dim_of(self, along) - dim_of(src, rank - 2)
    place = along - (across < along)
    part = op.Unsqueeze(op.Pad(part, shape_of([0, missing]), None, [place]), [across])
    rows, columns = positions(dim_of(self, row)), positions(dim_of(self, column))
    grid_rows = op.Unsqueeze(rows, [axis for axis in range(rank) if axis != row])
    grid_columns = op.Unsqueeze(columns, [axis for axis in range(rank) if axis != column])
    return op.Where(op.Equal(grid_columns - grid_rows, offset), part, self)


@builtin("aten::as_strided_scatter")
def as_strided_scatter(self, src, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None):
    """as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) ->
    Tensor
    """
    if not all_known(*size, *stride, storage_offset or 0):
        raise TranslationError("as_strided_scatter requires sizes and strides that are known at export.")
    places = np.full((), storage_offset or 0, dtype=np.int64)
    for length, step in zip(size, stride, strict=True):
        places = np.add.outer(places, np.arange(length) * step)
    flat = op.Reshape(self, [-1])
    scattered = op.ScatterElements(flat, const(places.ravel(), np.int64), op.Reshape(src, [-1]))
    return op.Reshape(scattered, op.Shape(self))


@builtin("aten::fill_diagonal_")
def fill_diagonal_(self, fill_value, wrap: bool = False):
    """fill_diagonal_(Tensor(a!) self, Scalar fill_value, bool wrap=False) -> Tensor(a!)"""
    rank = len(self.shape)
    first = positions(dim_of(self, 0))
    if wrap and rank == 2:  # after each square of rows, one row is left out
        first = op.Mod(first, (dim_of(self, 1) + 1).value)
    mask = None
    for axis in range(1, rank):
        place = op.Unsqueeze(positions(dim_of(self, axis)), list(range(1, rank - axis)))
        same = op.Equal(op.Unsqueeze(first, list(range(1, rank))), place)
        mask = same if mask is None else op.And(mask, same)
    value = op.CastLike(fill_value, self) if is_tensor(fill_value) else const(fill_value, self.dtype)
    return op.Where(mask, value, self)
