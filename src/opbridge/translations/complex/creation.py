"""Complex tensors filled with a number, copied and converted."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.complex.pairs import COMPLEX, number
from opbridge.translations.lib.dtypes import const
from opbridge.translations.registry import builtin


@builtin("aten::zeros_like", "aten::empty_like", "aten::zero", complex=True)
def zeros_like(self, dtype=None):
    """zeros_like(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor"""
    return op.Expand(const(0, self.dtype), op.Shape(self))


@builtin("aten::ones_like", complex=True)
def ones_like(self, dtype=None):
    """ones_like(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor"""
    return op.Expand(number(1, self), op.Shape(self))


@builtin("aten::full_like", "aten::fill.Scalar", complex=True)
def full_like(self, fill_value, dtype=None):
    """full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, ...) -> Tensor"""
    return op.Expand(number(fill_value, self), op.Shape(self))


@builtin("aten::new_full", complex=True)
def new_full(self, size, fill_value, dtype=None):
    """new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, ...) -> Tensor"""
    return op.Expand(number(fill_value, self), [*size, 2])


@builtin("aten::new_zeros", "aten::new_empty", complex=True)
def new_zeros(self, size, dtype=None):
    """new_zeros(Tensor self, SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return op.Expand(const([0, 0], self.dtype), [*size, 2])


@builtin("aten::new_ones", complex=True)
def new_ones(self, size, dtype=None):
    """new_ones(Tensor self, SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return op.Expand(const([1, 0], self.dtype), [*size, 2])


@builtin("aten::full", complex=True)
def full(size, fill_value, dtype=None):
    """full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, ...) -> Tensor"""
    value = complex(fill_value)
    is_double = dtype == ir.DataType.COMPLEX128
    pair = const([value.real, value.imag], ir.DataType.DOUBLE if is_double else ir.DataType.FLOAT)
    return op.Expand(pair, [*size, 2])


@builtin("aten::scalar_tensor", complex=True)
def scalar_tensor(s, dtype=None):
    """scalar_tensor(Scalar s, *, ScalarType? dtype=None, ...) -> Tensor"""
    return full([], s, dtype)


@builtin("aten::zeros", "aten::empty.memory_format", complex=True)
def zeros(size, dtype=None):
    """zeros(SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return full(size, 0, dtype)


@builtin("aten::ones", complex=True)
def ones(size, dtype=None):
    """ones(SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return full(size, 1, dtype)


# Copies and conversions


@builtin("aten::clone", "aten::contiguous", "aten::detach", "aten::alias", "aten::lift_fresh_copy", complex=True)
@builtin("aten::alias_copy", "aten::detach_copy", complex=True)
def clone(self):
    """clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"""
    return self


@builtin("aten::copy", complex=True)
def copy(self, src):
    """copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor"""
    return op.Expand(src, op.Shape(self))


@builtin("aten::_to_copy", complex=True)
def _to_copy(self, dtype=None):
    """_to_copy(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor"""
    return _converted(self, dtype)


@builtin("aten::to.dtype", "aten::to.dtype_layout", complex=True)
def to_dtype(self, dtype=None):
    """to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, ...) -> Tensor(a)"""
    return _converted(self, dtype)


@builtin("aten::to.device", complex=True)
def to_device(self, device, dtype):
    """to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, ...) -> Tensor(a)"""
    return _converted(self, dtype)


def _converted(self: Any, dtype: Any) -> Any:
    """A complex tensor as another type; a real one takes the real part."""
    if dtype in (None, -1) or dtype in COMPLEX:
        return self
    real = op.Gather(self, 0, axis=-1)
    return op.Cast(real, to=dtype)
