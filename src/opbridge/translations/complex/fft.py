"""Fourier transforms, axis by axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.complex.fourier import from_real, half, to_real, transformed
from opbridge.translations.lib.dims import Dim, dims_of, product, shape_of
from opbridge.translations.registry import builtin


@builtin("aten::_fft_r2c")
def fft_r2c(self, dim, normalization: int, onesided: bool):
    """_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor"""
    signal = _Signal(self, dims_of(self), is_pairs=False)
    *others, last = signal.axes(dim)
    factor, rest = _factor([signal.shape[axis] for axis in (*others, last)], normalization, self.dtype)
    length = signal.shape[last]
    kept = half(length) if onesided else length
    signal.transform(last, kept, True, lambda x: from_real(x, length, kept, 1.0 if others else factor, self.dtype))
    _transform_all(signal, others, -1, factor)
    return _scale(signal.ordered(), rest)


@builtin("aten::_fft_c2c", complex=True)
def fft_c2c(self, dim, normalization: int, forward: bool):
    """_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor"""
    signal = _Signal(self, dims_of(self)[:-1], is_pairs=True)
    axes = signal.axes(dim)
    factor, rest = _factor([signal.shape[axis] for axis in axes], normalization, self.dtype)
    _transform_all(signal, axes, -1 if forward else 1, factor)
    return _scale(signal.ordered(), rest)


@builtin("aten::_fft_c2r", complex=True)
def fft_c2r(self, dim, normalization: int, last_dim_size: Any):
    """_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor"""
    signal = _Signal(self, dims_of(self)[:-1], is_pairs=True)
    *others, last = signal.axes(dim)
    length = Dim(last_dim_size)
    lengths = [*(signal.shape[axis] for axis in others), length]
    factor, rest = _factor(lengths, normalization, self.dtype)
    _transform_all(signal, others, 1, 1.0)
    signal.transform(last, length, False, lambda x: to_real(x, length, factor, self.dtype))
    return _scale(signal.ordered(), rest)


class _Signal:
    """A tensor between the transforms of its axes, whose axes need not lie in their own order.

    Attributes:
        value: The tensor.
        shape: The sizes of its axes, in their own order; without the last one of a tensor of pairs.
        order: The axes as they lie in `value`.
        is_pairs: Whether it is a tensor of pairs.
    """

    def __init__(self, value: Any, shape: list[Dim], *, is_pairs: bool) -> None:
        self.value = value
        self.shape = shape
        self.order = list(range(len(shape)))
        self.is_pairs = is_pairs

    def axes(self, dims: Sequence[int]) -> list[int]:
        """Dimensions, counted from the front."""
        return [dim % len(self.shape) for dim in dims]

    def transform(self, axis: int, size: Dim, to_pairs: bool, function: Any) -> None:
        """Applies a function of rows along an axis, which has `size` elements after it, of pairs or of numbers."""
        self.lie([*(each for each in self.order if each != axis), axis])
        length = self.shape[axis]
        rows = op.Reshape(self.value, shape_of([-1, length, 2] if self.is_pairs else [-1, length]))
        self.shape[axis], self.is_pairs = size, to_pairs
        sizes = [self.shape[each] for each in self.order]
        self.value = op.Reshape(function(rows), shape_of([*sizes, 2] if to_pairs else sizes), allowzero=1)

    def lie(self, order: list[int]) -> None:
        """Puts the axes in an order."""
        perm = [self.order.index(axis) for axis in order]
        self.value = op.Transpose(self.value, perm=[*perm, len(perm)] if self.is_pairs else perm)
        self.order = order

    def ordered(self) -> Any:
        """The tensor with its axes in their own order."""
        self.lie(sorted(self.order))
        return self.value


def _transform_all(signal: _Signal, axes: Sequence[int], sign: int, factor: float) -> None:
    """Transforms pairs along some axes. The last transform brings the factor in."""
    dtype = signal.value.dtype
    for axis in reversed(axes):
        length = signal.shape[axis]
        own = factor if axis == axes[0] else 1.0
        signal.transform(axis, length, True, lambda x, length=length, own=own: transformed(x, length, sign, own, dtype))


def _factor(lengths: Sequence[Dim], normalization: int, dtype: ir.DataType) -> tuple[float, Any]:
    """torch's three ways to scale a transform: a factor known at export, and one that is not, or None."""
    if normalization == 0:
        return 1.0, None
    count = product(lengths)
    if count.is_known:
        return 1.0 / (math.sqrt(count) if normalization == 1 else int(count)), None
    total = op.Cast(count.value, to=dtype)
    return 1.0, op.Reciprocal(op.Sqrt(total) if normalization == 1 else total)


def _scale(value: Any, factor: Any) -> Any:
    return value if factor is None else value * factor
