"""Interpolation along one dimension as a matrix, and nearest neighbours as indices, exactly as torch computes them.

Sizes that are known give constants, computed with numpy; others give the same arithmetic as nodes of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.dims import Dim, all_known, positions
from opbridge.translations.lib.dtypes import const

__all__ = ["matrix", "nearest", "resize_finds", "scaled_size"]

_INT64 = ir.DataType.INT64


def scaled_size(length: Dim, scale: float) -> Dim:
    """A dimension's size after scaling, as torch rounds it."""
    if length.is_known:
        return Dim(int(int(length) * scale))
    return Dim(op.Cast(op.Mul(op.Cast(length.value, to=ir.DataType.DOUBLE), scale), to=_INT64))


# Nearest neighbours


def nearest(length: Dim, out: Dim, scale: float | None, exact: bool, rank: int) -> Any:
    """The index that each output element is taken from: an array where both sizes are known, else a value."""
    # In images, and there alone, torch overlooks the factor where one size is the other or its double.
    shortcut = rank == 2 and not exact
    if all_known(length, out):
        return _nearest_of_sizes(int(length), int(out), scale, exact, shortcut)
    step = op.Div(*(op.Cast(size.value, to=ir.DataType.FLOAT) for size in (length, out)))
    if scale:
        given = const(np.float32(1 / scale), np.float32)
        plain = op.Or(op.Equal(out.value, length.value), op.Equal(out.value, (length * 2).value)) if shortcut else None
        step = op.Where(plain, step, given) if shortcut else given
    places = positions(out)
    if exact:
        place = op.Mul(op.Cast(places, to=ir.DataType.DOUBLE) + 0.5, op.Cast(step, to=ir.DataType.DOUBLE))
        place = op.Cast(place, to=ir.DataType.FLOAT)
    else:
        place = op.Mul(op.Cast(places, to=ir.DataType.FLOAT), step)
    return op.Min(op.Cast(op.Floor(place), to=_INT64), (length - 1).value)


def _nearest_of_sizes(length: int, out: int, scale: float | None, exact: bool, shortcut: bool) -> np.ndarray:
    """The same for sizes that are known at export."""
    if shortcut and out in (length, 2 * length):
        return np.arange(out) * length // out
    step = np.float32(1 / scale) if scale else np.float32(length) / np.float32(out)
    place = (np.arange(out) + 0.5) * np.float64(step) if exact else np.arange(out, dtype=np.float32) * step
    return np.minimum(np.floor(place.astype(np.float32)).astype(np.int64), length - 1)


def resize_finds(index: Any, length: Dim, out: Dim) -> bool:
    """Whether ONNX's Resize, from size to size, takes the same elements: it divides where torch multiplies."""
    if not isinstance(index, np.ndarray):
        return False
    size, count = int(length), int(out)
    place = np.arange(count, dtype=np.float32) / (np.float32(count) / np.float32(max(size, 1)))
    return bool(np.array_equal(np.minimum(np.floor(place), size - 1), index))


# Weights


def matrix(
    kind: str, length: Dim, out: Dim, scale: float | None, align_corners: bool, antialias: bool, dtype: ir.DataType
) -> Any:
    """The matrix of shape (out, length) that interpolates along a dimension.

    Args:
        kind: "linear", "cubic" or "lanczos".
        length: The dimension's size.
        out: Its size afterwards.
        scale: The factor that torch was given, None where it was given sizes alone.
        align_corners: Whether the first and last elements stay where they are.
        antialias: Whether a smaller output averages over all of the input.
        dtype: FLOAT or DOUBLE, which torch computes in.
    """
    # Where a size stays as it is, torch copies, whatever the factor is: 1.05 for a size of 7. Not so where it is cubic.
    copies = kind != "cubic" or antialias
    if all_known(length, out):
        real: Any = dtype.numpy().type
        i = np.arange(int(out), dtype=real)[:, None]
        j = np.arange(int(length), dtype=real)[None, :]
        last: Any = np.full((1, 1), int(length - 1), real)
        if align_corners:
            step: Any = last / real(int(out - 1)) if out > 1 else last * 0
        else:
            given = None if copies and length == out else scale
            step = np.full((1, 1), 1 / given if given else real(int(length)) / real(int(out)), real)
        weights = _weights(kind, i, j, last, step, align_corners, antialias)
        return const(weights, dtype)
    number, count = (op.Cast(op.Reshape(size.value, [1, 1]), to=dtype) for size in (length, out))
    i = op.Cast(op.Unsqueeze(positions(out), [1]), to=dtype)
    j = op.Cast(op.Unsqueeze(positions(length), [0]), to=dtype)
    last = op.Sub(number, 1.0)
    if align_corners:
        step = op.Where(op.Greater(count, 1.0), op.Div(last, op.Max(count - 1.0, op.CastLike(1.0, count))), last * 0.0)
    else:
        step = op.Div(number, count) if not scale else const([[1 / scale]], dtype)
        if scale and copies:
            step = op.Where(op.Equal(count, number), op.CastLike(1.0, step), step)
    return _weights(kind, i, j, last, step, align_corners, antialias)


def _weights(kind: str, i: Any, j: Any, last: Any, step: Any, align_corners: bool, antialias: bool) -> Any:
    if antialias:
        return _averaging(kind, i, j, last, step)
    place = i * step if align_corners else (i + 0.5) * step - 0.5
    if kind == "linear":
        place = _clip(place, place * 0.0, last)
        low = _floor(place)
        part = place - low
        return _weight_at(j, low, 1.0 - part) + _weight_at(j, _clip(low + 1.0, low, last), part)
    low = _floor(place)
    part = place - low
    total = None
    for tap in (-1, 0, 1, 2):
        distance = part - float(tap) if tap < 1 else float(tap) - part
        weight = _cubic_inner(distance, -0.75) if tap in (0, 1) else _cubic_outer(distance, -0.75)
        here = _weight_at(j, _clip(low + float(tap), last * 0.0, last), weight)
        total = here if total is None else total + here
    return total


def _averaging(kind: str, i: Any, j: Any, last: Any, step: Any) -> Any:
    """The filter, stretched over as many input elements as one output element stands for; its weights add up to 1."""
    reach = {"linear": 1.0, "cubic": 2.0, "lanczos": 3.0}[kind]
    stretch = _where(step > 1.0, step, step * 0.0 + 1.0)
    centre = (i + 0.5) * step
    first = _clip(_floor(centre - stretch * reach + 0.5), last * 0.0, last)
    behind = _floor(centre + stretch * reach + 0.5)
    place = _abs((j - centre + 0.5) / stretch)
    if kind == "linear":
        weight = _clip(1.0 - place, place * 0.0, place * 0.0 + 1.0)
    else:
        weight = _cubic(place, -0.5) if kind == "cubic" else _lanczos(place)
    weight = _where(_and(j >= first, j < behind), weight, weight * 0.0)
    return weight / _row_sums(weight)


def _cubic(distance: Any, a: float) -> Any:
    """Keys' filter with the parameter a, for distances >= 0."""
    beyond = _where(distance < 2.0, _cubic_outer(distance, a), distance * 0.0)
    return _where(distance < 1.0, _cubic_inner(distance, a), beyond)


def _cubic_inner(distance: Any, a: float) -> Any:
    return ((a + 2.0) * distance - (a + 3.0)) * distance * distance + 1.0


def _cubic_outer(distance: Any, a: float) -> Any:
    return ((a * distance - 5.0 * a) * distance + 8.0 * a) * distance - 4.0 * a


def _lanczos(distance: Any) -> Any:
    angle = distance * np.pi
    angle = _where(distance < 1e-20, distance * 0.0 + 1.0, angle)
    wave = _sin(angle) * _sin(angle / 3.0) * 3.0 / (angle * angle)
    wave = _where(distance < 1e-20, distance * 0.0 + 1.0, wave)
    return _where(distance < 3.0, wave, distance * 0.0)


def _weight_at(j: Any, place: Any, weight: Any) -> Any:
    """The weight in the column `place`, and zeros."""
    same = np.equal(j, place) if isinstance(j, np.ndarray) else op.Equal(j, place)
    return _where(same, weight, weight * 0.0)


# One arithmetic for arrays and values of the graph


def _for_array_or_value(numeric: Callable[..., Any], graph: Callable[..., Any]) -> Callable[..., Any]:
    def apply(*arguments: Any) -> Any:
        return (numeric if isinstance(arguments[0], np.ndarray) else graph)(*arguments)

    return apply


_floor = _for_array_or_value(np.floor, op.Floor)
_abs = _for_array_or_value(np.abs, op.Abs)
_sin = _for_array_or_value(np.sin, op.Sin)
_and = _for_array_or_value(np.logical_and, op.And)
_where = _for_array_or_value(np.where, op.Where)
_clip = _for_array_or_value(
    lambda x, low, high: np.minimum(np.maximum(x, low), high), lambda x, low, high: op.Min(op.Max(x, low), high)
)
_row_sums = _for_array_or_value(lambda x: x.sum(axis=1, keepdims=True), lambda x: op.ReduceSum(x, [1], keepdims=1))
