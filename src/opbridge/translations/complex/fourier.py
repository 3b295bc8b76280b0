"""Fourier transforms of rows, as products with the transform's matrix: a real one between pairs (see `pairs`).

onnxruntime's own DFT is exact for lengths that are powers of two only, and slower than a product up to a length of some
hundreds. Long transforms of other lengths are taken apart into two short ones (Cooley and Tukey).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.translations.complex.pairs import conjugate, times_i
from opbridge.translations.lib.dims import Dim, positions, shape_of
from opbridge.translations.lib.dtypes import const

__all__ = ["from_real", "half", "roots", "to_real", "transformed"]

_SHORT = 400
"""Transforms of complex numbers up to this length are one product."""

_SHORT_REAL = 1024
"""The same for transforms from and to real numbers, which are half the work."""

_LONGEST_PRIME = 2048
"""A prime factor beyond this would take a matrix of more than 60 MB."""


def half(length: Dim) -> Dim:
    """How many of the coefficients of a real signal say everything."""
    return length // 2 + 1


def roots(rows: int, columns: int, length: int, sign: int) -> np.ndarray:
    """exp(sign * 2 pi i j k / length) of each row j and column k, exact to the last digits of a double."""
    turns = np.outer(np.arange(rows), np.arange(columns)) % length
    return np.exp(sign * 2j * np.pi * turns / length)


def from_real(x: Any, length: Dim, kept: Dim, factor: float, dtype: ir.DataType) -> Any:
    """Transforms rows of real numbers: from (rows, length) to (rows, kept, 2).

    Args:
        x: The rows.
        length: Their length.
        kept: How many coefficients are wanted.
        factor: What they are multiplied by.
        dtype: The type of the numbers.
    """
    if not length.is_known:
        cosines, sines = _roots_when_run(length, kept, length, -1, dtype)
        matrix = op.Reshape(_as_pairs(cosines, sines), shape_of([length, kept * 2]))
        return op.Reshape(op.MatMul(x, matrix), shape_of([-1, kept, 2]))
    return _from_real_of_length(x, int(length), int(kept), factor, dtype)


def _from_real_of_length(x: Any, length: int, kept: int, factor: float, dtype: ir.DataType) -> Any:
    """The same for a length that is known at export."""
    if length > _SHORT_REAL and _is_power(length):
        result = op.DFT(op.Unsqueeze(x, [2]), None, axis=1, onesided=int(kept != length))
        return result if factor == 1 else result * const(factor, dtype)
    if length > _SHORT_REAL and _split(length) != 1:
        pairs = op.Pad(op.Unsqueeze(x, [2]), [0, 0, 0, 0, 0, 1])
        result = transformed(pairs, Dim(length), -1, factor, dtype)
        return op.Slice(result, [0], [kept], [1]) if kept != length else result
    _check(length)
    table = roots(length, kept, length, -1) * factor
    matrix = const(np.stack([table.real, table.imag], axis=-1).reshape(length, -1), dtype)
    return op.Reshape(op.MatMul(x, matrix), [-1, kept, 2])


def to_real(x: Any, length: Dim, factor: float, dtype: ir.DataType) -> Any:
    """Transforms the first half of the coefficients back: from (rows, length // 2 + 1, 2) to real (rows, length)."""
    kept = half(length)
    if not length.is_known:
        cosines, sines = _roots_when_run(kept, length, length, 1, dtype)
        place = positions(kept)
        is_single = op.Or(op.Equal(place, 0), op.Equal(place * 2, length.value))
        weights = op.Unsqueeze(op.Where(is_single, const(1, dtype), const(2, dtype)), [1])
        parts = [op.Unsqueeze(part * weights, [1]) for part in (cosines, op.Neg(sines))]
        matrix = op.Reshape(op.Concat(*parts, axis=1), shape_of([kept * 2, length]))
        return op.MatMul(op.Reshape(x, shape_of([-1, kept * 2])), matrix)
    return _to_real_of_length(x, int(length), int(kept), factor, dtype)


def _to_real_of_length(x: Any, length: int, kept: int, factor: float, dtype: ir.DataType) -> Any:
    """The same for a length that is known at export."""
    if length > _SHORT_REAL and _split(length) != 1:
        mirrored = op.Slice(conjugate(x), [length - kept], [0], [1], [-1])
        whole = op.Concat(x, mirrored, axis=1)
        return op.Gather(transformed(whole, Dim(length), 1, factor, dtype), 0, axis=2)
    _check(length)
    table = roots(kept, length, length, 1) * factor
    place = np.arange(kept)
    table *= np.where((place == 0) | (place * 2 == length), 1, 2)[:, None]
    matrix = const(np.stack([table.real, -table.imag], axis=1).reshape(kept * 2, length), dtype)
    return op.MatMul(op.Reshape(x, [-1, kept * 2]), matrix)


def transformed(x: Any, length: Dim, sign: int, factor: float, dtype: ir.DataType) -> Any:
    """Transforms rows of pairs: (rows, length, 2) to the same."""
    if not length.is_known:
        pairs = _as_pairs(*_roots_when_run(length, length, length, sign, dtype))
        matrix = op.Concat(op.Unsqueeze(pairs, [1]), op.Unsqueeze(times_i(pairs), [1]), axis=1)
        matrix = op.Reshape(matrix, shape_of([length * 2, length * 2]))
        products = op.MatMul(op.Reshape(x, shape_of([-1, length * 2])), matrix)
        return op.Reshape(products, shape_of([-1, length, 2]))
    return _transformed_of_length(x, int(length), sign, factor, dtype)


def _transformed_of_length(x: Any, length: int, sign: int, factor: float, dtype: ir.DataType) -> Any:
    """The same for a length that is known at export."""
    if length > _SHORT and _is_power(length):
        # ONNX's inverse divides by the length.
        result = op.DFT(x, None, axis=1, inverse=int(sign > 0))
        factor = factor * length if sign > 0 else factor
        return result if factor == 1 else result * const(factor, dtype)
    first = _split(length)
    if length > _SHORT and first != 1:
        return _in_two(x, first, length // first, sign, factor, dtype)
    _check(length)
    table = roots(length, length, length, sign) * factor
    blocks = np.stack([np.stack([table.real, table.imag], -1), np.stack([-table.imag, table.real], -1)], axis=1)
    matrix = const(blocks.reshape(length * 2, length * 2), dtype)
    return op.Reshape(op.MatMul(op.Reshape(x, [-1, length * 2]), matrix), [-1, length, 2])


def _in_two(x: Any, outer: int, inner: int, sign: int, factor: float, dtype: ir.DataType) -> Any:
    """A transform as transforms of two factors of its length, with a rotation of each number in between.

    Place j is inner * j1 + j2, and coefficient k is k1 + outer * k2.
    """
    x = op.Transpose(op.Reshape(x, [-1, outer, inner, 2]), perm=[0, 2, 1, 3])
    x = _transformed_of_length(op.Reshape(x, [-1, outer, 2]), outer, sign, 1.0, dtype)
    rotation = roots(inner, outer, inner * outer, sign)
    x = op.Reshape(x, [-1, inner, outer, 2])
    across = const(np.stack([-rotation.imag, rotation.imag], axis=-1), dtype)
    x = x * const(rotation.real[..., None], dtype) + op.Gather(x, const([1, 0]), axis=-1) * across
    x = op.Reshape(op.Transpose(x, perm=[0, 2, 1, 3]), [-1, inner, 2])
    x = op.Reshape(_transformed_of_length(x, inner, sign, factor, dtype), [-1, outer, inner, 2])
    return op.Reshape(op.Transpose(x, perm=[0, 2, 1, 3]), [-1, inner * outer, 2])


def _is_power(length: int) -> bool:
    """Whether onnxruntime's own transform is exact: for powers of two; at a length of 400 it is off by 1e-3."""
    return length & (length - 1) == 0


def _split(length: int) -> int:
    """The divisor nearest below the square root; 1 for a prime."""
    return next(each for each in range(math.isqrt(length), 0, -1) if length % each == 0)


def _check(length: int) -> None:
    if length > _LONGEST_PRIME:
        raise TranslationError(
            f"A Fourier transform of length {length} is not supported, because its largest prime factor is too "
            f"large. Pad the signal to a length such as {1 << (length - 1).bit_length()} (n= or a power of two)."
        )


def _roots_when_run(rows: Dim, columns: Dim, length: Dim, sign: int, dtype: ir.DataType) -> tuple[Any, Any]:
    """The real and imaginary parts of `roots`, for sizes known when the model runs."""
    turns = op.Mod(op.Unsqueeze(positions(rows), [1]) * positions(columns), length.value)
    angle = op.Cast(turns, to=dtype) * const(sign * 2 * math.pi, dtype) / op.Cast(length.value, to=dtype)
    return op.Cos(angle), op.Sin(angle)


def _as_pairs(real: Any, imaginary: Any) -> Any:
    return op.Concat(op.Unsqueeze(real, [-1]), op.Unsqueeze(imaginary, [-1]), axis=-1)
