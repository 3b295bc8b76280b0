"""Rows of sequences of several lengths, one sequence after the other, and the same rows padded to one length."""

from __future__ import annotations

from typing import Any

from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.translations.lib.dims import Dim, dim_of, dims_of, positions, shape_of
from opbridge.translations.lib.dtypes import const
from opbridge.translations.registry import builtin


@builtin("aten::_jagged_to_padded_dense_forward")
def jagged_to_padded_dense(values, offsets, max_lengths, padding_value: float = 0.0):
    """_jagged_to_padded_dense_forward(Tensor values, Tensor[] offsets, SymInt[] max_lengths, float padding_value=0.0)
    -> Tensor
    """
    starts, ends = _bounds(offsets)
    at = op.Add(starts, positions(Dim(max_lengths[0])))
    row = op.Expand(const(padding_value, values.dtype), shape_of([1, *dims_of(values)[1:]]))
    padded = dim_of(values, 0).value  # the row after the last one
    return op.Gather(op.Concat(values, row, axis=0), op.Where(op.Less(at, ends), at, padded), axis=0)


@builtin("aten::_padded_dense_to_jagged_forward")
def padded_dense_to_jagged(dense, offsets, total_L=None):
    """_padded_dense_to_jagged_forward(Tensor dense, Tensor[] offsets, SymInt? total_L=None) -> Tensor"""
    starts, ends = _bounds(offsets)
    kept = op.Less(positions(dim_of(dense, 1)), op.Sub(ends, starts))
    rows = op.Reshape(dense, shape_of([-1, *dims_of(dense)[2:]]))
    return op.Compress(rows, op.Reshape(kept, op.Constant(value_ints=[-1])), axis=0)


def _bounds(offsets: Any) -> tuple[Any, Any]:
    """The first row of each sequence, and the row after its last one, as columns."""
    if len(offsets) != 1:
        raise TranslationError("Jagged tensors are supported only with one jagged dimension.")
    return op.Unsqueeze(op.Slice(offsets[0], [0], [-1]), [1]), op.Unsqueeze(
        op.Slice(offsets[0], [1], [(1 << 63) - 1]), [1]
    )
