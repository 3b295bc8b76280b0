"""Sorting, unique elements, and search in sorted sequences."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.dims import Dim, axis_of, dim_of, shape_of
from opbridge.translations.lib.dtypes import FLOATS
from opbridge.translations.lib.ordering import sorted_positions, take_along_axis
from opbridge.translations.lib.promotion import promote
from opbridge.translations.lib.reduce import is_any, marks
from opbridge.translations.registry import builtin

_INT64 = ir.DataType.INT64


@builtin("aten::sort")
def sort(self, dim: int = -1, descending: bool = False):
    """sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)"""
    if not self.shape:
        return op.Identity(self), op.Constant(value_int=0)
    axis = axis_of(dim, len(self.shape))
    if self.dtype not in FLOATS:
        # No nan: the values come with the positions.
        values, places = op.TopK(self, shape_of([dim_of(self, axis)]), axis=axis, largest=int(descending))
        return values, places
    positions = sorted_positions(self, axis, descending=descending)
    return take_along_axis(self, positions, axis), positions


@builtin("aten::sort.stable")
def sort_stable(self, stable: bool | None = None, dim: int = -1, descending: bool = False):
    """sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False)
    -> (Tensor values, Tensor indices)
    """
    return sort(self, dim, descending)


@builtin("aten::argsort")
def argsort(self, dim: int = -1, descending: bool = False):
    """argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor"""
    return (
        sorted_positions(self, axis_of(dim, len(self.shape)), descending=descending)
        if self.shape
        else op.Constant(value_int=0)
    )


@builtin("aten::argsort.stable")
def argsort_stable(self, stable: bool = False, dim: int = -1, descending: bool = False):
    """argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor"""
    return argsort(self, dim, descending)


@builtin("aten::topk")
def topk(self, k, dim: int = -1, largest: bool = True, sorted: bool = True):
    """topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True)
    -> (Tensor values, Tensor indices)
    """
    axis = axis_of(dim, len(self.shape))
    if self.shape:
        return op.TopK(self, [k], axis=axis, largest=int(largest), sorted=int(sorted))
    values, positions = op.TopK(op.Reshape(self, [1]), [k], axis=0, largest=int(largest))
    return (op.Reshape(values, []), op.Reshape(positions, [])) if k == 1 else (values, positions)


# Unique elements


@builtin("aten::_unique2")
def unique2(self, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False):
    """_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor,
    Tensor)
    """
    flat = op.Reshape(self, [-1])
    flat.shape = ir.Shape([None])
    positions = sorted_positions(flat, 0)
    in_order = op.Gather(flat, positions)
    is_new = _differs_from_the_one_before(in_order)
    starts = op.Reshape(op.NonZero(is_new), [-1])
    inverse = op.Reshape(op.ScatterElements(positions, positions, _group(is_new)), op.Shape(self))
    return op.Gather(in_order, starts), inverse, _run_lengths(starts, is_new)


@builtin("aten::_unique")
def unique(self, sorted: bool = True, return_inverse: bool = False):
    """_unique(Tensor self, bool sorted=True, bool return_inverse=False) -> (Tensor, Tensor)"""
    return unique2(self, sorted, return_inverse)[:2]


@builtin("aten::unique_consecutive")
def unique_consecutive(self, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None):
    """unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) -> (Tensor,
    Tensor, Tensor)
    """
    if dim is not None:
        return unique_dim_consecutive(self, dim, return_inverse, return_counts)
    flat = op.Reshape(self, [-1])
    is_new = _differs_from_the_one_before(flat)
    starts = op.Reshape(op.NonZero(is_new), [-1])
    return op.Gather(flat, starts), op.Reshape(_group(is_new), op.Shape(self)), _run_lengths(starts, is_new)


@builtin("aten::unique_dim_consecutive")
def unique_dim_consecutive(self, dim: int, return_inverse: bool = False, return_counts: bool = False):
    """unique_dim_consecutive(Tensor self, int dim, bool return_inverse=False, bool return_counts=False) -> (Tensor,
    Tensor, Tensor)
    """
    axis = axis_of(dim, len(self.shape))
    rows = op.Flatten(op.Transpose(self, perm=[axis, *(other for other in range(len(self.shape)) if other != axis)]))
    here, before = op.Slice(rows, [1], [_END], [0]), op.Slice(rows, [0], [-1], [0])
    differs = is_any(op.ReduceMax(marks(op.Not(op.Equal(here, before))), [1], keepdims=0))
    is_new = op.Concat(_true_unless_empty(rows), differs, axis=0)
    starts = op.Reshape(op.NonZero(is_new), [-1])
    return op.Gather(self, starts, axis=axis), _group(is_new), _run_lengths(starts, is_new)


@builtin("aten::unique_dim")
def unique_dim(self, dim: int, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False):
    """unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False) ->
    (Tensor, Tensor, Tensor)
    """
    x = op.Cast(self, to=_INT64) if self.dtype not in FLOATS else self
    unique, _, inverse, counts = op.Unique(x, axis=axis_of(dim, len(self.shape)), sorted=1)
    return unique, inverse, counts


_END = 2**63 - 1


def _true_unless_empty(x: Any) -> Any:
    """[True], or nothing where x has no first element."""
    return op.Expand(op.Constant(value=ir.tensor([True])), op.Min(op.Shape(x, end=1), 1))


def _differs_from_the_one_before(flat: Any) -> Any:
    """Whether an element differs from the one before it; a nan differs from everything."""
    here, before = op.Slice(flat, [1], [_END], [0]), op.Slice(flat, [0], [-1], [0])
    return op.Concat(_true_unless_empty(flat), op.Not(op.Equal(here, before)), axis=0)


def _group(is_new: Any) -> Any:
    """The number of the group that an element belongs to, where `is_new` marks the first of each."""
    return op.CumSum(op.Cast(is_new, to=_INT64), 0) - 1


def _run_lengths(starts: Any, is_new: Any) -> Any:
    ends = op.Concat(op.Slice(starts, [1], [_END], [0]), op.Shape(is_new), axis=0)
    # Without elements there is an end and no start.
    return op.Slice(ends, [0], op.Shape(starts), [0]) - starts


# Search


@builtin("aten::searchsorted.Tensor")
def searchsorted(sorted_sequence, self, out_int32: bool = False, right: bool = False, side=None, sorter=None):
    """searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str?
    side=None, Tensor? sorter=None) -> Tensor
    """
    sequence = sorted_sequence if sorter is None else op.GatherElements(sorted_sequence, sorter, axis=-1)
    if len(sorted_sequence.shape) > 1:
        sequence = op.Unsqueeze(sequence, [len(self.shape) - 1])
    return _insertion_points(sequence, self, dim_of(sorted_sequence, -1), len(self.shape), right or side == "right")


@builtin("aten::searchsorted.Scalar")
def searchsorted_scalar(sorted_sequence, self, out_int32: bool = False, right: bool = False, side=None, sorter=None):
    """searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False, str?
    side=None, Tensor? sorter=None) -> Tensor
    """
    sequence = sorted_sequence if sorter is None else op.Gather(sorted_sequence, sorter)
    return _insertion_points(sequence, self, dim_of(sorted_sequence, 0), 0, right or side == "right")


@builtin("aten::bucketize.Tensor")
def bucketize(self, boundaries, out_int32: bool = False, right: bool = False):
    """bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor"""
    return _insertion_points(boundaries, self, dim_of(boundaries, 0), len(self.shape), right)


@builtin("aten::bucketize.Scalar")
def bucketize_scalar(self, boundaries, out_int32: bool = False, right: bool = False):
    """bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor"""
    return _insertion_points(boundaries, self, dim_of(boundaries, 0), 0, right)


def _insertion_points(sequence: Any, values: Any, length: Dim, rank: int, right: bool) -> Any:
    """How many elements of a sorted sequence come before each value: the smaller ones, and on the right equal ones.

    A nan among the values comes after all `length` elements.
    """
    sequence, values = promote(sequence, values)
    each = op.Unsqueeze(values, [rank])
    before = op.LessOrEqual(sequence, each) if right else op.Less(sequence, each)
    places = op.Cast(op.ReduceSum(op.Cast(before, to=ir.DataType.INT32), [rank], keepdims=0), to=_INT64)
    return op.Where(op.IsNaN(values), length.value, places) if values.dtype in FLOATS else places


@builtin("aten::isin.Tensor_Tensor")
def isin(elements, test_elements, assume_unique: bool = False, invert: bool = False):
    """isin.Tensor_Tensor(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool invert=False) ->
    Tensor
    """
    rank = len(elements.shape)
    elements, test_elements = promote(elements, test_elements)
    found = op.Equal(op.Unsqueeze(elements, [rank]), op.Reshape(test_elements, [-1]))
    any_found = is_any(op.ReduceMax(marks(found), [rank], keepdims=0))
    return op.Not(any_found) if invert else any_found


@builtin("aten::isin.Tensor_Scalar")
def isin_scalar(elements, test_element, assume_unique: bool = False, invert: bool = False):
    """isin.Tensor_Scalar(Tensor elements, Scalar test_element, *, bool assume_unique=False, bool invert=False) ->
    Tensor
    """
    found = op.Equal(*promote(elements, test_element))
    return op.Not(found) if invert else found


@builtin("aten::isin.Scalar_Tensor")
def isin_of_scalar(element, test_elements, assume_unique: bool = False, invert: bool = False):
    """isin.Scalar_Tensor(Scalar element, Tensor test_elements, *, bool assume_unique=False, bool invert=False) ->
    Tensor
    """
    found = op.Equal(*promote(test_elements, element))
    any_found = is_any(op.ReduceMax(marks(found), keepdims=0))
    return op.Not(any_found) if invert else any_found
