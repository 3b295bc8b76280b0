"""Conversions between types, copies, and fills."""

from __future__ import annotations

import onnx_ir as ir
from onnxscript import opset18 as op
from onnxscript.values import Opset

from opbridge.errors import TranslationError
from opbridge.translations.lib.dtypes import UNSIGNED, cast, cast_like, convert, is_float, is_tensor
from opbridge.translations.registry import builtin


@builtin("aten::to.dtype", "aten::to.dtype_layout", "aten::_to_copy", "prims::convert_element_type")
def to_dtype(self, dtype=None):
    """to.dtype(Tensor self, ScalarType dtype, bool non_blocking=False, bool copy=False, ...) -> Tensor"""
    return op.Identity(self) if dtype in (None, -1) else convert(self, dtype)


@builtin("aten::to.device")
def to_device(self, device=None, dtype=None):
    """to.device(Tensor self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False) -> Tensor"""
    return to_dtype(self, dtype)


@builtin("aten::to.other", "aten::type_as")
def to_other(self, other):
    """to.other(Tensor self, Tensor other, bool non_blocking=False, bool copy=False, ...) -> Tensor"""
    return convert(self, other.dtype)


@builtin(
    "aten::clone",
    "aten::contiguous",
    "aten::detach",
    "aten::detach_copy",
    "aten::alias",
    "aten::alias_copy",
    "aten::lift",
    "aten::lift_fresh",
    "aten::lift_fresh_copy",
    "aten::resolve_conj",
    "aten::resolve_neg",
    "prims::view_of",
    "prims::clone",
)
def clone(self):
    """clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"""
    return op.Identity(self)


@builtin("aten::requires_grad_")
def requires_grad_(self, requires_grad: bool = True):
    """requires_grad_(Tensor(a!) self, bool requires_grad=True) -> Tensor(a!)"""
    return op.Identity(self)


@builtin("prims::device_put")
def device_put(a, device=None):
    """prims::device_put(Tensor a, Device device, bool non_blocking=False) -> Tensor"""
    return op.Identity(a)


@builtin("aten::copy")
def copy(self, src):
    """copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor"""
    return op.Expand(convert(src, self.dtype), op.Shape(self))


@builtin("aten::fill.Scalar", "aten::fill.Tensor")
def fill(self, value):
    """fill.Scalar(Tensor self, Scalar value) -> Tensor"""
    return op.Expand(convert(value, self.dtype) if is_tensor(value) else cast_like(value, self), op.Shape(self))


@builtin("aten::zero")
def zero(self):
    """zero(Tensor self) -> Tensor"""
    return op.Expand(cast_like(0, self), op.Shape(self))


@builtin("aten::view.dtype")
def view_dtype(self, dtype):
    """view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)"""
    target = ir.DataType(dtype)
    if target == self.dtype:
        return op.Identity(self)
    both_whole = not is_float(self) and not target.is_floating_point()
    if both_whole and target.bitwidth == self.dtype.bitwidth and (self.dtype in UNSIGNED) != (target in UNSIGNED):
        return cast(self, target)
    raise TranslationError(
        "view(dtype) of a floating-point tensor requires the operator BitCast, which was added to ONNX in opset "
        "26. Export with opset_version=26, or use .to(dtype) to convert the values."
    )


@builtin("aten::view.dtype", opset=26)
def view_dtype_26(self, dtype):
    """view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)"""
    target = ir.DataType(dtype)
    if target.bitwidth == self.dtype.bitwidth:
        return Opset("", 26).BitCast(self, to=target)
    raise TranslationError("view(dtype) is supported only for types of the same width, which keep the shape.")
