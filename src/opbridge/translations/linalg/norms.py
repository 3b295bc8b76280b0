"""Norms of vectors, of any order, and distances."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.translations.elementwise.extremes import amax, amin
from opbridge.translations.lib.dims import axis_of
from opbridge.translations.lib.dtypes import cast_like, convert, is_tensor, widen
from opbridge.translations.lib.reduce import reduce
from opbridge.translations.linalg.spectral import linalg_svdvals
from opbridge.translations.registry import builtin


def _norm(x: Any, order: Any, dim: Any, keepdim: bool) -> Any:
    """(sum of |x| ** order) ** (1 / order), and its limits for the orders 0, inf and -inf."""
    if is_tensor(order):
        raise TranslationError(
            "A norm is supported only for an order that is known at export, because its formula depends on it. "
            "Pass the order as a number."
        )
    order = 2.0 if order is None else float(order)
    if order == 2.0:
        return reduce(op.ReduceL2, x, x, dim, keepdim)
    if order == 1.0:
        return reduce(op.ReduceL1, x, x, dim, keepdim)
    if order == 0.0:
        return reduce(op.ReduceSum, op.CastLike(op.Cast(x, to=ir.DataType.BOOL), x), x, dim, keepdim)
    magnitude = op.Abs(x)
    if math.isinf(order):
        magnitude.shape = x.shape
        return (amax if order > 0 else amin)(magnitude, dim, keepdim)
    magnitude = widen(magnitude)
    # An exponent has a type of its own: a plain number would be rounded to float32.
    total = reduce(op.ReduceSum, op.Pow(magnitude, cast_like(order, magnitude)), x, dim, keepdim)
    return op.Pow(total, cast_like(1.0 / order, magnitude))


@builtin("aten::linalg_vector_norm")
def linalg_vector_norm(self, ord=2, dim=None, keepdim: bool = False, dtype=None):
    """linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)
    -> Tensor
    """
    x = convert(self, dtype)
    x.shape = self.shape
    return _norm(x, ord, dim, keepdim)


@builtin("aten::norm.Scalar")
def norm(self, p=2):
    """norm.Scalar(Tensor self, Scalar p=2) -> Tensor"""
    return _norm(self, p, None, False)


@builtin("aten::norm.ScalarOpt_dtype")
def norm_dtype(self, p, dtype):
    """norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor"""
    return linalg_vector_norm(self, p, None, False, dtype)


@builtin("aten::norm.ScalarOpt_dim")
def norm_dim(self, p, dim, keepdim: bool = False):
    """norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor"""
    return _norm(self, p, dim, keepdim)


@builtin("aten::norm.ScalarOpt_dim_dtype")
def norm_dim_dtype(self, p, dim, keepdim: bool, dtype):
    """norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype) -> Tensor"""
    return linalg_vector_norm(self, p, dim, keepdim, dtype)


@builtin("aten::dist")
def dist(self, other, p=2):
    """dist(Tensor self, Tensor other, Scalar p=2) -> Tensor"""
    difference = self - op.CastLike(other, self)
    difference.shape = ir.Shape([None] * max(len(self.shape), len(other.shape)))
    return _norm(difference, p, None, False)


@builtin("aten::renorm")
def renorm(self, p, dim: int, maxnorm):
    """renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor"""
    axis = axis_of(dim, len(self.shape))
    wide = widen(self)
    wide.shape = self.shape
    norms = _norm(wide, p, [other for other in range(len(self.shape)) if other != axis], True)
    limit = cast_like(maxnorm, norms)
    # torch adds 1e-7 to what it divides by.
    return wide * op.Where(norms > limit, limit / (norms + 1e-7), 1.0)


@builtin("aten::linalg_matrix_norm")
def linalg_matrix_norm(self, ord, dim=(-2, -1), keepdim: bool = False, dtype=None):
    """linalg_matrix_norm(Tensor self, Scalar ord, int[] dim=[-2,-1], bool keepdim=False, *, ScalarType? dtype=None)
    -> Tensor
    """
    if is_tensor(ord) or float(ord) not in (1.0, -1.0, 2.0, -2.0, math.inf, -math.inf):
        raise TranslationError(
            "A matrix norm is supported only for an order that is known at export: 1, -1, 2, -2, inf or -inf."
        )
    x = convert(self, dtype)
    x.shape = self.shape
    rank = len(x.shape)
    if abs(ord) == 2.0:
        return _spectral_norm(x, ord > 0, [axis_of(each, rank) for each in dim], keepdim)
    summed, chosen = (axis_of(each, rank) for each in (dim if abs(ord) == 1.0 else reversed(dim)))
    sums = reduce(op.ReduceL1, x, x, [summed], True)
    sums.shape = ir.Shape([1 if axis == summed else size for axis, size in enumerate(x.shape)])
    found = (amax if ord > 0 else amin)(sums, [chosen], True)
    return found if keepdim else op.Squeeze(found, sorted((summed, chosen)))


def _spectral_norm(x: Any, largest: bool, dims: list[int], keepdim: bool) -> Any:
    """The largest or the smallest singular value of each matrix."""
    moved = [*(axis for axis in range(len(x.shape)) if axis not in dims), *dims]
    matrices = op.Transpose(x, perm=moved)
    matrices.shape = ir.Shape([x.shape[axis] for axis in moved])
    matrices.dtype = x.dtype
    values = linalg_svdvals(matrices)
    last = len(moved) - 2
    found = (op.ReduceMax if largest else op.ReduceMin)(values, [last], keepdims=0)
    return op.Unsqueeze(found, sorted(dims)) if keepdim else found


@builtin("aten::linalg_norm")
def linalg_norm(self, ord=None, dim=None, keepdim: bool = False, dtype=None):
    """linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)
    -> Tensor
    """
    rank = len(self.shape)
    dims = None if dim is None else [dim] if isinstance(dim, int) else list(dim)
    if ord is None or rank < 2 or (dims is not None and len(dims) == 1):
        return linalg_vector_norm(self, 2 if ord is None else ord, dims, keepdim, dtype)
    return linalg_matrix_norm(self, ord, dims or (-2, -1), keepdim, dtype)
