"""Sums, means, products, variances, and tests of all or any elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.dims import Dim, element_count, may_be_empty
from opbridge.translations.lib.dtypes import FLOATS, cast_like, convert, is_tensor, widen
from opbridge.translations.lib.integer_reductions import product_of_integers, reduce_sum
from opbridge.translations.lib.reduce import cast_for_sum, is_any, marks, reduce, reduced_axes
from opbridge.translations.registry import builtin

_BOOL, _FLOAT, _INT64 = ir.DataType.BOOL, ir.DataType.FLOAT, ir.DataType.INT64


# Sums, means and products


@builtin("aten::sum")
def sum_all(self, dtype=None):
    """sum(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    return sum_dims(self, None, False, dtype)


@builtin("aten::sum.dim_IntList")
def sum_dims(self, dim=None, keepdim: bool = False, dtype=None):
    """sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    return reduce(reduce_sum, cast_for_sum(self, dtype), self, dim, keepdim)


@builtin("aten::nansum")
def nansum(self, dim=None, keepdim: bool = False, dtype=None):
    """nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    return reduce(reduce_sum, cast_for_sum(_nan_to_zero(self), dtype), self, dim, keepdim)


@builtin("aten::mean")
def mean(self, dtype=None):
    """mean(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    return mean_dims(self, None, False, dtype)


@builtin("aten::mean.dim")
def mean_dims(self, dim=None, keepdim: bool = False, dtype=None):
    """mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    x = convert(self, dtype)
    if may_be_empty(self, reduced_axes(self, dim)):
        # ONNX Runtime's mean of nothing is 0, torch's 0 / 0.
        total = reduce(op.ReduceSum, x, self, dim, keepdim)
        return total / _size_as(element_count(self, reduced_axes(self, dim)), total)
    return reduce(op.ReduceMean, x, self, dim, keepdim)


@builtin("aten::nanmean")
def nanmean(self, dim=None, keepdim: bool = False, dtype=None):
    """nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    x = widen(convert(self, dtype))
    total = reduce(op.ReduceSum, _nan_to_zero(x), self, dim, keepdim)
    present = op.CastLike(op.Not(op.IsNaN(self)), x)
    return total / reduce(op.ReduceSum, present, self, dim, keepdim)


@builtin("aten::prod")
def prod(self, dtype=None):
    """prod(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    return _product(cast_for_sum(self, dtype), self, None, False)


@builtin("aten::prod.dim_int")
def prod_dim(self, dim: int, keepdim: bool = False, dtype=None):
    """prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    return _product(cast_for_sum(self, dtype), self, dim, keepdim)


def _product(x: Any, like: Any, dim: int | None, keepdim: bool) -> Any:
    if x.dtype == _INT64 and like.dtype != _BOOL:
        return product_of_integers(x, like, dim, keepdim)
    return reduce(op.ReduceProd, x, like, dim, keepdim)


def _nan_to_zero(x: Any) -> Any:
    return op.Where(op.IsNaN(x), 0.0, x) if x.dtype in FLOATS else x


def _size_as(number: Dim, like: Any) -> Any:
    """A size as a scalar of another tensor's type."""
    return op.CastLike(float(int(number)) if number.is_known else op.Reshape(number.value, []), like)


# Variances


def _variance(x: Any, dim: Any, correction: Any, keepdim: bool) -> tuple[Any, Any]:
    """The variance with `correction` fewer degrees of freedom than elements, and the mean."""
    axes = reduced_axes(x, dim)
    wide = widen(x)
    # The deviations from the mean are squared, as torch does; a difference of two large squares would cancel.
    centre = reduce(op.ReduceMean, wide, x, dim, True)
    squares = reduce(op.ReduceSumSquare, wide - centre, x, dim, keepdim)
    number = element_count(x, axes)
    if is_tensor(correction):
        correction = cast_like(correction, squares)
    else:
        correction = 1.0 if correction is None else float(correction)
    if number.is_known and not is_tensor(correction):
        freedom = max(int(number) - correction, 0.0)
        # At 0 degrees of freedom the sum is divided by 0, which gives torch's nan, or inf.
        variance = squares / freedom
    else:
        variance = squares / op.Max(_size_as(number, squares) - correction, 0.0)
    if may_be_empty(x, axes):
        # The mean of nothing is nan.
        centre = reduce(op.ReduceSum, wide, x, dim, True) / _size_as(number, wide)
    if not keepdim and len(x.shape) > 0:
        centre = op.Squeeze(centre, axes)
    return variance, centre


def _by_correction(function: Callable[..., Any]) -> Callable[..., Any]:
    """The three overloads of a variance: for all elements, over dimensions, and with a correction by keyword."""
    name = function.__name__

    def whole(self, unbiased: bool = True):
        return function(self, None, int(unbiased), False)

    def dims(self, dim, unbiased: bool = True, keepdim: bool = False):
        return function(self, dim, int(unbiased), keepdim)

    def correction(self, dim=None, correction=None, keepdim: bool = False):
        return function(self, dim, correction, keepdim)

    whole.__doc__ = f"{name}(Tensor self, bool unbiased=True)"
    dims.__doc__ = f"{name}.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False)"
    correction.__doc__ = (
        f"{name}.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False)"
    )
    builtin(f"aten::{name}")(whole)
    builtin(f"aten::{name}.dim")(dims)
    builtin(f"aten::{name}.correction")(correction)
    return function


@_by_correction
def var(x, dim, correction, keepdim):
    return _variance(x, dim, correction, keepdim)[0]


@builtin("prims::var")
def prims_var(inp, dims, correction=1, output_dtype=None):
    """prims::var(Tensor inp, int[]? dims, float? correction=1, *, ScalarType? output_dtype=None) -> Tensor"""
    return convert(_variance(inp, dims, correction, False)[0], output_dtype)


@_by_correction
def std(x, dim, correction, keepdim):
    return op.Sqrt(_variance(x, dim, correction, keepdim)[0])


@_by_correction
def var_mean(x, dim, correction, keepdim):
    return _variance(x, dim, correction, keepdim)


@_by_correction
def std_mean(x, dim, correction, keepdim):
    variance, centre = _variance(x, dim, correction, keepdim)
    return op.Sqrt(variance), centre


# Tests and counts


@builtin("aten::all")
def all_elements(self):
    """all(Tensor self) -> Tensor"""
    return all_dims(self)


@builtin("aten::all.dim", "aten::all.dims")
def all_dims(self, dim=None, keepdim: bool = False):
    """all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor"""
    return _reduce_truth(op.ReduceMin, self, dim, keepdim)


@builtin("aten::any")
def any_element(self):
    """any(Tensor self) -> Tensor"""
    return any_dims(self)


@builtin("aten::any.dim", "aten::any.dims")
def any_dims(self, dim=None, keepdim: bool = False):
    """any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor"""
    return _reduce_truth(op.ReduceMax, self, dim, keepdim)


def _reduce_truth(reduction: Callable[..., Any], x: Any, dim: Any, keepdim: bool) -> Any:
    truth = op.Cast(x, to=_BOOL)
    if isinstance(dim, (list, tuple)) and not dim:
        # Unlike elsewhere, no dimensions mean none here.
        return truth
    return is_any(reduce(reduction, marks(truth), x, dim, keepdim))


@builtin("aten::count_nonzero", "aten::count_nonzero.dim_IntList")
def count_nonzero(self, dim=None):
    """count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor"""
    return reduce(op.ReduceSum, op.Cast(op.Cast(self, to=_BOOL), to=_INT64), self, dim, False)


@builtin("aten::logsumexp", "aten::special_logsumexp")
def logsumexp(self, dim, keepdim: bool = False):
    """logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor"""
    x = self if self.dtype in FLOATS else op.Cast(self, to=_FLOAT)
    return reduce(op.ReduceLogSumExp, x, self, dim, keepdim)
