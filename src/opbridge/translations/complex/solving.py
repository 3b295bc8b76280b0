"""Equations and inverses of complex matrices, as those of real matrices of twice the size."""

from __future__ import annotations

from typing import Any

from onnxscript import opset18 as op

from opbridge.translations.complex.pairs import join, parts, rank
from opbridge.translations.lib.dims import dim_of
from opbridge.translations.lib.matrices import diagonal_mask, matrix_transpose
from opbridge.translations.linalg.solving import solved
from opbridge.translations.registry import builtin


@builtin("aten::linalg_solve", complex=True)
def linalg_solve(A, B, left: bool = True):
    """linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor"""
    is_vector = rank(B) == 1 or (
        rank(B) == rank(A) - 1 and tuple(map(str, B.shape[:-1])) == tuple(map(str, A.shape[:-2]))
    )
    rows, columns = rank(A), rank(B) + is_vector
    matrix = parts(A)
    right = [op.Unsqueeze(part, [-1]) if is_vector else part for part in parts(B)]
    if left:
        return _solved(matrix, right, rows, columns, is_vector)
    turned = [matrix_transpose(part, rows) for part in matrix], [matrix_transpose(part, columns) for part in right]
    found = _solved(*turned, rows, columns, is_vector)
    most = max(rows, columns)
    return found if is_vector else op.Transpose(found, perm=[*range(most - 2), most - 1, most - 2, most])


@builtin("aten::linalg_inv", "aten::inverse", complex=True)
def linalg_inv(A):
    """linalg_inv(Tensor A) -> Tensor"""
    real, imaginary = parts(A)
    count = dim_of(A, -2)
    one = op.Expand(op.CastLike(diagonal_mask(count, count), real), op.Shape(real))
    nothing = op.Expand(op.CastLike(0.0, real), op.Shape(real))
    return _solved((real, imaginary), (one, nothing), rank(A), rank(A), False)


def _solved(matrix: Any, right: Any, rows: int, columns: int, is_vector: bool) -> Any:
    """(A + Bi)(x + yi) = c + di, as ((A, -B), (B, A)) times (x, y) = (c, d)."""
    real, imaginary = matrix
    top = op.Concat(real, op.Neg(imaginary), axis=-1)
    whole = op.Concat(top, op.Concat(imaginary, real, axis=-1), axis=-2)
    found = solved(whole, op.Concat(*right, axis=-2), rows, columns)
    halves = op.Split(found, num_outputs=2, axis=-2)
    return join(*(op.Squeeze(half, [-1]) if is_vector else half for half in halves))
