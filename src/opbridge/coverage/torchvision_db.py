"""Samples of torchvision's operators."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from opbridge.coverage.entries import Entry, Sample
from opbridge.errors import UsageError

__all__ = ["entries"]


def entries() -> list[Entry]:
    """nms, roi_align, ps_roi_align, roi_pool, ps_roi_pool and deform_conv2d.

    Raises:
        UsageError: torchvision is not installed, or does not load beside this torch.
    """
    try:
        ops = importlib.import_module("torchvision.ops")
        importlib.import_module("torchvision.extension")
    except Exception as error:  # a build for another torch fails in many ways
        raise UsageError(f"torchvision cannot be imported ({error}). Install the one for this torch.") from error
    made: list[tuple[str, Callable[[torch.dtype], Iterable[Sample]], tuple[torch.dtype, ...]]] = [
        ("nms", _nms, (torch.float32, torch.float64)),
        ("roi_align", _roi_align, (torch.float32, torch.float64)),
        ("ps_roi_align", _ps_roi_align, (torch.float32, torch.float64)),
        ("roi_pool", _roi_pool, (torch.float32, torch.float64)),
        ("ps_roi_pool", _ps_roi_pool, (torch.float32, torch.float64)),
        ("deform_conv2d", _deform_conv2d, (torch.float32, torch.float64)),
    ]
    return [Entry(f"torchvision::{name}", getattr(ops, name), samples, dtypes) for name, samples, dtypes in made]


def _boxes(count: int, dtype: torch.dtype, size: float = 32.0) -> torch.Tensor:
    """Boxes [count, 4] of corners within a square of this size."""
    corner = torch.rand(count, 2, dtype=dtype) * size * 0.6
    return torch.cat([corner, corner + 1 + torch.rand(count, 2, dtype=dtype) * size * 0.35], 1)


def _regions(count: int, images: int, dtype: torch.dtype) -> torch.Tensor:
    """Boxes [count, 5] with the number of their image first."""
    return torch.cat([torch.randint(images, (count, 1)).to(dtype), _boxes(count, dtype)], 1)


def _nms(dtype: torch.dtype) -> Iterator[Sample]:
    yield Sample((_boxes(20, dtype), torch.rand(20, dtype=dtype), 0.5))
    yield Sample((_boxes(64, dtype, 8.0), torch.rand(64, dtype=dtype), 0.2))
    yield Sample((_boxes(0, dtype), torch.rand(0, dtype=dtype), 0.5))
    yield Sample((_boxes(7, dtype), torch.rand(7, dtype=dtype), 0.0))


def _pooled(channels: int, dtype: torch.dtype, regions: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(2, channels, 16, 16, dtype=dtype), _regions(regions, 2, dtype)


def _roi_align(dtype: torch.dtype) -> Iterator[Sample]:
    yield Sample(_pooled(4, dtype), {"output_size": (5, 3), "spatial_scale": 0.5, "sampling_ratio": 2})
    yield Sample(_pooled(3, dtype), {"output_size": 4, "spatial_scale": 0.5, "sampling_ratio": 2, "aligned": True})
    yield Sample(_pooled(3, dtype), {"output_size": (2, 2), "spatial_scale": 0.25})
    images = torch.randn(2, 3, 16, 16, dtype=dtype)
    yield Sample((images, [_boxes(3, dtype), _boxes(2, dtype)]), {"output_size": 3, "spatial_scale": 0.5})
    yield Sample(_pooled(3, dtype, 0), {"output_size": 3})


def _ps_roi_align(dtype: torch.dtype) -> Iterator[Sample]:
    yield Sample(_pooled(3 * 9, dtype), {"output_size": 3, "spatial_scale": 0.5, "sampling_ratio": 2})
    yield Sample(_pooled(2 * 6, dtype), {"output_size": (3, 2), "spatial_scale": 0.5})
    yield Sample(_pooled(4, dtype, 0), {"output_size": 2})


def _roi_pool(dtype: torch.dtype) -> Iterator[Sample]:
    yield Sample(_pooled(4, dtype), {"output_size": (5, 3), "spatial_scale": 0.5})
    yield Sample(_pooled(3, dtype), {"output_size": 2, "spatial_scale": 0.25})
    yield Sample(_pooled(3, dtype, 0), {"output_size": 2})


def _ps_roi_pool(dtype: torch.dtype) -> Iterator[Sample]:
    yield Sample(_pooled(3 * 9, dtype), {"output_size": 3, "spatial_scale": 0.5})
    yield Sample(_pooled(2 * 4, dtype), {"output_size": 2, "spatial_scale": 0.25})
    yield Sample(_pooled(4, dtype, 0), {"output_size": 2})


def _deform_conv2d(dtype: torch.dtype) -> Iterator[Sample]:
    def sample(groups: int, offset_groups: int, masked: bool, biased: bool, **options: Any) -> Sample:
        weight = torch.randn(6, 4 // groups, 3, 3, dtype=dtype)
        stride, padding, dilation = (options.get(name, 1) for name in ("stride", "padding", "dilation"))
        side = (10 + 2 * padding - 2 * dilation - 1) // stride + 1
        offset = torch.randn(2, 2 * offset_groups * 9, side, side, dtype=dtype) * 2
        mask = torch.rand(2, offset_groups * 9, side, side, dtype=dtype) if masked else None
        bias = torch.randn(6, dtype=dtype) if biased else None
        return Sample((torch.randn(2, 4, 10, 10, dtype=dtype), offset, weight, bias), {**options, "mask": mask})

    yield sample(1, 1, False, False, padding=1)
    yield sample(1, 2, True, True, padding=1)
    yield sample(2, 1, True, False, stride=2, padding=1)
    yield sample(2, 2, False, True, stride=1, padding=2, dilation=2)
