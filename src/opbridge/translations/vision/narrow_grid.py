"""The points of a grid in float16 or bfloat16, where torch finds them: it rounds every step to the narrow type.

In bfloat16 a place has eight binary digits, so that points of a wide image fall on other pixels than in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.dims import all_known, dims_of
from opbridge.translations.lib.dtypes import cast, const

__all__ = ["mirrored", "sampled_narrow"]

_ZEROS, _BORDER, _REFLECTION = range(3)
_LINEAR, _NEAREST, _CUBIC = range(3)


def sampled_narrow(sample: Callable[..., Any], input: Any, grid: Any, mode: int, padding: int, corners: bool) -> Any:
    """What a translation for float32 gives at the places that torch rounds to.

    Args:
        sample: The translation, which takes the same arguments as this.
        input: (N, C, ..., H, W), of a narrow type.
        grid: (N, ..., rank), of the same type.
        mode: 0 for linear, 1 for nearest, 2 for cubic.
        padding: 0 for zeros, 1 for the border, 2 for its reflection.
        corners: Whether -1 and 1 are the middles of the outermost pixels.
    """
    rank = len(input.shape) - 2
    lengths = _lengths(input, rank)
    count, top = op.Cast(lengths, to=grid.dtype), op.Cast(lengths - 1, to=grid.dtype)
    find = _place_in_image if rank == 2 else _place_in_volume
    # Cubic interpolation pads its pixels, not the place between them.
    place = find(grid, count, top, padding == _REFLECTION and mode != _CUBIC, corners)
    if mode != _CUBIC and padding != _ZEROS:
        inside = op.Max(op.Min(place, top), const(0, grid.dtype))
        place = op.Where(op.IsNaN(place), const(0, grid.dtype) if rank == 2 else top, inside)
        padding = _BORDER
    if mode == _NEAREST:
        place = op.Round(place)
    place, size = op.Cast(place, to=ir.DataType.FLOAT), op.Cast(lengths, to=ir.DataType.FLOAT)
    _, _, one, two = _numbers(ir.DataType.FLOAT)
    wide = place * two / op.Max(size - one, one) - one if corners else (place * two + one) / size - one
    wide.shape, wide.dtype = grid.shape, ir.DataType.FLOAT
    return op.Cast(sample(cast(input, ir.DataType.FLOAT), wide, mode, padding, corners), to=input.dtype)


def _lengths(input: Any, rank: int) -> Any:
    """The image's sizes in the order of a grid's coordinates, which is x, y, z: int64."""
    sizes = dims_of(input)[:1:-1]
    if all_known(*sizes):
        return const([int(size) for size in sizes], np.int64)
    return op.Gather(op.Shape(input), const(range(rank + 1, 1, -1), np.int64))


def _place_in_image(grid: Any, count: Any, top: Any, is_reflected: bool, corners: bool) -> Any:
    """As torch's vectorised kernel for two dimensions finds it."""
    zero, half, one, two = _numbers(grid.dtype)
    length, low = (top, zero) if corners else (count, half)
    place = (grid + one) * (length / two) - low
    if not is_reflected:
        return place
    around, distance = op.Max(length, one) * two, op.Abs(place + low)
    extra = distance - op.Floor(distance / around) * around
    return op.Min(extra, around - extra) - low


def _place_in_volume(grid: Any, count: Any, top: Any, is_reflected: bool, corners: bool) -> Any:
    """As torch's kernel for three dimensions finds it."""
    zero, half, one, two = _numbers(grid.dtype)
    length, low = (top, zero) if corners else (count, half)
    place = (grid + one) / two * length if corners else ((grid + one) * length - one) / two
    place.dtype = grid.dtype
    return mirrored(place, op.Neg(low), length) if is_reflected else place


def mirrored(place: Any, low: Any, length: Any) -> Any:
    """Places mirrored at `low` and `low + length` as often as it takes; a single pixel mirrors all onto itself.

    One that is infinite becomes nan.
    """
    zero, _, one, two = _numbers(place.dtype)
    length = op.Max(length, one)
    distance = op.Abs(place - low)
    extra = op.Mod(distance, length, fmod=1)
    is_even = op.Equal(op.Mod(op.Floor(distance / length), two, fmod=1), zero)
    return op.Where(is_even, extra, length - extra) + low


def _numbers(dtype: ir.DataType) -> tuple[Any, ...]:
    """0, 1/2, 1 and 2 of a type: torch.onnx does not tell the types of new values, which numbers would take on."""
    return tuple(const(number, dtype) for number in (0.0, 0.5, 1.0, 2.0))
