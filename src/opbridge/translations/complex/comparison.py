"""Comparisons and truth values of complex tensors."""

from __future__ import annotations

from typing import Any

from onnxscript import opset18 as op

from opbridge.translations.complex.pairs import is_number, magnitude, number
from opbridge.translations.registry import builtin


@builtin("aten::eq.Tensor", "aten::eq.Scalar", complex=True)
def eq(self, other):
    """eq.Tensor(Tensor self, Tensor other) -> Tensor"""
    return _both(op.Equal(self, number(other, self) if is_number(other) else other))


@builtin("aten::ne.Tensor", "aten::ne.Scalar", complex=True)
def ne(self, other):
    """ne.Tensor(Tensor self, Tensor other) -> Tensor"""
    return op.Not(eq(self, other))


@builtin("aten::isnan", complex=True)
def isnan(self):
    """isnan(Tensor self) -> Tensor"""
    return op.Not(_both(op.Not(op.IsNaN(self))))


@builtin("aten::isinf", complex=True)
def isinf(self):
    """isinf(Tensor self) -> Tensor"""
    return op.Not(_both(op.Not(op.Equal(op.Abs(self), float("inf")))))


@builtin("aten::isfinite", complex=True)
def isfinite(self):
    """isfinite(Tensor self) -> Tensor"""
    return _both(op.Abs(self) < float("inf"))


@builtin("aten::logical_not", complex=True)
def logical_not(self):
    """logical_not(Tensor self) -> Tensor"""
    return eq(self, 0)


@builtin("aten::logical_and", complex=True)
def logical_and(self, other):
    """logical_and(Tensor self, Tensor other) -> Tensor"""
    return op.And(ne(self, 0), ne(other, 0))


@builtin("aten::logical_or", complex=True)
def logical_or(self, other):
    """logical_or(Tensor self, Tensor other) -> Tensor"""
    return op.Or(ne(self, 0), ne(other, 0))


@builtin("aten::logical_xor", complex=True)
def logical_xor(self, other):
    """logical_xor(Tensor self, Tensor other) -> Tensor"""
    return op.Xor(ne(self, 0), ne(other, 0))


@builtin("aten::isclose", complex=True)
def isclose(self, other, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False):
    """isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor"""
    gap = magnitude(self - other)
    near = op.And(gap <= magnitude(other) * rtol + atol, gap < float("inf"))
    result = op.Or(eq(self, other), near)
    return op.Or(result, op.And(isnan(self), isnan(other))) if equal_nan else result


def _both(flags: Any) -> Any:
    """Whether something holds for the real part and for the imaginary one."""
    return op.And(op.Gather(flags, 0, axis=-1), op.Gather(flags, 1, axis=-1))
