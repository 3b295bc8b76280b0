"""Smallest and largest elements, and where they are. A nan counts as both, as in torch; ONNX leaves it open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.dims import axis_of
from opbridge.translations.lib.dtypes import FLOATS
from opbridge.translations.lib.reduce import any_nan, reduce
from opbridge.translations.registry import builtin

_INT32 = ir.DataType.INT32


def _extreme(reduction: Callable[..., Any], x: Any, dim: Any, keepdim: bool) -> Any:
    if not x.shape:
        return op.Identity(x)
    value = reduce(reduction, x, x, dim, keepdim)
    return op.Where(any_nan(x, dim, keepdim), float("nan"), value) if x.dtype in FLOATS else value


@builtin("aten::amax")
def amax(self, dim=(), keepdim: bool = False):
    """amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor"""
    return _extreme(op.ReduceMax, self, dim, keepdim)


@builtin("aten::amin")
def amin(self, dim=(), keepdim: bool = False):
    """amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor"""
    return _extreme(op.ReduceMin, self, dim, keepdim)


@builtin("aten::max")
def max_all(self):
    """max(Tensor self) -> Tensor"""
    return amax(self)


@builtin("aten::min")
def min_all(self):
    """min(Tensor self) -> Tensor"""
    return amin(self)


@builtin("aten::aminmax")
def aminmax(self, dim=None, keepdim: bool = False):
    """aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)"""
    if self.dtype not in FLOATS or not self.shape:
        return amin(self, dim, keepdim), amax(self, dim, keepdim)
    found = any_nan(self, dim, keepdim)
    extremes = [reduce(reduction, self, self, dim, keepdim) for reduction in (op.ReduceMin, op.ReduceMax)]
    return tuple(op.Where(found, float("nan"), value) for value in extremes)


# With positions


def _position(search: Callable[..., Any], x: Any, axis: int) -> Any:
    """Where the extreme is along an axis, which stays with size 1: the first of equal ones, the first nan if any."""
    if x.dtype == ir.DataType.BOOL:
        x = op.Cast(x, to=_INT32)
    if x.dtype not in FLOATS:
        return search(x, axis=axis)
    first_nan = op.ArgMax(op.Cast(op.IsNaN(x), to=_INT32), axis=axis)
    # Without a nan, first_nan is 0, where there is none.
    is_nan = op.IsNaN(op.GatherElements(x, first_nan, axis=axis))
    return op.Where(is_nan, first_nan, search(x, axis=axis))


def _with_position(search: Callable[..., Any], x: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
    if not x.shape:
        return op.Identity(x), op.Constant(value_int=0)
    axis = axis_of(dim, len(x.shape))
    index = _position(search, x, axis)
    value = op.GatherElements(x, index, axis=axis)
    return (value, index) if keepdim else (op.Squeeze(value, [axis]), op.Squeeze(index, [axis]))


@builtin("aten::max.dim")
def max_dim(self, dim: int, keepdim: bool = False):
    """max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    return _with_position(op.ArgMax, self, dim, keepdim)


@builtin("aten::min.dim")
def min_dim(self, dim: int, keepdim: bool = False):
    """min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    return _with_position(op.ArgMin, self, dim, keepdim)


@builtin("aten::argmax")
def argmax(self, dim=None, keepdim: bool = False):
    """argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor"""
    return _arg(op.ArgMax, self, dim, keepdim)


@builtin("aten::argmin")
def argmin(self, dim=None, keepdim: bool = False):
    """argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor"""
    return _arg(op.ArgMin, self, dim, keepdim)


def _arg(search: Callable[..., Any], x: Any, dim: int | None, keepdim: bool) -> Any:
    rank = len(x.shape)
    if rank == 0:
        return op.Constant(value_int=0)
    if dim is None:
        index = _position(search, op.Reshape(x, [-1]), 0)
        return op.Reshape(index, [1] * rank if keepdim else [])
    axis = axis_of(dim, len(x.shape))
    index = _position(search, x, axis)
    return index if keepdim else op.Squeeze(index, [axis])
