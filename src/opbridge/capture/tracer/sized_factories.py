"""Tensors of a symbolic size whose functions take plain numbers: linspace, windows, frequencies, indices of triangles,
sparse tensors.

Each gives None where it is called with plain numbers, or with settings other than a dtype and a device: torch's own
function is called then.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from opbridge.capture.tracer.tensors_as_numbers import number

__all__ = ["FACTORIES"]


def _size(value: Any) -> torch.SymInt | None:
    """A symbolic number, which a tensor without dimensions may hold; None for any other."""
    found = number(value)
    return found if isinstance(found, torch.SymInt) else None


def _of_floats(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a size, and of the dtype and device of floats; `None` where it is not called so."""

    @functools.wraps(function)
    def called(size: Any, *args: Any, dtype: torch.dtype | None = None, **settings: Any) -> Any:
        count, dtype = _size(size), dtype or torch.get_default_dtype()
        if count is None or not dtype.is_floating_point or settings.keys() & _OTHERS:
            return None
        torch._check(count >= 0)
        return function(count, *args, dtype=dtype, **{"device": None, **settings})

    return called


_OTHERS = frozenset({"out", "layout", "pin_memory", "requires_grad"})


def _linspace(start: Any, end: Any, steps: Any, **settings: Any) -> Any:
    """`torch.linspace`."""
    size, dtype = _size(steps), settings.get("dtype") or torch.get_default_dtype()
    if size is None or dtype.is_complex or not settings.keys() <= {"dtype", "device"}:
        return None
    torch._check(size >= 0)
    last = size - 1
    step = (end - start) / torch.sym_max(last, 1)
    # From both ends, and integers by way of float64, as torch does it.
    computed = dtype if dtype.is_floating_point else torch.float64
    places = torch.arange(size, dtype=computed, device=settings.get("device"))
    half = torch.sym_max(size // 2, 1)
    return torch.where(places < half, start + step * places, end - step * (last - places)).to(dtype)


def _logspace(start: Any, end: Any, steps: Any, base: float = 10.0, **settings: Any) -> Any:
    """`torch.logspace`, of floats."""
    dtype = settings.get("dtype") or torch.get_default_dtype()
    exponents = _linspace(start, end, steps, **settings) if dtype.is_floating_point else None
    return None if exponents is None else torch.pow(base, exponents)


def _cosines(
    size: torch.SymInt, periodic: bool, coefficients: tuple[float, ...], dtype: torch.dtype, device: Any
) -> torch.Tensor:
    """A sum of cosines over a period: a window. One of a single element is 1, as torch has it."""
    places = torch.arange(size, dtype=dtype, device=device)
    period = size if periodic else torch.sym_max(size - 1, 1)
    angles = places * (2 * math.pi / torch.sym_max(period, 1))
    window = sum(factor * (angles * times).cos() for times, factor in enumerate(coefficients) if times)
    return torch.where(places + (size - 1) == 0, 1.0, window + coefficients[0]).to(dtype)


@_of_floats
def _hann(size: torch.SymInt, periodic: bool = True, *, dtype: torch.dtype, device: Any) -> torch.Tensor:
    """`torch.hann_window`."""
    return _cosines(size, periodic, (0.5, -0.5), dtype, device)


@_of_floats
def _hamming(
    size: torch.SymInt,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: torch.dtype,
    device: Any,
) -> torch.Tensor:
    """`torch.hamming_window`."""
    return _cosines(size, periodic, (alpha, -beta), dtype, device)


@_of_floats
def _blackman(size: torch.SymInt, periodic: bool = True, *, dtype: torch.dtype, device: Any) -> torch.Tensor:
    """`torch.blackman_window`."""
    return _cosines(size, periodic, (0.42, -0.5, 0.08), dtype, device)


@_of_floats
def _fftfreq(size: torch.SymInt, d: float = 1.0, *, dtype: torch.dtype, device: Any) -> torch.Tensor:
    """`torch.fft.fftfreq`."""
    places = torch.arange(size, dtype=dtype, device=device)
    signed = torch.where(places < (size + 1) // 2, places, places - size)
    return signed * (1.0 / (torch.sym_max(size, 1) * d))


@_of_floats
def _rfftfreq(size: torch.SymInt, d: float = 1.0, *, dtype: torch.dtype, device: Any) -> torch.Tensor:
    """`torch.fft.rfftfreq`."""
    places = torch.arange(size // 2 + 1, dtype=dtype, device=device)
    return places * (1.0 / (torch.sym_max(size, 1) * d))


def _of_triangle(cut: Callable[..., torch.Tensor], row: Any, col: Any, offset: Any = 0, **settings: Any) -> Any:
    """`torch.tril_indices` and `torch.triu_indices`."""
    rows, columns = map(number, (row, col))
    if all(type(each) is int for each in (rows, columns)) or not settings.keys() <= {"dtype", "device"}:
        return None
    inside = cut(torch.ones((rows, columns), dtype=torch.bool, device=settings.get("device")), offset)
    return inside.nonzero().T.to(settings.get("dtype") or torch.int64)


def _of_coordinates(indices: Any, values: Any, size: Any = None, *, dtype: Any = None, **settings: Any) -> Any:
    """`torch.sparse_coo_tensor`, which is dense in the graph."""
    sizes = tuple(map(number, size)) if isinstance(size, (tuple, list)) else ()
    is_of_tensors = isinstance(indices, torch.Tensor) and isinstance(values, torch.Tensor)
    if not is_of_tensors or not any(isinstance(each, torch.SymInt) for each in sizes):
        return None
    if not settings.keys() <= {"device", "is_coalesced", "check_invariants"}:
        return None
    made = torch.zeros(sizes, dtype=dtype or values.dtype, device=values.device)
    return made.index_put(tuple(indices.unbind(0)), values.to(made.dtype), accumulate=True)


FACTORIES: dict[Any, Callable[..., Any]] = {
    torch.linspace: _linspace,
    torch.logspace: _logspace,
    torch.hann_window: _hann,
    torch.hamming_window: _hamming,
    torch.blackman_window: _blackman,
    torch.fft.fftfreq: _fftfreq,
    torch.fft.rfftfreq: _rfftfreq,
    torch.sparse_coo_tensor: _of_coordinates,
    torch.tril_indices: functools.partial(_of_triangle, torch.tril),
    torch.triu_indices: functools.partial(_of_triangle, torch.triu),
}
"""What is called in the place of torch's functions."""
