"""Eigenvalues and eigenvectors of Hermitian matrices, by an ONNX function that computes in double."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.complex.pairs import conjugate, join, multiply, parts, rank
from opbridge.translations.lib.dims import dims_of, shape_of
from opbridge.translations.lib.dtypes import cast, const
from opbridge.translations.lib.matrices import matrix_transpose
from opbridge.translations.registry import builtin

_DOUBLE = ir.DataType.DOUBLE


@builtin(
    "aten::_linalg_eigh",
    complex=True,
    ambiguous="Eigenvectors may differ from PyTorch's in sign",
)
def linalg_eigh(A, UPLO: str = "L", compute_v: bool = True):
    """_linalg_eigh(Tensor A, str UPLO="L", bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)"""
    if 0 in A.shape:
        return op.Expand(const(0, A.dtype), shape_of(dims_of(A)[:-2])), op.Identity(A)
    # onnxscript takes its time to read the function, which few models need.
    from opbridge.translations.linalg.hermitian_rotations import hermitian_diagonalised

    values, vectors = hermitian_diagonalised(_from_triangle(A, UPLO.upper() == "U"))
    for each in (values, vectors):
        each.type = ir.TensorType(_DOUBLE)
    count = op.Shape(A, start=-2, end=-1)
    values, order = op.TopK(op.Squeeze(values, const([0])), count, axis=-1, largest=0)
    if not compute_v:
        return cast(values, A.dtype), const([], A.dtype)
    rows = op.Expand(op.Unsqueeze(order, const([0, -2])), op.Shape(vectors))
    ordered = op.Split(op.GatherElements(vectors, rows, axis=-1), num_outputs=2, axis=0)
    pairs = join(*(op.Squeeze(each, const([0])) for each in ordered))
    pairs.type = ir.TensorType(_DOUBLE)
    return cast(values, A.dtype), cast(_turned(pairs, -1 if UPLO.upper() == "U" else 0, rank(A)), A.dtype)


def _turned(vectors: Any, row: int, count: int) -> Any:
    """Eigenvectors of which one row is real, as LAPACK's are: the first where it reads the lower triangle, or the last.

    Args:
        vectors: The eigenvectors, as pairs of the real and the imaginary part.
        row: That row.
        count: The number of dimensions that torch counts.
    """
    element = op.Gather(vectors, const([row]), axis=count - 2)
    length = op.ReduceL2(element, const([-1]), keepdims=1)
    is_nothing = op.Equal(length, const(0, _DOUBLE))
    phase = op.Div(element, op.Where(is_nothing, const(1, _DOUBLE), length))
    return op.Where(is_nothing, vectors, multiply(vectors, conjugate(phase)))


def _from_triangle(A: Any, upper: bool) -> Any:
    """The matrices that a triangle tells (2, ..., n, n). A diagonal's imaginary parts are not read."""
    real, imaginary = (cast(part, _DOUBLE) for part in parts(A))
    strict = 1 if upper else -1
    within = op.Trilu(real, 0, upper=int(upper))
    beyond = op.Trilu(real, strict, upper=int(upper))
    skew = op.Trilu(imaginary, strict, upper=int(upper))
    both = (
        op.Add(within, matrix_transpose(beyond, rank(A))),
        op.Sub(skew, matrix_transpose(skew, rank(A))),
    )
    return op.Concat(*(op.Unsqueeze(part, const([0])) for part in both), axis=0)
