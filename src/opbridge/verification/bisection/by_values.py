"""Values of two sides that are the same in all that they hold, where neither names nor operators tell."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from opbridge.verification.bisection.files import FileSide
from opbridge.verification.compare import rms

__all__ = ["Print", "printed", "prints_of_file", "same_values"]

_SAMPLES = 64
_MOST_NEAR = 4096
_RELATIVE = 5e-4
"""What values may differ by, relative to the RMS of the tensor: what an operator in another form rounds otherwise."""


@dataclass(frozen=True)
class Print:
    """What is kept of a tensor.

    Attributes:
        dtype: Its dtype.
        shape: Its shape without dimensions of 1.
        size: The RMS of its numbers.
        samples: Some of its numbers.
    """

    dtype: torch.dtype
    shape: tuple[int, ...]
    size: float
    samples: torch.Tensor

    def is_like(self, other: Print) -> bool:
        """Whether two tensors may be the same one but for rounding."""
        close = (self.samples - other.samples).abs() <= _RELATIVE * max(self.size, other.size, 1e-30)
        same = (self.samples == other.samples) | (self.samples.isnan() & other.samples.isnan())
        return abs(self.size - other.size) <= _RELATIVE * max(self.size, other.size) and bool((close | same).all())

    def distance(self, other: Print) -> float:
        """How far two tensors are apart that are alike."""
        return float((self.samples - other.samples).abs().nan_to_num(nan=0.0, posinf=0.0).sum())


def printed(tensor: torch.Tensor) -> Print:
    """What is kept of a tensor."""
    tensor = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    flat = tensor.detach().reshape(-1)
    if flat.dtype in (torch.uint16, torch.uint32, torch.uint64):  # of which torch has few operators
        flat = flat.to(torch.int64)
    places = torch.linspace(0, max(0, flat.numel() - 1), min(_SAMPLES, flat.numel())).long()
    samples = flat[places].double()
    size = rms(tensor) if tensor.is_floating_point() else float(samples.abs().max()) if flat.numel() else 0.0
    return Print(tensor.dtype, tuple(each for each in tensor.shape if each != 1), size, samples)


def prints_of_file(
    side: FileSide, names: Sequence[str], sizes: Mapping[str, int], budget: int
) -> Iterator[tuple[str, Print]]:
    """What is kept of the values of a file, which are fetched in runs of bounded memory."""
    batch: list[str] = []
    total = 0
    for name in [*names, ""]:
        if batch and (not name or total + sizes[name] > budget):
            for each, tensor in side.fetch(batch).items():
                yield each, printed(tensor)
            batch, total = [], 0
        if name:
            batch.append(name)
            total += sizes[name]


def same_values(left: Iterable[tuple[str, Print]], right: Iterable[tuple[str, Print]]) -> dict[str, str]:
    """The values that are the same, by the names of the first side: of several the nearest, and of these the first."""
    by_kind: dict[tuple[torch.dtype, tuple[int, ...]], list[tuple[float, int, str, Print]]] = {}
    for number, (name, each) in enumerate(right):
        by_kind.setdefault((each.dtype, each.shape), []).append((each.size, number, name, each))
    for kind in by_kind.values():
        kind.sort(key=lambda its: its[:2])
    found: dict[str, str] = {}
    used: set[str] = set()
    for name, each in left:
        candidates = by_kind.get((each.dtype, each.shape), [])
        first = bisect.bisect_left(candidates, each.size * (1 - 2 * _RELATIVE), key=lambda its: its[0])
        last = bisect.bisect_right(candidates, each.size * (1 + 2 * _RELATIVE), key=lambda its: its[0])
        near = candidates[first : min(last, first + _MOST_NEAR)]
        alike = [(each.distance(its), number, other) for _, number, other, its in near if each.is_like(its)]
        free = [its for its in alike if its[2] not in used]
        if alike:
            found[name] = min(free or alike)[2]
            used.add(found[name])
    return found
