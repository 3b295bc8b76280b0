"""Elements put at, added to and taken from positions: scatter, gather, put, take and the operators of index_*."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.translations.lib.dims import axis_of, dim_of, dims_of, shape_of
from opbridge.translations.lib.dtypes import FLOATS, HALVES, cast_like, const, is_number
from opbridge.translations.lib.scattering import as_vector, index_along, scatter_elements, scatter_nd
from opbridge.translations.registry import builtin

_BOOL, _FLOAT, _INT64, _UINT8 = ir.DataType.BOOL, ir.DataType.FLOAT, ir.DataType.INT64, ir.DataType.UINT8
_REDUCTIONS = {"add": "add", "multiply": "mul", "sum": "add", "prod": "mul", "amax": "max", "amin": "min"}


# scatter


@builtin("aten::scatter.src")
def scatter(self, dim: int, index, src):
    """scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor"""
    return _scattered(self, dim, index, src, "none")


@builtin("aten::scatter.value")
def scatter_value(self, dim: int, index, value):
    """scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor"""
    return _scattered(self, dim, index, _fill_like_index(value, self, index), "none")


@builtin("aten::scatter.reduce")
def scatter_with_reduction(self, dim: int, index, src, reduce: str):
    """scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor"""
    return _scattered(self, dim, index, src, _REDUCTIONS[reduce])


@builtin("aten::scatter.value_reduce")
def scatter_value_with_reduction(self, dim: int, index, value, reduce: str):
    """scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor"""
    return _scattered(self, dim, index, _fill_like_index(value, self, index), _REDUCTIONS[reduce])


@builtin("aten::scatter_add")
def scatter_add(self, dim: int, index, src):
    """scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor"""
    return _scattered(self, dim, index, src, "add")


def _scattered(x: Any, dim: int, index: Any, src: Any, reduction: str) -> Any:
    if 0 in index.shape:
        return op.Identity(x)
    scattered = scatter_elements(
        as_vector(x), _as_int64(as_vector(index)), _crop_to_index(src, index), axis_of(dim, len(x.shape)), reduction
    )
    return scattered if x.shape else op.Reshape(scattered, [])


def _fill_like_index(value: Any, x: Any, index: Any) -> Any:
    filled = op.Expand(cast_like(value, x), op.Shape(index))
    filled.shape = index.shape
    return filled


def _crop_to_index(src: Any, index: Any) -> Any:
    """The part of `src` that an index of a smaller shape reads; ONNX wants the two to be of one shape."""
    if not src.shape or not index.shape:
        return op.Reshape(src, [-1]) if not src.shape else op.Slice(src, [0], [1])
    if [str(dim) for dim in src.shape] == [str(dim) for dim in index.shape]:
        return src
    rank = len(index.shape)
    return op.Slice(src, [0] * rank, op.Shape(index), list(range(rank)))


def _as_int64(index: Any) -> Any:
    if index.dtype in (_INT64, ir.DataType.INT32):
        return index
    return op.Cast(index, to=_INT64)


@builtin("aten::scatter_reduce.two")
def scatter_reduce(self, dim: int, index, src, reduce: str, include_self: bool = True):
    """scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) ->
    Tensor
    """
    if 0 in index.shape:
        return op.Identity(self)
    x, places = as_vector(self), as_vector(index)
    updates, shape, axis = _crop_to_index(src, index), op.Shape(places), axis_of(dim, len(x.shape))
    reduced = _reduced_into(x, _as_int64(places), updates, shape, axis, reduce, include_self)
    return reduced if self.shape else op.Reshape(reduced, [])


@builtin("aten::index_reduce")
def index_reduce(self, dim: int, index, source, reduce: str, include_self: bool = True):
    """index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True)
    -> Tensor
    """
    x, updates = as_vector(self), as_vector(source)
    axis, shape = axis_of(dim, len(x.shape)), op.Shape(updates)
    places = index_along(_as_int64(as_vector(index)), axis, len(x.shape), shape)
    reduced = _reduced_into(x, places, updates, shape, axis, reduce, include_self)
    return reduced if self.shape else op.Reshape(reduced, [])


def _reduced_into(x: Any, index: Any, src: Any, shape: Any, axis: int, reduce: str, include_self: bool) -> Any:
    """Reduces the elements that go to one place, together with the one that is there or without it."""
    dtype = x.dtype
    if dtype in HALVES:
        x, src = op.Cast(x, to=_FLOAT), op.Cast(src, to=_FLOAT)

    def ones(value: Any, like: Any) -> Any:
        return op.Expand(cast_like(value, like), shape)

    if reduce == "mean":
        counts = op.CastLike(op.Expand(1 if include_self else 0, op.Shape(x)), x)
        counts = scatter_elements(counts, index, ones(1, x), axis, "add")
        base = x if include_self else scatter_elements(x, index, ones(0, x), axis)
        total = scatter_elements(base, index, src, axis, "add")
        counts = op.Max(counts, 1)
        if dtype in FLOATS:
            return op.Cast(total / counts, to=dtype)
        # Integers are divided downwards: what Mod leaves over has the divisor's sign, and is none here.
        return (total - op.Mod(total, counts)) / counts
    how = _REDUCTIONS.get(reduce)
    if how is None:
        raise TranslationError(f"Unknown reduction '{reduce}'; expected sum, prod, mean, amax or amin.")
    base = x if include_self else scatter_elements(x, index, ones(_neutral(how, x.dtype), x), axis)
    result = scatter_elements(base, index, src, axis, how)
    if how in ("max", "min") and dtype in FLOATS:
        # ONNX Runtime's maximum of a nan and a number may be the number, torch's is nan.
        nans = scatter_elements(
            op.Cast(op.IsNaN(base), to=_FLOAT), index, op.Cast(op.IsNaN(src), to=_FLOAT), axis, "max"
        )
        result = op.Where(op.Cast(nans, to=_BOOL), math.nan, result)
    return op.Cast(result, to=dtype)


def _neutral(how: str, dtype: Any) -> Any:
    if how in ("add", "mul"):
        return 0 if how == "add" else 1
    if dtype in FLOATS:
        return -math.inf if how == "max" else math.inf
    if dtype == _BOOL:
        return how == "min"
    limits = np.iinfo(dtype.numpy())
    return int(limits.min if how == "max" else limits.max)


# index_*


@builtin("aten::index_add")
def index_add(self, dim: int, index, source, alpha=1):
    """index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor"""
    source_shape = source.shape
    if not is_number(alpha, 1):
        source = source * cast_like(alpha, source)
        source.shape = source_shape
    return _indexed(self, dim, index, source, "add")


@builtin("aten::index_copy")
def index_copy(self, dim: int, index, source):
    """index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor"""
    return _indexed(self, dim, index, source, "none")


def _indexed(x: Any, dim: int, index: Any, source: Any, reduction: str) -> Any:
    """Whole slices along an axis put at positions."""
    vector, updates, axis = as_vector(x), as_vector(source), axis_of(dim, len(x.shape))
    places = _as_int64(as_vector(index))
    if axis == 0:
        result = scatter_nd(vector, op.Unsqueeze(op.Cast(places, to=_INT64), [1]), updates, reduction)
    else:
        places = index_along(places, axis, len(vector.shape), op.Shape(updates))
        result = scatter_elements(vector, places, updates, axis, reduction)
    return result if x.shape else op.Reshape(result, [])


@builtin("aten::index_fill.int_Scalar", "aten::index_fill.int_Tensor")
def index_fill(self, dim: int, index, value):
    """index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor"""
    if not self.shape:
        return cast_like(value, self) if 0 not in index.shape else op.Identity(self)
    axis = axis_of(dim, len(self.shape))
    places = _as_int64(as_vector(index))
    none = op.Expand(op.Constant(value=ir.tensor([False])), shape_of([dim_of(self, axis)]))
    chosen = op.ScatterElements(none, places, op.Expand(op.Constant(value=ir.tensor([True])), op.Shape(places)))
    later = list(range(1, len(self.shape) - axis))
    return op.Where(op.Unsqueeze(chosen, later) if later else chosen, cast_like(value, self), self)


@builtin("aten::index_select")
def index_select(self, dim: int, index):
    """index_select(Tensor self, int dim, Tensor index) -> Tensor"""
    if not self.shape:
        return op.Identity(self)
    return op.Gather(self, as_vector(index), axis=axis_of(dim, len(self.shape)))


# gather, take and put


@builtin("aten::gather")
def gather(self, dim: int, index, sparse_grad: bool = False):
    """gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor"""
    if len(self.shape) != len(index.shape) or not self.shape:
        # One of them is 0-d, or the index is empty.
        return op.Gather(op.Reshape(self, [-1]), index)
    return op.GatherElements(self, _as_int64(index), axis=axis_of(dim, len(self.shape)))


@builtin("aten::take_along_dim")
def take_along_dim(self, indices, dim: int | None = None):
    """take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor"""
    if dim is None:
        return op.GatherElements(op.Reshape(self, [-1]), op.Reshape(_as_int64(indices), [-1]), axis=0)
    axis = axis_of(dim, len(self.shape))
    sizes, wanted = ([1 if at == axis else size for at, size in enumerate(dims_of(x))] for x in (self, indices))
    if sizes != wanted:
        self, indices = op.Expand(self, shape_of(wanted)), op.Expand(indices, shape_of(sizes))
    return op.GatherElements(self, _as_int64(indices), axis=axis)


@builtin("aten::take")
def take(self, index):
    """take(Tensor self, Tensor index) -> Tensor"""
    return op.Gather(op.Reshape(self, [-1]), index)


@builtin("aten::put")
def put(self, index, source, accumulate: bool = False):
    """put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor"""
    flat, places, updates = (op.Reshape(each, [-1]) for each in (self, index, source))
    return op.Reshape(scatter_elements(flat, places, updates, 0, "add" if accumulate else "none"), op.Shape(self))


@builtin("aten::masked_select")
def masked_select(self, mask):
    """masked_select(Tensor self, Tensor mask) -> Tensor"""
    if not self.shape and not mask.shape:
        return op.Gather(as_vector(self), op.Reshape(op.NonZero(as_vector(mask)), [-1]))
    if [str(dim) for dim in self.shape] != [str(dim) for dim in mask.shape]:
        # Each of the two is given the shape that they have in common.
        self, mask = op.Expand(self, op.Shape(mask)), op.Expand(mask, op.Shape(self))
    places = op.NonZero(op.Reshape(mask, [-1]))
    return op.Gather(op.Reshape(self, [-1]), op.Reshape(places, [-1]))


@builtin("aten::masked_scatter")
def masked_scatter(self, mask, source):
    """masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor"""
    rows = _masked_rows(self, mask, source)
    if rows is not None:
        # The running count of the rows is the number of the row of source; before the first one stands a row of zeros.
        numbers = op.CumSum(op.Cast(op.Reshape(rows, [-1]), to=_INT64), const(0))
        zeros = const(np.zeros([1, self.shape[-1]]), source.dtype)
        chosen = op.Gather(op.Concat(zeros, source, axis=0), numbers, axis=0)
        return op.Where(rows, op.Reshape(chosen, op.Shape(self)), self)
    mask = op.Expand(mask, op.Shape(self))
    self = op.Expand(self, op.Shape(mask))
    flat_mask = op.Reshape(mask, [-1])
    places = op.Reshape(op.NonZero(flat_mask), [-1])
    updates = op.Slice(op.Reshape(source, [-1]), [0], op.Shape(places), [0])
    return op.Reshape(op.ScatterElements(op.Reshape(self, [-1]), places, updates), op.Shape(mask))


def _masked_rows(x: Any, mask: Any, source: Any) -> Any:
    """Which rows of x a mask takes that was expanded along them, as (..., 1); None where it was not.

    This is how the features of images take the places of tokens: source has these rows.
    """
    producer = mask.producer()
    if producer is None or producer.op_type != "Expand" or len(source.shape) != 2:
        return None
    before, dims = producer.inputs[0], list(map(str, x.shape))
    if before.shape is None or len(before.shape) != len(dims) or list(map(str, mask.shape)) != dims:
        return None
    if before.shape[-1] != 1 or not isinstance(x.shape[-1], int) or source.shape[-1] != x.shape[-1]:
        return None
    return op.Expand(before, shape_of([*dims_of(x)[:-1], 1]))


# Positions of the elements that are not zero


def _for_nonzero(x: Any) -> Any:
    """A tensor in a type that ONNX Runtime's NonZero takes."""
    return x if x.dtype in (_BOOL, _FLOAT, _INT64, _UINT8, ir.DataType.INT32) else op.Cast(x, to=_BOOL)


@builtin("aten::nonzero", "aten::argwhere")
def nonzero(self):
    """nonzero(Tensor self) -> Tensor"""
    rows = op.Transpose(op.NonZero(_for_nonzero(self)), perm=[1, 0])
    # ONNX Runtime gives a 0-d tensor's only element a coordinate; it has none.
    return rows if self.shape else op.Slice(rows, [0], [0], [1])


@builtin("aten::nonzero_numpy")
def nonzero_numpy(self):
    """nonzero_numpy(Tensor self) -> Tensor[]"""
    positions = op.NonZero(_for_nonzero(as_vector(self)))
    return [op.Gather(positions, axis, axis=0) for axis in range(max(len(self.shape), 1))]


@builtin("aten::nonzero_static")
def nonzero_static(self, size, fill_value: int = -1):
    """nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor"""
    padding = op.Expand(fill_value, [size, len(self.shape)])
    return op.Slice(op.Concat(nonzero(self), padding, axis=0), [0], [size], [0])
