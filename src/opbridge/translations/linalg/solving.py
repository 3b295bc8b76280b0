"""Inverses, equations and factorisations of matrices. The loops are ONNX functions (see `elimination`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.translations.lib.dims import Dim, dim_of, minimum, positions
from opbridge.translations.lib.dtypes import const
from opbridge.translations.lib.matrices import diagonal_mask, matrix_diagonal, matrix_transpose
from opbridge.translations.lib.reshaping import take_slice
from opbridge.translations.registry import builtin

_INT32 = ir.DataType.INT32


@builtin("aten::_linalg_check_errors")
def check_errors(info, api_name: str, is_matrix: bool):
    """_linalg_check_errors(Tensor info, str api_name, *, bool is_matrix) -> ()"""
    # A singular matrix gives inf or nan; an ONNX model cannot stop.
    return None


@builtin("aten::linalg_inv_ex")
def linalg_inv_ex(A, check_errors: bool = False):
    """linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)"""
    return _with_dtype_of(_loops().solved(A, op.Expand(_identity(A), op.Shape(A))), A), _zero_pivot(A)


@builtin("aten::_linalg_solve_ex")
def linalg_solve_ex(A, B, left: bool = True, check_errors: bool = False):
    """_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor LU,
    Tensor pivots, Tensor info)"""
    is_vector = len(B.shape) == 1 or (
        len(B.shape) == len(A.shape) - 1 and tuple(map(str, B.shape)) == tuple(map(str, A.shape[:-1]))
    )
    right = op.Unsqueeze(B, [len(B.shape)]) if is_vector else B
    right_rank = len(B.shape) + is_vector
    matrix = A
    if not left:
        matrix, right = matrix_transpose(matrix, len(A.shape)), matrix_transpose(right, right_rank)
    result = _with_dtype_of(solved(matrix, right, len(A.shape), right_rank), A)
    if is_vector:
        result = op.Squeeze(result, [-1])
    elif not left:
        result = matrix_transpose(result, max(len(A.shape), right_rank))
    factors, _, pivots = _lu(A)
    return result, factors, op.Cast(pivots, to=_INT32), _zero_pivot(A)


@builtin("aten::linalg_solve_triangular")
def linalg_solve_triangular(self, B, upper: bool, left: bool = True, unitriangular: bool = False):
    """linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) ->
    Tensor"""
    return _solve_triangular(self, B, len(self.shape), len(B.shape), upper, left, unitriangular)


@builtin("aten::linalg_cholesky_ex")
def linalg_cholesky_ex(self, upper: bool = False, check_errors: bool = False):
    """linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)"""
    rank = len(self.shape)
    factor = _with_dtype_of(_loops().cholesky(matrix_transpose(self, rank) if upper else self), self)
    if 0 in self.shape:
        return factor, _no_info(self)
    failed = op.IsNaN(matrix_diagonal(factor, dim_of(self, -1), len(self.shape)))
    any_failed = op.Cast(op.ReduceMax(op.Cast(failed, to=_INT32), [rank - 2], keepdims=0), to=ir.DataType.BOOL)
    first = op.Cast(op.ArgMax(op.Cast(failed, to=_INT32), axis=rank - 2, keepdims=0), to=_INT32)
    return matrix_transpose(factor, rank) if upper else factor, op.Where(any_failed, first + 1, 0)


@builtin("aten::cholesky_solve")
def cholesky_solve(self, input2, upper: bool = False):
    """cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor"""
    ranks = len(input2.shape), len(self.shape)
    half = _solve_triangular(input2, self, *ranks, upper=upper, left=True, unit=False, transposed=upper)
    return _solve_triangular(
        input2, half, ranks[0], max(ranks), upper=upper, left=True, unit=False, transposed=not upper
    )


@builtin("aten::cholesky_inverse")
def cholesky_inverse(self, upper: bool = False):
    """cholesky_inverse(Tensor self, bool upper=False) -> Tensor"""
    rank = len(self.shape)
    identity = op.Expand(_identity(self), op.Shape(self))
    half = _solve_triangular(self, identity, rank, rank, upper=upper, left=True, unit=False, transposed=upper)
    return op.MatMul(matrix_transpose(half, rank), half)


@builtin("aten::linalg_lu_factor_ex")
def linalg_lu_factor_ex(A, pivot: bool = True, check_errors: bool = False):
    """linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, Tensor
    info)"""
    if not pivot:
        raise TranslationError("A factorization without pivots is not supported. Use pivot=True.")
    factors, _, pivots = _lu(A)
    return factors, op.Cast(pivots, to=_INT32), _zero_pivot(A)


@builtin("aten::linalg_lu")
def linalg_lu(A, pivot: bool = True):
    """linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)"""
    if not pivot:
        raise TranslationError("A factorization without pivots is not supported. Use pivot=True.")
    factors, order, _ = _lu(A)
    return _unpacked(factors, order, A)


@builtin("aten::lu_unpack")
def lu_unpack(LU_data, LU_pivots, unpack_data: bool = True, unpack_pivots: bool = True):
    """lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> (Tensor P, Tensor
    L, Tensor U)"""
    nothing = const([], LU_data.dtype)
    permutation, lower, upper = _unpacked(LU_data, _row_order(LU_pivots, dim_of(LU_data, -2)), LU_data)
    return (permutation if unpack_pivots else nothing, *((lower, upper) if unpack_data else (nothing, nothing)))


@builtin("aten::linalg_lu_solve")
def linalg_lu_solve(LU, pivots, B, left: bool = True, adjoint: bool = False):
    """linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor"""
    rank = max(len(LU.shape), len(B.shape))
    order = _row_order(pivots, dim_of(LU, -1))
    if len(LU.shape) < rank:
        order = op.Unsqueeze(order, list(range(rank - len(LU.shape))))
    right = B if left else matrix_transpose(B, len(B.shape))
    factors, right = _in_one_batch(LU, right, len(LU.shape), len(B.shape))
    count = dim_of(LU, -1)
    lower = {"upper": False, "unit": True}
    upper = {"upper": True, "unit": False}
    if adjoint == left:
        # The transpose: U' first, then L', and the rows back where they were.
        for triangle in (upper, lower):
            right = _solved_triangle(factors, right, rank, count=count, **triangle, transposed=True)
        back = op.Unsqueeze(_inverse_order(order, rank), [rank - 1])
        result = op.GatherElements(right, op.Expand(back, op.Shape(right)), axis=rank - 2)
    else:
        index = op.Expand(op.Unsqueeze(order, [rank - 1]), op.Shape(right))
        result = op.GatherElements(right, index, axis=rank - 2)
        for triangle in (lower, upper):
            result = _solved_triangle(factors, result, rank, count=count, **triangle, transposed=False)
    return result if left else matrix_transpose(result, rank)


@builtin("aten::triangular_solve")
def triangular_solve(self, A, upper: bool = True, transpose: bool = False, unitriangular: bool = False):
    """triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) ->
    (Tensor solution, Tensor cloned_coefficient)"""
    ranks = len(A.shape), len(self.shape)
    return _solve_triangular(A, self, *ranks, upper, True, unitriangular, transposed=transpose), A


def _unpacked(factors: Any, order: Any, like: Any) -> tuple[Any, Any, Any]:
    """P, L and U, of the matrix that holds both triangles and the order of its rows."""
    rank = len(like.shape)
    height, width = dim_of(like, -2), dim_of(like, -1)
    count = minimum(height, width)
    # Row i of the product is row order[i] of the matrix.
    places = op.Unsqueeze(positions(height), [1])
    permutation = op.CastLike(op.Equal(places, op.Unsqueeze(order, [rank - 2])), like)
    lower = take_slice(op.Trilu(factors, -1, upper=0), rank - 1, 0, count)
    lower = lower + op.CastLike(diagonal_mask(height, count), like)
    return permutation, lower, op.Trilu(take_slice(factors, rank - 2, 0, count), 0, upper=1)


def _row_order(pivots: Any, height: Dim) -> Any:
    order = _loops().row_order(op.Cast(pivots, to=ir.DataType.INT64), height.value)
    order.type = ir.TensorType(ir.DataType.INT64)
    return order


def _inverse_order(order: Any, rank: int) -> Any:
    return op.TopK(order, op.Shape(order, start=-1), axis=rank - 2, largest=0)[1]


@builtin("aten::_linalg_slogdet")
def linalg_slogdet(A):
    """_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)"""
    factors, _, pivots = _lu(A)
    diagonal = matrix_diagonal(factors, dim_of(A, -1), len(A.shape))
    axis = [len(A.shape) - 2]
    sign = op.ReduceProd(op.Sign(diagonal), axis, keepdims=0) * _parity(A, pivots)
    logarithm = op.ReduceSum(op.Log(op.Abs(diagonal)), axis, keepdims=0)
    return sign, logarithm, factors, op.Cast(pivots, to=_INT32)


@builtin("aten::linalg_det", "aten::det")
def linalg_det(A):
    """linalg_det(Tensor A) -> Tensor"""
    return _linalg_det(A)[0]


@builtin("aten::_linalg_det")
def _linalg_det(A):
    """_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)"""
    factors, _, pivots = _lu(A)
    if A.dtype != ir.DataType.DOUBLE:
        return op.Det(A), factors, op.Cast(pivots, to=_INT32)
    diagonal = op.ReduceProd(matrix_diagonal(factors, dim_of(A, -1), len(A.shape)), [len(A.shape) - 2], keepdims=0)
    return diagonal * _parity(A, pivots), factors, op.Cast(pivots, to=_INT32)


@builtin("aten::logdet")
def logdet(self):
    """logdet(Tensor self) -> Tensor"""
    sign, logarithm, *_ = linalg_slogdet(self)
    return op.Where(sign < 0.0, const(np.nan, self.dtype), logarithm)


@builtin("aten::linalg_qr")
def linalg_qr(A, mode: str = "reduced"):
    """linalg_qr(Tensor A, str mode="reduced") -> (Tensor Q, Tensor R)"""
    rank = len(A.shape)
    base, triangle = (_with_dtype_of(value, A) for value in _loops().orthogonal_triangular(A))
    triangle = op.Trilu(triangle, 0, upper=1)
    if mode == "complete":
        return base, triangle
    count = minimum(dim_of(A, -2), dim_of(A, -1))
    reduced = take_slice(triangle, rank - 2, 0, count)
    return const([], A.dtype) if mode == "r" else take_slice(base, rank - 1, 0, count), reduced


@builtin("aten::linalg_householder_product", "aten::orgqr")
def linalg_householder_product(input, tau):
    """linalg_householder_product(Tensor input, Tensor tau) -> Tensor"""
    return _with_dtype_of(_loops().householder(input, tau), input)


def _solve_triangular(
    matrix: Any, right: Any, rank: int, right_rank: int, upper: bool, left: bool, unit: bool, transposed: bool = False
) -> Any:
    """X of matrix @ X = right, or of X @ matrix = right; of its transpose where `transposed` says so."""
    count = dim_of(matrix, -1)
    if not left:
        right = matrix_transpose(right, right_rank)
    matrix, right = _in_one_batch(matrix, right, rank, right_rank)
    rank = max(rank, right_rank)
    result = _solved_triangle(matrix, right, rank, upper, unit, count, transposed=transposed != (not left))
    return result if left else matrix_transpose(result, rank)


def _solved_triangle(matrix: Any, right: Any, rank: int, upper: bool, unit: bool, count: Dim, transposed: bool) -> Any:
    """X of a triangle of `matrix`, or of its transpose, times X = right; of one batch and one rank."""
    if unit:
        matrix = op.Where(diagonal_mask(count, count), op.CastLike(1, right), matrix)
    matrix = op.Trilu(matrix, 0, upper=int(upper))
    if transposed:
        matrix, upper = matrix_transpose(matrix, rank), not upper
    if upper:
        # Backwards, an upper triangle is a lower one.
        matrix, right = _reverse(_reverse(matrix, rank - 1), rank - 2), _reverse(right, rank - 2)
    result = _with_dtype_of(_loops().substituted(matrix, right), right)
    return _reverse(result, rank - 2) if upper else result


def _reverse(value: Any, axis: int) -> Any:
    return op.Slice(value, [-1], [np.iinfo(np.int64).min], [axis], [-1])


def solved(matrix: Any, right: Any, rank: int, right_rank: int) -> Any:
    """What times square matrices gives the right sides, which are matrices too; the two have these ranks."""
    return _loops().solved(*_in_one_batch(matrix, right, rank, right_rank))


def _in_one_batch(matrix: Any, right: Any, rank: int, right_rank: int) -> tuple[Any, Any]:
    """Both with the leading dimensions that they have together."""
    if rank == right_rank == 2:
        return matrix, right
    corners = (op.Slice(value, [0, 0], [1, 1], [-2, -1]) for value in (matrix, right))
    batch = op.Slice(op.Shape(op.Add(*corners)), [0], [-2], [0])
    matrix, right = (op.Expand(value, op.Concat(batch, op.Shape(value, start=-2), axis=0)) for value in (matrix, right))
    return matrix, right


def _lu(A: Any) -> tuple[Any, Any, Any]:
    factors, order, pivots = _loops().lu(A)
    for value in (order, pivots):
        value.type = ir.TensorType(ir.DataType.INT64)
    return _with_dtype_of(factors, A), order, pivots


def _loops() -> Any:
    """The functions. onnxscript takes a tenth of a second to read them, which few models need."""
    from opbridge.translations.linalg import elimination

    return elimination


def _with_dtype_of(value: Any, like: Any) -> Any:
    """A function's result, whose type is that of its argument."""
    value.type = ir.TensorType(like.dtype)
    return value


def _parity(A: Any, pivots: Any) -> Any:
    """-1 where LAPACK's pivots stand for an odd number of swaps."""
    swapped = op.Cast(op.Not(op.Equal(pivots, op.Range(1, (dim_of(A, -1) + 1).value, 1))), to=ir.DataType.INT64)
    count = op.ReduceSum(swapped, [len(A.shape) - 2], keepdims=0)
    return op.CastLike(1 - op.Mod(count, 2) * 2, A)


def _zero_pivot(A: Any) -> Any:
    """LAPACK's `info`: which pivot is the first that is zero, counted from 1; 0 where none is."""
    if 0 in A.shape:
        return _no_info(A)
    factors, _, _ = _lu(A)
    rank = len(A.shape)
    is_zero = op.And(diagonal_mask(dim_of(A, -2), dim_of(A, -1)), op.Equal(factors, 0.0))
    is_zero = op.ReduceMax(op.Cast(is_zero, to=_INT32), [rank - 1], keepdims=0)
    first = op.Cast(op.ArgMax(is_zero, axis=rank - 2, keepdims=0), to=_INT32) + 1
    return first * op.ReduceMax(is_zero, [rank - 2], keepdims=0)


def _no_info(A: Any) -> Any:
    return op.Expand(const(0, _INT32), op.Shape(A, end=-2))


def _identity(A: Any) -> Any:
    count = dim_of(A, -1)
    return op.CastLike(diagonal_mask(count, count), A)
