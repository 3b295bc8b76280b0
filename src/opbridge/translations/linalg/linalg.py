"""Products of matrices and vectors. Distances are in distances.py, factorisations and what needs them in solving.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.translations.lib.dims import Dim, dim_of, shape_of
from opbridge.translations.lib.dtypes import FLOATS, HALVES, cast, cast_like, const, is_number, is_tensor, widen
from opbridge.translations.lib.promotion import promote
from opbridge.translations.linalg.einsum import einsum as build_einsum
from opbridge.translations.registry import builtin


@builtin("aten::linear")
def linear(input, weight, bias=None):
    """linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"""
    if 0 in input.shape or weight.shape[-1] == 0:
        # onnxruntime's MatMul and its fusions fail on some tensors without elements.
        shape = op.Concat(op.Shape(input, end=-1), op.Shape(weight, end=-1), axis=0)
        return _add_bias(op.Expand(const(0, input.dtype), shape), bias)
    if len(weight.shape) == 1:
        return _add_bias(op.MatMul(input, weight), bias)
    if len(input.shape) == 2 and input.dtype in FLOATS:
        return op.Gemm(input, weight, bias, transB=1)
    return _add_bias(op.MatMul(input, op.Transpose(weight, perm=[1, 0])), bias)


@builtin("aten::addmm")
def addmm(self, mat1, mat2, beta=1, alpha=1):
    """addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    # Gemm's factors are float32, and onnxruntime's forgets beta where there is nothing to sum over.
    exact = self.dtype in FLOATS and all(_is_float32(factor) for factor in (beta, alpha))
    if exact and dim_of(mat1, 1).is_known and dim_of(mat1, 1) != 0:
        return op.Gemm(mat1, mat2, self if beta != 0 else None, alpha=float(alpha), beta=float(beta))
    return _wide_sum(self, op.MatMul(mat1, mat2), beta, alpha)


@builtin("aten::addmv", "aten::baddbmm")
def addmv(self, batch1, batch2, beta=1, alpha=1):
    """baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    return _wide_sum(self, op.MatMul(batch1, batch2), beta, alpha)


@builtin("aten::addbmm")
def addbmm(self, batch1, batch2, beta=1, alpha=1):
    """addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    return _wide_sum(self, op.ReduceSum(op.MatMul(batch1, batch2), [0], keepdims=0), beta, alpha)


@builtin("aten::addr")
def addr(self, vec1, vec2, beta=1, alpha=1):
    """addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    if self.dtype == ir.DataType.BOOL:
        product = op.And(op.Unsqueeze(vec1, [1]), vec2)
        product = _kept_by(alpha, product)
        return op.Or(_kept_by(beta, self), product)
    return _scaled_sum(self, op.Unsqueeze(vec1, [1]) * vec2, beta, alpha)


@builtin("aten::bilinear")
def bilinear(input1, input2, weight, bias=None):
    """bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor"""
    out, left, right = (dim_of(weight, axis) for axis in range(3))
    flat = op.Reshape(op.Transpose(weight, perm=[1, 0, 2]), shape_of([left, out * right]))
    rows = op.MatMul(input1, flat)
    rows = op.Reshape(rows, op.Concat(op.Shape(input1, end=-1), shape_of([out, right]), axis=0), allowzero=1)
    return _add_bias(op.Squeeze(op.MatMul(rows, op.Unsqueeze(input2, [-1])), [-1]), bias)


@builtin("aten::einsum")
def einsum(equation: str, tensors, path=None):
    """einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor"""
    return build_einsum(equation, list(tensors))


@builtin("aten::linalg_vander")
def linalg_vander(x, N=None):
    """linalg_vander(Tensor x, *, SymInt? N=None) -> Tensor"""
    if len(x.shape) == 0:
        x, N = op.Unsqueeze(x, [0]), 1 if N is None else N
    count = dim_of(x, -1) if N is None else Dim(N)
    if not count.is_known:
        raise TranslationError("The number of columns of linalg.vander must be known at export. Pass N=.")
    if not x.dtype.is_floating_point():
        # Powers of integers are int64, as torch's running products are.
        x = op.Cast(x, to=ir.DataType.INT64)
    column = op.Unsqueeze(x, [-1])
    columns = [op.CastLike(op.Expand(1, op.Shape(column)), x)]
    while len(columns) < count:
        columns.append(columns[-1] * column if len(columns) > 1 else column)
    return op.Concat(*columns[: int(count)], axis=-1)


@builtin("aten::cosine_similarity")
def cosine_similarity(x1, x2, dim: int = 1, eps: float = 1e-8):
    """cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor"""
    rank = max(len(x1.shape), len(x2.shape))
    if rank == 0:
        x1, x2 = op.Unsqueeze(x1, [0]), op.Unsqueeze(x2, [0])
        return op.Reshape(_cosine(x1, x2, 0, eps), [])
    axis = dim - rank if dim >= 0 else dim
    if len(x1.shape) != len(x2.shape) or x1.shape[axis] != x2.shape[axis]:
        # A vector that is repeated counts as often in its norm.
        x1, x2 = op.Expand(x1, op.Shape(x2)), op.Expand(x2, op.Shape(x1))
    return _cosine(x1, x2, axis + rank, eps)


def _cosine(x1: Any, x2: Any, axis: int, eps: float) -> Any:
    x1, x2 = (x / op.Max(op.ReduceL2(x, [axis]), const(eps, x.dtype)) for x in (x1, x2))
    return op.ReduceSum(x1 * x2, [axis], keepdims=0)


def _add_bias(value: Any, bias: Any) -> Any:
    return value if bias is None else value + bias


def _wide_sum(self: Any, product: Any, beta: Any, alpha: Any) -> Any:
    """The scaled sum, computed in float32 for 16-bit tensors: torch rounds the sum, and not what it adds."""
    if self.dtype not in HALVES or (is_number(alpha, 1) and is_number(beta, 1)):
        return _scaled_sum(self, product, beta, alpha)
    return cast(_scaled_sum(widen(self), widen(product), beta, alpha), self.dtype)


def _scaled_sum(self: Any, product: Any, beta: Any, alpha: Any) -> Any:
    """beta * self + alpha * product. What is multiplied by a beta of 0 is not looked at, nan or not."""
    result = _scale(product, alpha)
    if is_tensor(beta):
        factor = cast_like(beta, self)
        return op.Where(op.Equal(factor, cast_like(0, factor)), cast_like(0, self), self * factor) + result
    return result if _factor_for(self, beta) == 0 else _scale(self, beta) + result


def _scale(value: Any, factor: Any) -> Any:
    if is_tensor(factor):
        return value * cast_like(factor, value)
    factor = _factor_for(value, factor)
    return value if factor == 1 else value * factor


def _factor_for(like: Any, number: Any) -> Any:
    """A factor as torch takes it: towards zero for integer tensors."""
    return number if like.dtype in FLOATS else int(number)


def _kept_by(factor: Any, truths: Any) -> Any:
    """A bool tensor times a factor."""
    return op.And(truths, cast(factor, ir.DataType.BOOL) if is_tensor(factor) else bool(factor))


def _is_float32(number: Any) -> bool:
    """Whether a factor is known at export and exact in float32."""
    return not is_tensor(number) and float(np.float32(number)) == number


@builtin("aten::kron")
def kron(self, other):
    """kron(Tensor self, Tensor other) -> Tensor"""
    x, y = promote(self, other)
    rank = max(len(self.shape), len(other.shape))
    left, right = (
        [Dim(1)] * (rank - len(each.shape)) + [dim_of(each, axis) for axis in range(len(each.shape))]
        for each in (self, other)
    )
    one = Dim(1)
    x = op.Reshape(x, shape_of([size for each in left for size in (each, one)]), allowzero=1)
    y = op.Reshape(y, shape_of([size for each in right for size in (one, each)]), allowzero=1)
    sizes = [a * b for a, b in zip(left, right, strict=True)]
    return op.Reshape(op.Mul(x, y), shape_of(sizes), allowzero=1)
