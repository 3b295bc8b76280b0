"""Products of groups of rows with a matrix each, as mixtures of experts have them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.translations.lib.dims import Dim, dim_of, shape_of
from opbridge.translations.lib.dtypes import cast_like, computed_in_float32, convert
from opbridge.translations.lib.reshaping import take_slice
from opbridge.translations.registry import builtin


@builtin("transformers::grouped_mm_fallback")
def grouped_mm_fallback(input, weight, offs):
    """grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor"""
    return _grouped(input, weight, offs)


@builtin("aten::_grouped_mm")
def grouped_mm(self, mat2, offs=None, bias=None, out_dtype=None):
    """_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor

    What belongs to no group is 0; PyTorch leaves it as the memory was.
    """
    if bias is not None:
        raise TranslationError("PyTorch has grouped products without a bias only.")
    return convert(_grouped(self, mat2, offs), out_dtype)


@computed_in_float32
def _grouped(left: Any, right: Any, offs: Any) -> Any:
    """The products of all groups.

    Args:
        left: Of shape (rows, K) or (groups, rows, K).
        right: Of shape (groups, K, columns) or (K, columns).
        offs: Where each group ends: in the rows of a matrix on the left, else in the columns of one on the right; in
            the common dimension where both are matrices.
    """
    ranks = len(left.shape), len(right.shape)
    if offs is None or ranks == (3, 3):
        return op.MatMul(left, right)
    if ranks == (2, 2):
        pairs = [
            op.MatMul(take_slice(left, 1, start, end), take_slice(right, 0, start, end))
            for start, end in _edges(offs, dim_of(offs, 0))
        ]
        return op.Concat(*(op.Unsqueeze(each, [0]) for each in pairs), axis=0)
    if ranks == (2, 3):
        edges = _edges(offs, dim_of(right, 0))
        parts = [
            op.MatMul(take_slice(left, 0, start, end), op.Gather(right, group, axis=0))
            for group, (start, end) in enumerate(edges)
        ]
        return _with_rest(parts, 0, dim_of(left, 0) - edges[-1][1], dim_of(right, 2), left)
    edges = _edges(offs, dim_of(left, 0))
    parts = [
        op.MatMul(op.Gather(left, group, axis=0), take_slice(right, 1, start, end))
        for group, (start, end) in enumerate(edges)
    ]
    return _with_rest(parts, 1, dim_of(left, 1), dim_of(right, 1) - edges[-1][1], left)


def _edges(offs: Any, groups: Dim) -> list[tuple[Any, Any]]:
    """Where each group starts and ends."""
    if not groups.is_known:
        raise TranslationError("The number of groups of a grouped product has to be known at export.")
    ends = op.Cast(offs, to=ir.DataType.INT64)
    return list(itertools.pairwise([Dim(0), *(Dim(op.Gather(ends, group)) for group in range(int(groups)))]))


def _with_rest(parts: Sequence[Any], axis: int, rows: Dim, columns: Dim, like: Any) -> Any:
    """The parts side by side, and zeros for what belongs to no group."""
    rest = op.Expand(cast_like(0.0, like), shape_of([rows, columns]))
    return op.Concat(*parts, rest, axis=axis)
