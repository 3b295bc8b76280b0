"""`interpolate` by factors that only a run tells, by operators that take such numbers.

torch's own operators take a factor as a plain number, and compute two things from it: the size of the result, and the
place in the input that each element of the result is taken from. The place is computed from the factor as it was
given, and not from the sizes, which rounding sets apart. Both are computed here as torch's kernels do it, in the same
order and precision: the size in float64, places in float32 unless the image is float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

__all__ = ["interpolated"]

_SYMBOLIC = (torch.SymInt, torch.SymFloat)
_RANKS = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3, "lanczos": 2}


def interpolated(
    image: torch.Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> torch.Tensor | None:
    """What `torch.nn.functional.interpolate` gives; None where its factors are plain numbers, or torch refuses it."""
    rank = image.dim() - 2
    factors = list(scale_factor) if isinstance(scale_factor, (list, tuple)) else [scale_factor] * rank
    if size is not None or not any(isinstance(each, _SYMBOLIC) for each in factors) or len(factors) != rank:
        return None
    if not 1 <= rank <= 3 or (mode in _RANKS and (rank != _RANKS[mode] or not image.dtype.is_floating_point)):
        return None
    factors = [torch.sym_float(each) if isinstance(each, _SYMBOLIC) else float(each) for each in factors]
    sizes = [torch.sym_int(length * factor) for length, factor in zip(image.shape[2:], factors, strict=True)]
    if mode != "area":
        for each in sizes:
            torch._check(each > 0, lambda: "interpolate: the sizes of the result should be greater than 0")
    if recompute_scale_factor or align_corners or mode == "area":  # where the factors say nothing but the sizes
        settings = {"mode": mode, "align_corners": align_corners, "antialias": antialias}
        return torch.nn.functional.interpolate(image, sizes, **settings)
    taken = _TAKING.get((mode, bool(antialias)))
    if taken is None:
        return None
    computed = torch.float64 if image.dtype == torch.float64 else torch.float32
    result = image.to(computed) if mode in _RANKS else image
    # The last dimension first, as torch's kernels do it.
    for axis, (length, count, factor) in reversed(
        list(enumerate(zip(image.shape[2:], sizes, factors, strict=True), start=2))
    ):
        step = torch.full((), 1.0 / factor, dtype=computed, device=image.device)
        places = torch.arange(count, dtype=computed, device=image.device)
        result = taken(result, axis, places, step, length)
    return result.to(image.dtype)


# Nearest neighbours


def _nearest(image: torch.Tensor, axis: int, places: torch.Tensor, step: torch.Tensor, length: Any) -> torch.Tensor:
    if image.dim() == 4:  # in images, and there alone, torch overlooks the factor where a size stays or doubles
        step = torch.where(_is_size(places, length), 1.0, step)
        step = torch.where(_is_size(places, 2 * length), 0.5, step)
    return _taken(image, axis, (places * step).floor(), length)


def _is_size(places: torch.Tensor, size: Any) -> torch.Tensor:
    """Whether there are as many places, as a tensor: that is no question to the capture."""
    return torch.full((), places.shape[0], dtype=torch.int64, device=places.device) == size


def _nearest_exact(
    image: torch.Tensor, axis: int, places: torch.Tensor, step: torch.Tensor, length: Any
) -> torch.Tensor:
    found = ((places.double() + 0.5) * step.double()).to(places.dtype)
    return _taken(image, axis, found.floor(), length)


def _taken(image: torch.Tensor, axis: int, places: torch.Tensor, length: Any) -> torch.Tensor:
    """The elements at some places of an axis; at those beyond its ends, the first and the last one."""
    return image.index_select(axis, places.to(torch.int64).clamp(min=0).clamp(max=length - 1))


# Linear, cubic


def _linear(image: torch.Tensor, axis: int, places: torch.Tensor, step: torch.Tensor, length: Any) -> torch.Tensor:
    same = _is_size(places, length)  # then torch copies, whatever the factor is
    place = torch.where(same, places, ((places + 0.5) * step - 0.5).clamp(min=0))
    low = place.floor()
    high = torch.where(same, low, low + 1)
    part = _along(place - low, axis, image)
    return _taken(image, axis, low, length) * (1 - part) + _taken(image, axis, high, length) * part


def _cubic(image: torch.Tensor, axis: int, places: torch.Tensor, step: torch.Tensor, length: Any) -> torch.Tensor:
    place = (places + 0.5) * step - 0.5
    low = place.floor()
    part = place - low
    weights = [_outer(part + 1, -0.75), _inner(part, -0.75), _inner(1 - part, -0.75), _outer(2 - part, -0.75)]
    found = [
        _taken(image, axis, low + float(tap), length) * _along(weight, axis, image)
        for tap, weight in enumerate(weights, start=-1)
    ]
    return found[0] + found[1] + found[2] + found[3]


def _along(weights: torch.Tensor, axis: int, image: torch.Tensor) -> torch.Tensor:
    """Weights that are multiplied along an axis."""
    return weights.reshape([-1] + [1] * (image.dim() - axis - 1))


def _inner(distance: torch.Tensor, a: float) -> torch.Tensor:
    """Keys' filter with the parameter a, up to a distance of 1."""
    return ((a + 2) * distance - (a + 3)) * distance * distance + 1


def _outer(distance: torch.Tensor, a: float) -> torch.Tensor:
    """The same, from 1 to 2."""
    return ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a


# Averages over all of the input


def _averaging(reach: float, filtered: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Interpolation by a filter, stretched over as many elements as one of the result stands for."""

    def averaged(image: torch.Tensor, axis: int, places: torch.Tensor, step: torch.Tensor, length: Any) -> torch.Tensor:
        step = torch.where(_is_size(places, length), 1.0, step)  # torch copies then, whatever the factor is
        stretch = step.clamp(min=1)
        centre = ((places + 0.5) * step).unsqueeze(1)
        first = (centre - stretch * reach + 0.5).floor()
        behind = (centre + stretch * reach + 0.5).floor()
        at = torch.arange(length, dtype=places.dtype, device=places.device)
        weights = filtered(((at - centre + 0.5) / stretch).abs())
        weights = torch.where((at >= first) & (at < behind), weights, 0.0)
        weights = weights / weights.sum(1, keepdim=True)
        return image @ weights.T if axis == image.dim() - 1 else weights @ image

    return averaged


def _triangle(distance: torch.Tensor) -> torch.Tensor:
    return (1 - distance).clamp(min=0)


def _keys(distance: torch.Tensor) -> torch.Tensor:
    beyond = torch.where(distance < 2, _outer(distance, -0.5), 0.0)
    return torch.where(distance < 1, _inner(distance, -0.5), beyond)


def _lanczos(distance: torch.Tensor) -> torch.Tensor:
    angle = torch.where(distance == 0, 1.0, distance * math.pi)
    wave = torch.where(distance == 0, 1.0, angle.sin() * (angle / 3).sin() * 3 / (angle * angle))
    return torch.where(distance < 3, wave, 0.0)


_TAKING: dict[tuple[str, bool], Callable[..., torch.Tensor]] = {
    ("nearest", False): _nearest,
    ("nearest-exact", False): _nearest_exact,
    ("linear", False): _linear,
    ("bilinear", False): _linear,
    ("trilinear", False): _linear,
    ("bicubic", False): _cubic,
    ("bilinear", True): _averaging(1.0, _triangle),
    ("bicubic", True): _averaging(2.0, _keys),
    ("lanczos", True): _averaging(3.0, _lanczos),
}
