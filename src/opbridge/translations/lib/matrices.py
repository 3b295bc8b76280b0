"""What translations of operators on matrices share; matrices lie in the last two dimensions."""

from __future__ import annotations

from typing import Any

from onnxscript import opset18 as op

from opbridge.translations.lib.dims import Dim, positions

__all__ = ["diagonal_mask", "matrix_diagonal", "matrix_transpose"]


def diagonal_mask(rows: Any, columns: Any) -> Any:
    """True on the main diagonal of a matrix of shape (rows, columns), False elsewhere."""
    column = positions(columns)
    row = column if Dim(rows) == Dim(columns) else positions(rows)
    return op.Equal(op.Unsqueeze(row, [1]), column)


def matrix_diagonal(x: Any, count: Any, rank: int) -> Any:
    """The diagonal of square matrices with `count` rows: from (..., count, count) to (..., count)."""
    only = op.Where(diagonal_mask(count, count), x, op.CastLike(0.0, x))
    return op.ReduceSum(only, [rank - 1], keepdims=0)


def matrix_transpose(x: Any, rank: int) -> Any:
    """A value of a rank with its last two dimensions swapped."""
    return op.Transpose(x, perm=[*range(rank - 2), rank - 1, rank - 2])
