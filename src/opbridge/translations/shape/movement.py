"""Operators that repeat, turn, shift and pick elements."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.dims import (
    Dim,
    as_dims,
    axes_of,
    axis_of,
    dim_of,
    dims_of,
    maximum,
    minimum,
    positions,
    product,
    shape_of,
)
from opbridge.translations.lib.dtypes import cast, cast_like, is_tensor
from opbridge.translations.lib.reshaping import ENDLESS, reshape, take_slice
from opbridge.translations.registry import builtin
from opbridge.translations.shape.shape import expanded, permute

# Repeating


@builtin("aten::repeat")
def repeat(self, repeats):
    """repeat(Tensor self, SymInt[] repeats) -> Tensor"""
    added = len(repeats) - len(self.shape)
    dims, counts = [1] * added + list(self.shape), as_dims(repeats)
    x = op.Unsqueeze(self, list(range(added))) if added else self
    if all(count == 1 for count in counts):
        return op.Identity(x)
    if all(dim == 1 or count == 1 for dim, count in zip(dims, counts, strict=True)):
        return expanded(self, repeats)
    return op.Tile(x, shape_of(counts))


@builtin("aten::tile")
def tile(self, dims):
    """tile(Tensor self, SymInt[] dims) -> Tensor"""
    return repeat(self, [1] * (len(self.shape) - len(dims)) + list(dims))


@builtin("aten::repeat_interleave.self_int")
def repeat_interleave(self, repeats, dim=None, output_size=None):
    """repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor"""
    dims, axis = (dims_of(self), axis_of(dim, len(self.shape))) if dim is not None else ([product(dims_of(self))], 0)
    x = self if dim is not None and len(self.shape) else reshape(self, [-1])
    dims = dims or [Dim(1)]
    counts = [1] * (len(dims) + 1)
    counts[axis + 1] = repeats
    wide = op.Expand(op.Unsqueeze(x, [axis + 1]), shape_of(counts))
    return reshape(wide, [*dims[:axis], dims[axis] * repeats, *dims[axis + 1 :]])


@builtin("aten::repeat_interleave.self_Tensor")
def repeat_interleave_counts(self, repeats, dim=None, output_size=None):
    """repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? output_size=None)"""
    x = self if dim is not None and len(self.shape) else reshape(self, [-1])
    axis = axis_of(dim, len(self.shape)) if dim is not None else 0
    counts = cast(repeats, ir.DataType.INT64)
    if _may_be_one(repeats, x.shape[axis]):
        counts = op.Expand(counts, op.Shape(x, start=axis, end=axis + 1))
    return op.Gather(x, repeated_positions(counts), axis=axis)


def _may_be_one(repeats: Any, size: Any) -> bool:
    """Whether counts may be one that stands for all elements of a dimension of some size."""
    count = repeats.shape[0] if len(repeats.shape) else 1
    return count == 1 if isinstance(count, int) else count.value is None or count != size


@builtin("aten::repeat_interleave.Tensor")
def repeat_interleave_positions(repeats, output_size=None):
    """repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor"""
    return repeated_positions(cast(repeats, ir.DataType.INT64))


def repeated_positions(counts: Any) -> Any:
    """0 to len(counts) - 1, each as often as its count: the rows of the true elements of a ragged mask."""
    most = op.ReduceMax(op.Concat(counts, op.Constant(value_ints=[0]), axis=0), keepdims=0)
    mask = op.Less(op.Unsqueeze(positions(most), [0]), op.Unsqueeze(counts, [1]))
    return op.Gather(op.NonZero(mask), 0)


# Turning and shifting


@builtin("aten::flip")
def flip(self, dims):
    """flip(Tensor self, int[] dims) -> Tensor"""
    axes = axes_of(dims, len(self.shape)) if len(self.shape) else []
    if not axes:
        return op.Identity(self)
    count = len(axes)
    return op.Slice(self, [-1] * count, [-ENDLESS] * count, axes, [-1] * count)


@builtin("aten::fliplr")
def fliplr(self):
    """fliplr(Tensor self) -> Tensor"""
    return flip(self, [1])


@builtin("aten::flipud")
def flipud(self):
    """flipud(Tensor self) -> Tensor"""
    return flip(self, [0])


@builtin("aten::rot90")
def rot90(self, k: int = 1, dims=(0, 1)):
    """rot90(Tensor self, int k=1, int[] dims=[0,1]) -> Tensor"""
    rank = len(self.shape)
    first, second = axes_of(list(dims), rank)
    turns = k % 4
    if turns in (0, 2):
        return flip(self, [first, second]) if turns else op.Identity(self)
    order = list(range(rank))
    order[first], order[second] = second, first
    return op.Transpose(flip(self, [second if turns == 1 else first]), perm=order)


@builtin("aten::roll")
def roll(self, shifts, dims=()):
    """roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor"""
    shifts = shifts if isinstance(shifts, (list, tuple)) else [shifts]
    dims = dims if isinstance(dims, (list, tuple)) else [dims]
    if not dims:
        flat = reshape(self, [-1])
        return reshape(_roll_axis(flat, 0, shifts[0], product(dims_of(self))), dims_of(self))
    x = self
    for shift, axis in zip(shifts, axes_of(dims, len(self.shape)), strict=True):
        x = _roll_axis(x, axis, shift, dim_of(self, axis) if len(self.shape) else Dim(1))
    return op.Identity(x) if x is self else x


def _roll_axis(x: Any, axis: int, shift: Any, count: Dim) -> Any:
    """The last `shift` elements before the others, of `count` elements along an axis."""
    middle = count - Dim(shift) % maximum(count, 1)
    if middle == count:
        return x
    return op.Concat(take_slice(x, axis, middle, ENDLESS), take_slice(x, axis, 0, middle), axis=axis)


# Picking


@builtin("aten::narrow", "aten::narrow_copy", "aten::narrow.Tensor")
def narrow(self, dim: int, start, length):
    """narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)"""
    axis = axis_of(dim, len(self.shape))
    if is_tensor(start):
        start = cast(start, ir.DataType.INT64)
        start = op.Where(op.Less(start, 0), op.Add(start, dim_of(self, axis).value), start)
    elif start < 0:
        start = dim_of(self, axis) + start
    return take_slice(self, axis, start, Dim(start) + length)


@builtin("aten::select.int", "aten::select_copy.int")
def select(self, dim: int, index):
    """select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)"""
    return op.Gather(self, index, axis=axis_of(dim, len(self.shape)))


@builtin("aten::slice.Tensor", "aten::slice_copy.Tensor")
def slice_(self, dim: int = 0, start=None, end=None, step: int = 1):
    """slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)"""
    axis = axis_of(dim, len(self.shape))
    return take_slice(self, axis, 0 if start is None else start, ENDLESS if end is None else end, step)


@builtin("aten::unfold", "aten::unfold_copy")
def unfold(self, dimension: int, size: int, step: int):
    """unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)"""
    if len(self.shape) == 0:
        return take_slice(reshape(self, [1]), 0, 0, size)
    axis = axis_of(dimension, len(self.shape))
    windows = op.Gather(self, window_positions(dim_of(self, axis), size, step), axis=axis)
    rank = len(self.shape) + 1
    return op.Transpose(windows, perm=[*(each for each in range(rank) if each != axis + 1), axis + 1])


def window_positions(count: Dim, window: int, step: int, dilation: int = 1) -> Any:
    """The positions of each element of each window over `count` elements: (windows, window)."""
    reach = (window - 1) * dilation + 1 if window else 0
    starts = op.Range(0, (count - (reach - 1)).value, step)
    offsets = op.Constant(value_ints=[dilation * each for each in range(window)] if window else [0])
    offsets = offsets if window else op.Slice(offsets, [0], [0])
    return op.Add(op.Unsqueeze(starts, [1]), offsets)


# Diagonals


@builtin("aten::diagonal", "aten::diagonal_copy")
def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1):
    """diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)"""
    rank = len(self.shape)
    first, second = axes_of([dim1, dim2], rank)
    rest = [axis for axis in range(rank) if axis not in (first, second)]
    height, width = dim_of(self, first), dim_of(self, second)
    flat = reshape(permute(self, [*rest, first, second]), [*(dim_of(self, axis) for axis in rest), height * width])
    start = Dim(offset) if offset >= 0 else width * -offset
    count = maximum(minimum(height + min(offset, 0), width - max(offset, 0)), 0)
    # Where the matrix has no such diagonal, the slice is empty.
    end = start + count * (width + 1)
    return op.Slice(flat, shape_of([start]), shape_of([end]), [rank - 2], shape_of([width + 1]))


@builtin("aten::linalg_diagonal")
def linalg_diagonal(A, offset: int = 0, dim1: int = -2, dim2: int = -1):
    """linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)"""
    return diagonal(A, offset, dim1, dim2)


@builtin("aten::diag_embed")
def diag_embed(self, offset: int = 0, dim1: int = -2, dim2: int = -1):
    """diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor"""
    rank = len(self.shape) + 1
    first, second = axes_of([dim1, dim2], rank)
    if first > second:
        first, second, offset = second, first, -offset
    width = dim_of(self, -1) + abs(offset)
    # One row for each element, at its place among `width`; elsewhere the filling.
    padded = _padded_end(self, offset) if offset >= 0 else _padded_start(self, -offset)
    places = positions(width)
    mask = op.Equal(op.Sub(op.Unsqueeze(places, [0]), op.Unsqueeze(places, [1])), offset)
    column = op.Unsqueeze(padded, [-1])
    is_truth = self.dtype == ir.DataType.BOOL
    square = op.And(mask, column) if is_truth else op.Where(mask, column, cast_like(0, self))
    order: list[int] = []
    rest = iter(range(rank - 2))
    for axis in range(rank):
        order.append(rank - 2 if axis == first else rank - 1 if axis == second else next(rest))
    return op.Transpose(square, perm=order)


def _padded_end(x: Any, count: int) -> Any:
    return op.Concat(x, _zeros_beside(x, count), axis=-1) if count else x


def _padded_start(x: Any, count: int) -> Any:
    return op.Concat(_zeros_beside(x, count), x, axis=-1) if count else x


def _zeros_beside(x: Any, count: int) -> Any:
    """Zeros beside a tensor, as many along its last dimension as asked for."""
    return op.Expand(cast_like(0, x), shape_of([*dims_of(x)[:-1], count]))


@builtin("aten::diag")
def diag(self, diagonal: int = 0):
    """diag(Tensor self, int diagonal=0) -> Tensor"""
    return diag_embed(self, diagonal) if len(self.shape) == 1 else _diagonal(self, diagonal)


_diagonal = diagonal


@builtin("aten::diagflat")
def diagflat(self, offset: int = 0):
    """diagflat(Tensor self, int offset=0) -> Tensor"""
    flat = reshape(self, [-1])
    return diag_embed(flat, offset)


@builtin("aten::tril")
def tril(self, diagonal=0):
    """tril(Tensor self, SymInt diagonal=0) -> Tensor"""
    return op.Trilu(self, diagonal, upper=0)


@builtin("aten::triu")
def triu(self, diagonal=0):
    """triu(Tensor self, SymInt diagonal=0) -> Tensor"""
    return op.Trilu(self, diagonal, upper=1)


@builtin("aten::tril_indices")
def tril_indices(row, col, offset: int = 0, dtype=ir.DataType.INT64):
    """tril_indices(int row, int col, int offset=0, *, ScalarType? dtype=long, ...) -> Tensor"""
    return _triangle(row, col, offset, dtype, upper=0)


@builtin("aten::triu_indices")
def triu_indices(row, col, offset: int = 0, dtype=ir.DataType.INT64):
    """triu_indices(int row, int col, int offset=0, *, ScalarType? dtype=long, ...) -> Tensor"""
    return _triangle(row, col, offset, dtype, upper=1)


def _triangle(row: Any, col: Any, offset: int, dtype: int | None, *, upper: int) -> Any:
    places = op.NonZero(op.Trilu(op.Expand(True, shape_of([row, col])), offset, upper=upper))
    return places if dtype in (None, -1) else cast(places, dtype)
