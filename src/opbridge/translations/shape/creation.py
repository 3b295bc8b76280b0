"""Tensors made from sizes and numbers, of which some are known only when the model runs; the rest are constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.elementwise.arithmetic import pow_tensor
from opbridge.translations.lib.conventions import conventions
from opbridge.translations.lib.dims import Dim, dim_of, positions, shape_of
from opbridge.translations.lib.dtypes import cast, convert, default_float, is_float, is_tensor
from opbridge.translations.lib.matrices import diagonal_mask
from opbridge.translations.registry import builtin

_BOOL, _INT64, _DOUBLE = ir.DataType.BOOL, ir.DataType.INT64, ir.DataType.DOUBLE


def filled(shape: Any, value: Any, dtype: Any) -> Any:
    """A tensor of one number.

    Args:
        shape: Sizes, or a vector of the graph that holds them.
        value: A Python number, or a value of the graph with one element.
        dtype: The type of the tensor.
    """
    dtype = ir.DataType(dtype)
    shape = shape if is_tensor(shape) else shape_of(shape)
    if is_tensor(value):
        return op.Expand(op.Reshape(convert(value, dtype), shape_of([])), shape)
    return op.ConstantOfShape(shape, value=ir.Tensor(np.asarray([value]).astype(dtype.numpy()), dtype=dtype))


def _dtype_or(dtype: int | None, otherwise: Any) -> Any:
    return otherwise if dtype in (None, -1) else dtype


def _inferred_dtype(*numbers: Any) -> Any:
    """The type of a tensor of these numbers where none is asked for."""
    if any(is_float(number) if is_tensor(number) else isinstance(number, float) for number in numbers):
        return default_float()
    if all(number.dtype == _BOOL if is_tensor(number) else isinstance(number, bool) for number in numbers):
        return _BOOL
    return _INT64


@builtin("aten::zeros", "aten::empty.memory_format", "aten::empty_permuted", "aten::empty_strided")
def zeros(size, *layout, dtype=None):
    """zeros(SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return filled(size, 0, _dtype_or(dtype, default_float()))


@builtin("aten::ones")
def ones(size, dtype=None):
    """ones(SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return filled(size, 1, _dtype_or(dtype, default_float()))


@builtin("aten::full")
def full(size, fill_value, dtype=None):
    """full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, ...) -> Tensor"""
    return filled(size, fill_value, _dtype_or(dtype, _inferred_dtype(fill_value)))


@builtin("aten::zeros_like", "aten::empty_like")
def zeros_like(self, dtype=None):
    """zeros_like(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor"""
    return filled(op.Shape(self), 0, _dtype_or(dtype, self.dtype))


@builtin("aten::ones_like")
def ones_like(self, dtype=None):
    """ones_like(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor"""
    return filled(op.Shape(self), 1, _dtype_or(dtype, self.dtype))


@builtin("aten::full_like")
def full_like(self, fill_value, dtype=None):
    """full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, ...) -> Tensor"""
    return filled(op.Shape(self), fill_value, _dtype_or(dtype, self.dtype))


@builtin("aten::new_zeros", "aten::new_empty")
def new_zeros(self, size, dtype=None):
    """new_zeros(Tensor self, SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return filled(size, 0, _dtype_or(dtype, self.dtype))


@builtin("aten::new_ones")
def new_ones(self, size, dtype=None):
    """new_ones(Tensor self, SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return filled(size, 1, _dtype_or(dtype, self.dtype))


@builtin("aten::new_full")
def new_full(self, size, fill_value, dtype=None):
    """new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, ...) -> Tensor"""
    return filled(size, fill_value, _dtype_or(dtype, self.dtype))


@builtin("aten::scalar_tensor", "prims::scalar_tensor")
def scalar_tensor(s, dtype=None):
    """scalar_tensor(Scalar s, *, ScalarType? dtype=None, ...) -> Tensor"""
    target = _dtype_or(dtype, default_float())
    return convert(s, target) if is_tensor(s) else filled([], s, target)


@builtin("aten::eye", "aten::eye.m")
def eye(n, m=None, dtype=None):
    """eye.m(SymInt n, SymInt m, *, ScalarType? dtype=None, ...) -> Tensor"""
    return cast(diagonal_mask(n, n if m is None else m), _dtype_or(dtype, default_float()))


# Sequences of numbers


@builtin("aten::arange")
def arange(end, dtype=None):
    """arange(Scalar end, *, ScalarType? dtype=None, ...) -> Tensor"""
    return _arange(0, end, 1, dtype)


@builtin("aten::arange.start")
def arange_start(start, end, dtype=None):
    """arange.start(Scalar start, Scalar end, *, ScalarType? dtype=None, ...) -> Tensor"""
    return _arange(start, end, 1, dtype)


@builtin("aten::_dim_arange")
def dim_arange(like, dim: int):
    """_dim_arange(Tensor like, int dim) -> Tensor"""
    return positions(dim_of(like, dim))


@builtin("aten::arange.start_step")
def arange_start_step(start, end, step=1, dtype=None):
    """arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, ...) -> Tensor"""
    return _arange(start, end, step, dtype)


def _arange(start: Any, end: Any, step: Any, dtype: int | None) -> Any:
    bounds = (start, end, step)
    given = _inferred_dtype(*bounds)
    target = ir.DataType(_dtype_or(dtype, _INT64 if given == _BOOL else given))
    if not given.is_floating_point() or (target == _INT64 and not conventions().counts_fractions):
        return cast(op.Range(*(cast(each, _INT64) if is_tensor(each) else int(each) for each in bounds)), target)
    # As torch does it: in double, and every number from the first one.
    first, last, gap = (cast(_as_tensor(each), _DOUBLE) for each in bounds)
    places = positions(cast(op.Ceil(op.Div(op.Sub(last, first), gap)), _INT64))
    if not target.is_floating_point():
        # Integers are counted by the bounds as they are, and computed from their whole parts.
        return cast(op.Add(cast(first, _INT64), op.Mul(places, cast(gap, _INT64))), target)
    return cast(op.Add(first, op.Mul(cast(places, _DOUBLE), gap)), target)


def _as_tensor(number: Any) -> Any:
    return number if is_tensor(number) else op.Constant(value=ir.tensor(float(number), dtype=_DOUBLE))


@builtin(
    "aten::linspace",
    "aten::linspace.Tensor_Tensor",
    "aten::linspace.Tensor_Scalar",
    "aten::linspace.Scalar_Tensor",
)
def linspace(start, end, steps, dtype=None):
    """linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None, ...) -> Tensor"""
    return convert(_even_numbers(start, end, steps, dtype), _dtype_or(dtype, default_float()))


@builtin(
    "aten::logspace",
    "aten::logspace.Tensor_Tensor",
    "aten::logspace.Tensor_Scalar",
    "aten::logspace.Scalar_Tensor",
)
def logspace(start, end, steps, base: float = 10.0, dtype=None):
    """logspace(Scalar start, Scalar end, int steps, float base=10.0, *, ScalarType? dtype=None, ...) -> Tensor"""
    exponents = _even_numbers(start, end, steps, dtype)
    return convert(op.Pow(_as_tensor(base), exponents), _dtype_or(dtype, default_float()))


def _even_numbers(start: Any, end: Any, steps: Any, dtype: int | None) -> Any:
    """`steps` numbers from `start` to `end`, both exact, in double."""
    target = ir.DataType(_dtype_or(dtype, default_float()))

    def bound(number: Any) -> Any:
        known = _as_tensor(number)
        known = op.Reshape(known, op.Constant(value=ir.tensor([], dtype=_INT64)))
        return cast(convert(known, target) if not target.is_floating_point() else known, _DOUBLE)

    first, last = bound(start), bound(end)
    places = cast(positions(steps), _DOUBLE)
    most = cast(op.Sub(steps, 1), _DOUBLE) if is_tensor(steps) else _as_tensor(steps - 1)
    gap = op.Div(op.Sub(last, first), op.Max(most, 1.0))
    from_end = op.Sub(last, op.Mul(gap, op.Sub(most, places)))
    is_early = op.Less(op.Mul(places, 2.0), op.Add(most, 1.0))
    return op.Where(is_early, op.Add(first, op.Mul(gap, places)), from_end)


@builtin("aten::vander")
def vander(x, N=None, increasing: bool = False):
    """vander(Tensor x, int? N=None, bool increasing=False) -> Tensor"""
    count = dim_of(x, -1) if N is None else Dim(N)
    exponents = positions(count)
    return _powers_of_each(x, exponents if increasing else op.Sub((count - 1).value, exponents))


def _powers_of_each(x: Any, exponents: Any) -> Any:
    base = x if is_float(x) else cast(x, _INT64)
    return pow_tensor(op.Unsqueeze(base, [-1]), op.CastLike(exponents, base))
