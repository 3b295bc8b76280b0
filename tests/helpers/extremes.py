"""Numbers at the ends of a dtype, and beside them."""

from __future__ import annotations

import math

import torch

FLOAT8 = tuple(
    getattr(torch, name)
    for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
    if hasattr(torch, name)
)


def extremes(dtype: torch.dtype, of: torch.dtype) -> torch.Tensor:
    """The ends of a dtype, what is rounded to them and beyond them, subnormals, infinities and NaN, as another dtype.

    Args:
        dtype: The dtype whose ends are meant.
        of: The dtype of the result; numbers that it does not hold are rounded to it.
    """
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        return torch.tensor([info.min, info.min + 1, -1 if info.min < 0 else 0, 0, 1, info.max - 1, info.max]).to(of)
    info = torch.finfo(dtype)
    least = float(info.smallest_normal) * float(info.eps)
    beyond = [1 + info.eps * share for share in (0, 0.2, 0.25, 0.3, 0.5, 0.6, 1, 2)]
    sizes = [info.max * each for each in beyond] + [info.max * 0.99, info.max * 1e6, math.inf, math.nan]
    sizes += [least * each for each in (0.3, 0.5, 0.6, 1, 1.5, 3)] + [info.smallest_normal, 0.0, 1.0, 1 + info.eps / 2]
    # Numbers that a float16 holds exactly just below, at and above the points where float8 types round up.
    sizes += [248.0, 247.9, 464.0, 464.5, 61440.0, 61400.0, 65504.0]
    return torch.tensor([sign * each for each in sizes for sign in (1, -1)], dtype=torch.float64).to(of)
