"""Counts of numbers, and of numbers in bins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.dims import Dim, element_count, shape_of
from opbridge.translations.lib.dtypes import FLOATS, cast_like, const, is_tensor
from opbridge.translations.lib.scattering import scatter_elements
from opbridge.translations.registry import builtin

_INT64 = ir.DataType.INT64


@builtin("aten::bincount")
def bincount(self, weights=None, minlength=0):
    """bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor"""
    places = op.Cast(self, to=_INT64)
    # Without elements there is nothing up to the largest of them.
    length = op.ReduceMax(op.Concat(places, const([-1], np.int64), axis=0)) + 1
    length = op.Max(length, op.Reshape(minlength, [1]) if isinstance(minlength, ir.Value) else const([minlength]))
    if weights is None:
        return _tallied(places, op.Expand(const(1), op.Shape(places)), length)
    double = weights if weights.dtype == ir.DataType.FLOAT else op.Cast(weights, to=ir.DataType.DOUBLE)
    return _tallied(places, double, length)


@builtin("aten::_convert_indices_from_coo_to_csr")
def convert_indices_from_coo_to_csr(self, size, out_int32: bool = False):
    """_convert_indices_from_coo_to_csr(Tensor self, int size, *, bool out_int32=False) -> Tensor"""
    ones = op.Expand(const(1), op.Shape(self))
    counts = _tallied(op.Cast(self, to=_INT64) + 1, ones, shape_of([Dim(size) + 1]))
    return op.Cast(op.CumSum(counts, const(0)), to=ir.DataType.INT32 if out_int32 else _INT64)


def _tallied(places: Any, amounts: Any, length: Any) -> Any:
    empty = op.Expand(cast_like(0, amounts), length)
    return scatter_elements(empty, places, amounts, 0, "add")


@builtin("aten::histc")
def histc(self, bins: int = 100, min=0, max=0):
    """histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor"""
    x = op.Reshape(self, [-1])
    low, high = _range(x, min, max, 1.0, empty=element_count(self) == 0)
    place = (x - low) * float(bins) / (high - low) if self.dtype in FLOATS else None
    if place is None:
        wide = op.Cast(x, to=ir.DataType.DOUBLE)
        place = (wide - op.Cast(low, to=ir.DataType.DOUBLE)) * float(bins) / op.Cast(high - low, to=ir.DataType.DOUBLE)
    inside = op.And(x >= low, x <= high)
    bounded = op.Where(inside, place, cast_like(0.0, place))
    places = op.Min(op.Cast(bounded, to=_INT64), bins - 1)
    return _tallied(places, op.CastLike(inside, x), [bins])


def _range(x: Any, low: Any, high: Any, widen: float, *, empty: bool) -> tuple[Any, Any]:
    """The range of a histogram: as given, or else from the smallest to the largest element, a little more if equal."""
    if is_tensor(low) or is_tensor(high):
        given = cast_like(low, x), cast_like(high, x)
        found = _range_of(x, widen) if not empty else (given[0] - widen, given[1] + widen)
        is_given = op.Not(op.Equal(*given))
        return op.Where(is_given, given[0], found[0]), op.Where(is_given, given[1], found[1])
    if low != high:
        return cast_like(low, x), cast_like(high, x)
    if empty:
        return cast_like(low - widen, x), cast_like(high + widen, x)
    return _range_of(x, widen)


def _range_of(x: Any, widen: float) -> tuple[Any, Any]:
    """From the smallest to the largest element, a little more if they are equal."""
    smallest, largest = op.ReduceMin(x, keepdims=0), op.ReduceMax(x, keepdims=0)
    same = op.Equal(smallest, largest)
    step = cast_like(widen, x)
    return op.Where(same, smallest - step, smallest), op.Where(same, largest + step, largest)


@builtin("aten::histogram.bin_ct")
def histogram(self, bins: int = 100, range: Sequence[float] | None = None, weight=None, density: bool = False):
    """histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False) ->
    (Tensor hist, Tensor bin_edges)
    """
    x = op.Reshape(self, [-1])
    given = range or (0.0, 0.0)
    low, high = _range(x, given[0], given[1], 0.5, empty=element_count(self) == 0)
    step = (high - low) / float(bins)
    numbers = op.CastLike(const(np.arange(bins + 1.0)), x)
    # As torch.linspace: from the nearer end.
    from_low, from_high = low + step * numbers, high - step * (float(bins) - numbers)
    edges = op.Where(const(np.arange(bins + 1) < (bins + 1) // 2), from_low, from_high)
    return _in_bins(x, edges, weight, density), edges


@builtin("aten::histogram.bins_tensor")
def histogram_of_edges(self, bins, weight=None, density: bool = False):
    """histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False) -> (Tensor hist,
    Tensor bin_edges)
    """
    return _in_bins(op.Reshape(self, [-1]), bins, weight, density), op.Identity(bins)


def _in_bins(x: Any, edges: Any, weight: Any, density: bool) -> Any:
    """How much of x is between each two edges; the last bin holds its upper edge too."""
    reached = op.Cast(op.Unsqueeze(x, [1]) >= edges, to=_INT64)
    bin_count = op.Shape(edges) - 1
    position = op.ReduceSum(reached, [1], keepdims=0) - 1
    last_edge = op.Gather(edges, -1)
    inside = op.And(position >= 0, x <= last_edge)
    amounts = op.CastLike(inside, x)
    if weight is not None:
        amounts = op.Where(inside, op.Reshape(weight, [-1]), cast_like(0.0, x))
    places = op.Max(op.Min(position, bin_count - 1), 0)
    tally = _tallied(places, amounts, bin_count)
    if density:
        widths = op.Slice(edges, [1], [2**63 - 1], [0]) - op.Slice(edges, [0], [-1], [0])
        tally = tally / op.ReduceSum(tally, keepdims=0) / widths
    return tally
