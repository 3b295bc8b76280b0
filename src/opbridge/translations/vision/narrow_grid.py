"""The points of a grid in float16 or bfloat16, where torch finds them: it rounds every step to the narrow type.

That is done in float32, with the result of each step rounded: a runtime may compute several steps of a narrow type in a
wider one. In bfloat16 a place has eight binary digits, so that points of a wide image fall on other pixels than in
float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.translations.lib.dims import all_known, dims_of
from opbridge.translations.lib.dtypes import cast, const, rounded

__all__ = ["mirrored", "sampled_narrow"]

Rounding: TypeAlias = Callable[[Any], Any]

_FLOAT = ir.DataType.FLOAT
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
    rank, dtype = len(input.shape) - 2, grid.dtype
    lengths = _lengths(input, rank)

    def r(value: Any) -> Any:
        return rounded(value, dtype)

    count, top = (r(op.Cast(each, to=_FLOAT)) for each in (lengths, lengths - 1))
    find = _place_in_image if rank == 2 else _place_in_volume
    zero, _, one, two = _numbers()
    # Cubic interpolation pads its pixels, not the place between them.
    place = find(cast(grid, _FLOAT), count, top, padding == _REFLECTION and mode != _CUBIC, corners, r)
    if mode != _CUBIC and padding != _ZEROS:
        inside = op.Max(op.Min(place, top), zero)
        place = op.Where(op.IsNaN(place), zero if rank == 2 else top, inside)
        padding = _BORDER
    if mode == _NEAREST:
        place = op.Round(place)
    size = op.Cast(lengths, to=_FLOAT)
    wide = place * two / op.Max(size - one, one) - one if corners else (place * two + one) / size - one
    wide.shape, wide.dtype = grid.shape, _FLOAT
    return op.Cast(sample(cast(input, _FLOAT), wide, mode, padding, corners), to=input.dtype)


def _lengths(input: Any, rank: int) -> Any:
    """The image's sizes in the order of a grid's coordinates, which is x, y, z: int64."""
    sizes = dims_of(input)[:1:-1]
    if all_known(*sizes):
        return const([int(size) for size in sizes], np.int64)
    return op.Gather(op.Shape(input), const(range(rank + 1, 1, -1), np.int64))


def _place_in_image(grid: Any, count: Any, top: Any, is_reflected: bool, corners: bool, r: Rounding) -> Any:
    """As torch's vectorised kernel for two dimensions finds it."""
    zero, half, one, two = _numbers()
    length, low = (top, zero) if corners else (count, half)
    place = r(r(r(grid + one) * r(length / two)) - low)
    if not is_reflected:
        return place
    around, distance = r(op.Max(length, one) * two), op.Abs(r(place + low))
    extra = r(distance - r(op.Floor(r(distance / around)) * around))
    return r(op.Min(extra, r(around - extra)) - low)


def _place_in_volume(grid: Any, count: Any, top: Any, is_reflected: bool, corners: bool, r: Rounding) -> Any:
    """As torch's kernel for three dimensions finds it."""
    zero, half, one, two = _numbers()
    length, low = (top, zero) if corners else (count, half)
    moved = r(grid + one)
    place = r(r(moved / two) * length) if corners else r(r(r(moved * length) - one) / two)
    place.dtype = _FLOAT
    return mirrored(place, op.Neg(low), length, r) if is_reflected else place


def mirrored(place: Any, low: Any, length: Any, r: Rounding = lambda value: value) -> Any:
    """Places mirrored at `low` and `low + length` as often as it takes; a single pixel mirrors all onto itself.

    One that is infinite becomes nan.

    Args:
        place: The places.
        low: The lower end.
        length: From there to the upper end.
        r: Rounds the result of each step.
    """
    zero, _, one, two = _numbers(place.dtype)
    length = op.Max(length, one)
    distance = op.Abs(r(place - low))
    extra = op.Mod(distance, length, fmod=1)
    is_even = op.Equal(op.Mod(op.Floor(r(distance / length)), two, fmod=1), zero)
    return r(op.Where(is_even, extra, r(length - extra)) + low)


def _numbers(dtype: ir.DataType = _FLOAT) -> tuple[Any, ...]:
    """0, 1/2, 1 and 2 of a type: torch.onnx does not tell the types of new values, which numbers would take on."""
    return tuple(const(number, dtype) for number in (0.0, 0.5, 1.0, 2.0))
