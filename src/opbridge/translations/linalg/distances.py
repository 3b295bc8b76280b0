"""Distances between all pairs of vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnxscript import opset18 as op

from opbridge.translations.lib.dims import dim_of, shape_of
from opbridge.translations.lib.dtypes import cast_like, const
from opbridge.translations.lib.matrices import matrix_transpose
from opbridge.translations.registry import builtin

_FEW = 25
"""torch takes matrix products for Euclidean distances between more vectors than this, on either side."""


@builtin("aten::cdist", "aten::_cdist_forward")
def cdist(x1, x2, p: float = 2.0, compute_mode=None):
    """cdist(Tensor x1, Tensor x2, float p=2, int? compute_mode=None) -> Tensor"""
    mode = compute_mode or 0
    if p == 2 and mode != 2 and 0 not in (*x1.shape, *x2.shape):
        known = [count for count in (dim_of(x1, -2), dim_of(x2, -2)) if count.is_known]
        if mode == 1 or any(count > _FEW for count in known):
            return euclidean_dist(x1, x2)
        if len(known) < 2:
            # onnxscript takes its time to read the function, which few models need.
            from opbridge.translations.linalg.distance_function import euclidean_by_count

            return euclidean_by_count(x1, x2)
    return _norm(op.Unsqueeze(x1, [-2]) - op.Unsqueeze(x2, [-3]), p, axis=max(len(x1.shape), len(x2.shape)))


@builtin("aten::cdist", "aten::_cdist_forward", opset=9)
def cdist_9(x1, x2, p: float = 2.0, compute_mode=None):
    """cdist(Tensor x1, Tensor x2, float p=2, int? compute_mode=None) -> Tensor"""
    if _is_decided(x1, x2, p, compute_mode):
        return cdist(x1, x2, p, compute_mode)
    from opbridge.translations.linalg.distance_function import euclidean_in_oldest_opsets

    ones = op.Expand(const(1, x1.dtype), shape_of([dim_of(x1, -1), 1]))
    kept = const(np.arange(max(len(x1.shape), len(x2.shape))))
    return euclidean_in_oldest_opsets(*_both(x1, x2), ones, kept)


@builtin("aten::cdist", "aten::_cdist_forward", opset=11)
def cdist_11(x1, x2, p: float = 2.0, compute_mode=None):
    """cdist(Tensor x1, Tensor x2, float p=2, int? compute_mode=None) -> Tensor"""
    if _is_decided(x1, x2, p, compute_mode):
        return cdist(x1, x2, p, compute_mode)
    from opbridge.translations.linalg.distance_function import euclidean_in_older_opsets

    return euclidean_in_older_opsets(*_both(x1, x2))


def _is_decided(x1: Any, x2: Any, p: float, compute_mode: Any) -> bool:
    """Whether the form that torch takes is known before the model runs."""
    counts = [dim_of(x1, -2), dim_of(x2, -2)]
    known = all(each.is_known for each in counts) or any(each.is_known and each > _FEW for each in counts)
    return bool(p != 2 or compute_mode or known or 0 in (*x1.shape, *x2.shape))


def _both(x1: Any, x2: Any) -> tuple[Any, ...]:
    """What both forms of Euclidean distances are computed from, after which of them is taken."""
    is_product = op.Greater(op.ReduceMax(shape_of([dim_of(x1, -2), dim_of(x2, -2)]), keepdims=0), _FEW)
    return is_product, *_factors(x1, x2), const(0, x1.dtype), op.Unsqueeze(x1, [-2]), op.Unsqueeze(x2, [-3])


@builtin("aten::_euclidean_dist")
def euclidean_dist(x1, x2):
    """_euclidean_dist(Tensor x1, Tensor x2) -> Tensor"""
    return op.Sqrt(op.Max(op.MatMul(*_factors(x1, x2)), 0.0))


def _factors(x1: Any, x2: Any) -> tuple[Any, Any]:
    """The matrices whose product are the squares of the distances."""
    # |a - b|^2 as one product, (-2 a, |a|^2, 1) . (b, 1, |b|^2), as torch writes it, and so with torch's rounding.
    rank = len(x2.shape)
    x2 = matrix_transpose(x2, rank)
    square1, square2 = op.ReduceSumSquare(x1, [len(x1.shape) - 1]), op.ReduceSumSquare(x2, [rank - 2])
    one1, one2 = (op.Expand(const(1, x1.dtype), op.Shape(square)) for square in (square1, square2))
    left = op.Concat(x1 * -2.0, square1, one1, axis=-1)
    right = op.Concat(x2, one2, square2, axis=-2)
    return left, right


@builtin("aten::pdist", "aten::_pdist_forward")
def pdist(self, p: float = 2.0):
    """pdist(Tensor self, float p=2) -> Tensor"""
    count = dim_of(self, 0)
    if count.is_known:
        first, second = (const(index) for index in np.triu_indices(int(count), 1))
    else:
        above = op.Trilu(op.Expand(const(1), shape_of([count, count])), 1, upper=1)
        first, second = op.Split(op.NonZero(above), num_outputs=2, axis=0)
        first, second = op.Squeeze(first, [0]), op.Squeeze(second, [0])
    return _norm(op.Gather(self, first) - op.Gather(self, second), p, axis=1)


def _norm(difference: Any, p: float, axis: int) -> Any:
    """The p-norm along the last dimension, whose number is `axis`.

    onnxruntime gives empty tensors the wrong shape where a reduction's axis is counted from the end.
    """
    if p == 0:
        return op.ReduceSum(op.CastLike(op.Not(op.Equal(difference, 0.0)), difference), [axis], keepdims=0)
    if p == 1:
        return op.ReduceL1(difference, [axis], keepdims=0)
    if p == 2:
        return op.ReduceL2(difference, [axis], keepdims=0)
    if math.isinf(p):
        # One more zero, for vectors without elements.
        return op.ReduceMax(op.Pad(op.Abs(difference), [0, 1], None, [axis]), [axis], keepdims=0)
    # An exponent has a type of its own: a plain number would be rounded to float32.
    total = op.ReduceSum(op.Pow(op.Abs(difference), cast_like(p, difference)), [axis], keepdims=0)
    return op.Pow(total, cast_like(1.0 / p, difference))
