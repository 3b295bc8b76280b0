"""Distances between all pairs of vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnxscript import opset18 as op

from opbridge.registry import translation
from opbridge.translations._common import const, size

_FEW = 25
"""torch takes matrix products for Euclidean distances between more vectors than this, on either side."""


@translation("aten::cdist", "aten::_cdist_forward")
def cdist(x1, x2, p: float = 2.0, compute_mode=None):
    """cdist(Tensor x1, Tensor x2, float p=2, int? compute_mode=None) -> Tensor"""
    counts = (size(x1, -2), size(x2, -2))
    mode = compute_mode or 0
    many = any(isinstance(count, int) and count > _FEW for count in counts)
    if p == 2 and x1.shape[-1] != 0 and (mode == 1 or mode == 0 and many):
        return euclidean_dist(x1, x2)
    # Where the numbers of vectors are known only when the model runs, the exact form is right for all of them.
    return _norm(op.Unsqueeze(x1, [-2]) - op.Unsqueeze(x2, [-3]), p, axis=max(len(x1.shape), len(x2.shape)))


@translation("aten::_euclidean_dist")
def euclidean_dist(x1, x2):
    """_euclidean_dist(Tensor x1, Tensor x2) -> Tensor"""
    # |a - b|^2 as one product, (-2 a, |a|^2, 1) . (b, 1, |b|^2), as torch writes it, and so with torch's rounding.
    square1, square2 = (op.ReduceSumSquare(x, [len(x.shape) - 1]) for x in (x1, x2))
    one = const([1], x1.dtype)
    left = op.Concat(x1 * -2.0, square1, op.Expand(one, op.Shape(square1)), axis=-1)
    right = op.Concat(x2, op.Expand(one, op.Shape(square2)), square2, axis=-1)
    rank = len(x2.shape)
    right = op.Transpose(right, perm=[*range(rank - 2), rank - 1, rank - 2])
    return op.Sqrt(op.Max(op.MatMul(left, right), 0.0))


@translation("aten::pdist", "aten::_pdist_forward")
def pdist(self, p: float = 2.0):
    """pdist(Tensor self, float p=2) -> Tensor"""
    count = self.shape[0]
    if isinstance(count, int):
        first, second = (const(index) for index in np.triu_indices(count, 1))
    else:
        rows = size(self, 0)
        above = op.Trilu(op.Expand(const(1), [rows, rows]), 1, upper=1)
        first, second = op.Split(op.NonZero(above), num_outputs=2, axis=0)
        first, second = op.Squeeze(first, [0]), op.Squeeze(second, [0])
    return _norm(op.Gather(self, first) - op.Gather(self, second), p, axis=1)


def _norm(difference: Any, p: float, axis: int) -> Any:
    """The p-norm along the last dimension, whose number is `axis`.

    onnxruntime gives empty tensors the wrong shape where a reduction's axis is counted from the end.
    """
    if p == 0:
        return op.ReduceSum(op.CastLike(op.Not(difference == 0.0), difference), [axis], keepdims=0)
    if p == 1:
        return op.ReduceL1(difference, [axis], keepdims=0)
    if p == 2:
        return op.ReduceL2(difference, [axis], keepdims=0)
    if math.isinf(p):
        # One more zero, for vectors without elements.
        return op.ReduceMax(op.Pad(op.Abs(difference), [0, 1], None, [axis]), [axis], keepdims=0)
    return op.Pow(op.ReduceSum(op.Pow(op.Abs(difference), p), [axis], keepdims=0), 1.0 / p)
