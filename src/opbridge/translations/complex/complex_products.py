"""Products of complex matrices and vectors, each as one product of real matrices of twice the size."""

from __future__ import annotations

from typing import Any

from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.translations.complex.pairs import conjugate, join, multiply, parts, rank, scaled, times_i
from opbridge.translations.lib.dims import Dim, dim_of, shape_of
from opbridge.translations.lib.reshaping import reshape
from opbridge.translations.linalg.einsum import einsum as build_einsum
from opbridge.translations.registry import builtin


@builtin("aten::matmul", "aten::mm", "aten::bmm", "aten::mv", complex=True)
def matmul(self, other):
    """matmul(Tensor self, Tensor other) -> Tensor"""
    return _matmul(self, other)


@builtin("aten::dot", complex=True)
def dot(self, tensor):
    """dot(Tensor self, Tensor tensor) -> Tensor"""
    return op.ReduceSum(multiply(self, tensor), [0], keepdims=0)


@builtin("aten::vdot", complex=True)
def vdot(self, other):
    """vdot(Tensor self, Tensor other) -> Tensor"""
    return op.ReduceSum(multiply(conjugate(self), other), [0], keepdims=0)


@builtin("aten::linear", complex=True)
def linear(input, weight, bias=None):
    """linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"""
    turned_weight = op.Transpose(weight, perm=[1, 0, 2])
    product = _matmul(input, turned_weight)
    return product if bias is None else product + bias


@builtin("aten::addmm", "aten::addmv", "aten::baddbmm", complex=True)
def addmm(self, mat1, mat2, beta=1, alpha=1):
    """addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    return _scaled_sum(self, _matmul(mat1, mat2), beta, alpha)


@builtin("aten::addbmm", complex=True)
def addbmm(self, batch1, batch2, beta=1, alpha=1):
    """addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    return _scaled_sum(self, op.ReduceSum(_matmul(batch1, batch2), [0], keepdims=0), beta, alpha)


@builtin("aten::addr", complex=True)
def addr(self, vec1, vec2, beta=1, alpha=1):
    """addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    return _scaled_sum(self, multiply(op.Unsqueeze(vec1, [1]), vec2), beta, alpha)


@builtin("aten::einsum", complex=True)
def einsum(equation: str, tensors, path=None):
    """einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor"""
    if len(tensors) == 1:
        return join(*(build_einsum(equation, [part]) for part in parts(tensors[0])))
    if len(tensors) > 2:
        raise TranslationError(
            "An einsum of complex tensors is supported for at most two tensors. Split it into steps."
        )
    (real1, imaginary1), (real2, imaginary2) = (parts(tensor) for tensor in tensors)
    real = build_einsum(equation, [real1, real2]) - build_einsum(equation, [imaginary1, imaginary2])
    return join(real, build_einsum(equation, [real1, imaginary2]) + build_einsum(equation, [imaginary1, real2]))


def _scaled_sum(self: Any, product: Any, beta: Any, alpha: Any) -> Any:
    result = scaled(product, alpha)
    return result if beta == 0 else scaled(self, beta) + result


def _matmul(x: Any, y: Any) -> Any:
    """(a + bi)(c + di) as (a, b) times ((c, d), (-d, c)), for every pair of elements that are multiplied."""
    rows, columns = rank(x), rank(y)
    inner = dim_of(x, -2) * 2
    across = Dim(1) if columns == 1 else dim_of(y, -2)
    left = op.Reshape(x, shape_of([*[0] * (rows - 1), inner]))
    batch = [dim_of(y, each) for each in range(columns - 2)]
    y = op.Unsqueeze(y, [1]) if columns == 1 else y
    axis = max(columns, 2) - 1  # between the dimension that is summed over and the columns
    right = op.Concat(op.Unsqueeze(y, [axis]), op.Unsqueeze(times_i(y), [axis]), axis=axis)
    right = reshape(right, [*batch, inner, across * 2])
    product = op.MatMul(left, right)
    kept = max(rows, columns) - 1 if rows > 1 else max(columns, 2) - 2
    if columns == 1:
        return product
    return op.Reshape(product, shape_of([*[0] * kept, across, 2]))
