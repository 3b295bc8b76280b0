"""Reductions of complex tensors."""

from __future__ import annotations

import math
from typing import Any

from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.translations.complex.pairs import each_part, multiply, number, parts, rank, real_translation
from opbridge.translations.registry import builtin


@builtin("aten::sum", complex=True)
def sum_all(self, dtype=None):
    """sum(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    return _reduced("aten::sum.dim_IntList", self, None, False)


@builtin("aten::sum.dim_IntList", complex=True)
def sum_dim(self, dim, keepdim: bool = False, dtype=None):
    """sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    return _reduced("aten::sum.dim_IntList", self, dim, keepdim)


@builtin("aten::mean", complex=True)
def mean_all(self, dtype=None):
    """mean(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    return _reduced("aten::mean.dim", self, None, False)


@builtin("aten::mean.dim", complex=True)
def mean_dim(self, dim, keepdim: bool = False, dtype=None):
    """mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    return _reduced("aten::mean.dim", self, dim, keepdim)


def _reduced(operator: str, x: Any, dim: Any, keepdim: bool) -> Any:
    """A reduction over some dimensions, or all of them."""
    dims = [dim] if isinstance(dim, int) else list(dim or range(rank(x)))
    if rank(x) == 0:
        return x
    return real_translation(operator)(x, [each % rank(x) for each in dims], keepdim)


@builtin("aten::var.correction", complex=True)
def var(self, dim=None, correction=None, keepdim: bool = False):
    """var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor"""
    first, second = (
        real_translation("aten::var.correction")(part, dim, correction=correction, keepdim=keepdim)
        for part in parts(self)
    )
    return first + second


@builtin("aten::std.correction", complex=True)
def std(self, dim=None, correction=None, keepdim: bool = False):
    """std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor"""
    return op.Sqrt(var(self, dim, correction, keepdim))


@builtin("aten::var_mean.correction", complex=True)
def var_mean(self, dim=None, correction=None, keepdim: bool = False):
    """var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor,
    Tensor)"""
    return var(self, dim, correction, keepdim), _reduced("aten::mean.dim", self, dim, keepdim)


@builtin("aten::std_mean.correction", complex=True)
def std_mean(self, dim=None, correction=None, keepdim: bool = False):
    """std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor,
    Tensor)"""
    return std(self, dim, correction, keepdim), _reduced("aten::mean.dim", self, dim, keepdim)


@builtin("aten::cumsum", complex=True)
def cumsum(self, dim: int, dtype=None):
    """cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"""
    return each_part(lambda part: real_translation("aten::cumsum")(part, dim), self)


# Products


@builtin("aten::prod.dim_int", complex=True)
def prod_dim(self, dim: int, keepdim: bool = False, dtype=None):
    """prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    if rank(self) == 0:
        return self
    axis = dim % rank(self)
    result = _product(self, axis, self.shape[axis])
    return result if keepdim else op.Squeeze(result, [axis])


@builtin("aten::prod", complex=True)
def prod(self, dtype=None):
    """prod(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    if not all(isinstance(dim, int) for dim in self.shape):
        raise TranslationError("The product of a complex tensor is supported only if its size is known at export.")
    count = math.prod(self.shape[:-1])
    return op.Reshape(_product(op.Reshape(self, [count, 2], allowzero=1), 0, count), [2])


@builtin("aten::cumprod", complex=True)
def cumprod(self, dim: int, dtype=None):
    """cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"""
    axis = dim % max(rank(self), 1)
    count = self.shape[axis] if rank(self) else 1
    if not isinstance(count, int):
        raise TranslationError("The product of a complex tensor is supported only if its size is known at export.")
    result, step = self, 1
    while step < count:  # each element times that `step` places before it
        before = op.Slice(result, [0], [count - step], [axis])
        ones = op.Expand(number(1, self), op.Shape(op.Slice(result, [0], [step], [axis])))
        result, step = multiply(result, op.Concat(ones, before, axis=axis)), step * 2
    return result


def _product(x: Any, axis: int, count: Any) -> Any:
    """The product along an axis, which stays with size 1: halves are multiplied until there is one element."""
    if not isinstance(count, int):
        raise TranslationError("The product of a complex tensor is supported only if its size is known at export.")
    if count == 0:
        shape = op.Concat(op.Shape(x, end=axis), [1], op.Shape(x, start=axis + 1), axis=0)
        return op.Expand(number(1, x), shape)
    while count > 1:
        half = count // 2
        first, second = (op.Slice(x, [start], [start + half], [axis]) for start in (0, half))
        rest = [op.Slice(x, [2 * half], [count], [axis])] if count % 2 else []
        x = op.Concat(multiply(first, second), *rest, axis=axis) if rest else multiply(first, second)
        count -= half
    return x
