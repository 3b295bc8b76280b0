"""Singular values, eigenvalues of symmetric matrices, and functions of matrices. The loops are ONNX functions (see
`rotations`), which compute in double.

Singular vectors and eigenvectors are what they are up to a sign, and up to a turn where two values are equal: of all
choices, torch takes that of the LAPACK that it was built with.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.translations.lib.dims import Dim, all_known, dim_of, dims_of, maximum, minimum, shape_of
from opbridge.translations.lib.dtypes import cast, const
from opbridge.translations.lib.matrices import matrix_transpose
from opbridge.translations.lib.reshaping import take_slice
from opbridge.translations.registry import builtin

_DOUBLE = ir.DataType.DOUBLE


@builtin("aten::_linalg_svd", ambiguous="Singular vectors may differ from PyTorch's in sign")
def linalg_svd(A, full_matrices: bool = False, compute_uv: bool = True, driver: str | None = None):
    """_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None) -> (Tensor U, Tensor
    S, Tensor Vh)
    """
    rank = len(A.shape)
    height, width = dim_of(A, -2), dim_of(A, -1)
    count = minimum(height, width)
    if 0 in A.shape:
        return _empty_svd(A, full_matrices, compute_uv)
    is_wide = _is_wide(height, width, compute_uv)
    if is_wide is None and full_matrices:
        raise TranslationError(
            "All singular vectors are supported only if it is known at export whether the matrices have more rows or "
            "more columns. Make both dimensions static, or pass full_matrices=False."
        )
    if is_wide is None:
        return _reduced_svd(A)
    tall = matrix_transpose(cast(A, _DOUBLE), rank) if is_wide else cast(A, _DOUBLE)
    turned, right = _in_double(_rotations().orthogonalised(tall))
    lengths = op.ReduceL2(turned, [rank - 2], keepdims=0)
    values, order = op.TopK(lengths, op.Reshape(count.value, [1]), axis=-1)
    if not compute_uv:
        nothing = const([], A.dtype)
        return nothing, cast(values, A.dtype), nothing
    turned, right = (_with_columns(each, order, rank) for each in (turned, right))
    left = _completed(turned, rank)
    if not full_matrices:
        left = take_slice(left, rank - 1, 0, count)
    if is_wide:
        left, right = right, left
    results = (cast(each, A.dtype) for each in (left, values, matrix_transpose(right, rank)))
    return tuple(results)


@builtin("aten::linalg_svdvals")
def linalg_svdvals(A, driver: str | None = None):
    """linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor"""
    return linalg_svd(A, compute_uv=False)[1]


@builtin("aten::_linalg_eigh", ambiguous="Eigenvectors may differ from PyTorch's in sign")
def linalg_eigh(A, UPLO: str = "L", compute_v: bool = True):
    """_linalg_eigh(Tensor A, str UPLO="L", bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)"""
    rank = len(A.shape)
    if 0 in A.shape:
        return op.Expand(const(0, A.dtype), shape_of(dims_of(A)[:-1])), op.Identity(A)
    wide = cast(A, _DOUBLE)
    upper = UPLO.upper() == "U"
    triangle = op.Trilu(wide, 0, upper=int(upper))
    rest = op.Trilu(matrix_transpose(wide, rank), 1 if not upper else -1, upper=int(not upper))
    values, vectors = _in_double(_rotations().diagonalised(op.Add(triangle, rest)))
    count = op.Shape(A, start=-1)
    values, order = op.TopK(values, count, axis=-1, largest=0)
    if not compute_v:
        return cast(values, A.dtype), const([], A.dtype)
    return cast(values, A.dtype), cast(_with_columns(vectors, order, rank), A.dtype)


@builtin("aten::linalg_matrix_exp")
def linalg_matrix_exp(self):
    """linalg_matrix_exp(Tensor self) -> Tensor"""
    if 0 in self.shape:
        return op.Identity(self)
    (result,) = _in_double([_rotations().exponential(cast(self, _DOUBLE))])
    return cast(result, self.dtype)


def _reduced_svd(A: Any) -> tuple[Any, Any, Any]:
    """The decomposition of matrices of which only the run knows whether they have more rows or more columns."""
    rank = len(A.shape)
    *batch, height, width = dims_of(A)
    longer, count = maximum(height, width), minimum(height, width)
    is_wide = op.Less(height.value, width.value)
    # The elements row by row, or column by column where these are the longer side.
    rows = op.Unsqueeze(op.Range(0, longer.value, 1), [-1])
    columns = op.Range(0, count.value, 1)
    across, along = op.Add(op.Mul(rows, width.value), columns), op.Add(op.Mul(columns, width.value), rows)
    elements = op.Reshape(cast(A, _DOUBLE), shape_of([*batch, height * width]), allowzero=1)
    tall = op.Gather(elements, op.Where(is_wide, along, across), axis=rank - 2)
    turned, right = _in_double(_rotations().orthogonalised(tall))
    lengths = op.ReduceL2(turned, [rank - 2], keepdims=0)
    values, order = op.TopK(lengths, op.Reshape(count.value, [1]), axis=-1)
    turned, right = (_with_columns(each, order, rank) for each in (turned, right))
    left = take_slice(_completed(turned, rank), rank - 1, 0, count)
    both = op.Concat(left, right, axis=rank - 2)  # those of the longer side above those of the shorter one

    def part(start: Any, size: Dim) -> Any:
        return cast(
            op.Slice(both, op.Reshape(start, [1]), op.Reshape(op.Add(start, size.value), [1]), [rank - 2]), A.dtype
        )

    left, right = part(op.Where(is_wide, longer.value, 0), height), part(op.Where(is_wide, 0, longer.value), width)
    return left, cast(values, A.dtype), matrix_transpose(right, rank)


def _is_wide(height: Dim, width: Dim, matters: bool) -> bool | None:
    """Whether a matrix has fewer rows than columns; None where only a run tells, and it matters."""
    if height == width:
        return False
    if all_known(height, width):
        return int(height) < int(width)
    return None if matters else False


def _completed(turned: Any, rank: int) -> Any:
    """The orthonormal columns of which orthogonal ones are multiples, made up to a square matrix."""
    from opbridge.translations.linalg import elimination

    base, triangle = _in_double(elimination.orthogonal_triangular(turned))
    diagonal = op.ReduceSum(_diagonal_of(triangle), [rank - 2], keepdims=1)
    count = op.Shape(turned, start=-2, end=-1)
    signs = op.Where(op.Less(diagonal, 0.0), const(-1.0, _DOUBLE), const(1.0, _DOUBLE))
    beyond = op.Expand(const(1.0, _DOUBLE), op.Concat(op.Shape(turned, end=-2), [1], count, axis=0))
    signs = op.Slice(op.Concat(signs, beyond, axis=-1), [0], count, [-1])
    return op.Mul(base, signs)


def _diagonal_of(x: Any) -> Any:
    rows = op.Unsqueeze(op.Range(0, op.Squeeze(op.Shape(x, start=-2, end=-1)), 1), [-1])
    columns = op.Range(0, op.Squeeze(op.Shape(x, start=-1)), 1)
    return op.Where(op.Equal(rows, columns), x, const(0.0, _DOUBLE))


def _with_columns(x: Any, order: Any, rank: int) -> Any:
    """The columns of a matrix in an order, which is a vector for each matrix."""
    rows = op.Concat(op.Shape(x, end=-1), op.Shape(order, start=-1), axis=0)
    return _of_double(op.GatherElements(x, op.Expand(op.Unsqueeze(order, [rank - 2]), rows), axis=-1))


def _empty_svd(A: Any, full_matrices: bool, compute_uv: bool) -> tuple[Any, Any, Any]:
    """The decomposition of matrices without elements: identities, and no values."""
    *batch, height, width = dims_of(A)
    count = minimum(height, width)
    values = op.Expand(const(0, A.dtype), shape_of([*batch, count]))
    if not compute_uv:
        return const([], A.dtype), values, const([], A.dtype)
    left = _identity(batch, height, height if full_matrices else count, A.dtype)
    right = _identity(batch, width if full_matrices else count, width, A.dtype)
    return left, values, right


def _identity(batch: list[Dim], rows: Dim, columns: Dim, dtype: ir.DataType) -> Any:
    return op.Expand(const(np.eye(int(rows), int(columns)), dtype), shape_of([*batch, rows, columns]))


def _rotations() -> Any:
    """The functions. onnxscript takes a tenth of a second to read them, which few models need."""
    from opbridge.translations.linalg import rotations

    return rotations


def _in_double(values: Any) -> list[Any]:
    return [_of_double(value) for value in values]


def _of_double(value: Any) -> Any:
    """A function's result, which is in double."""
    value.type = ir.TensorType(_DOUBLE)
    return value
