"""The built-in kernels on a CUDA device: the cases of their tests, and their times beside PyTorch's; see gpu.py."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from opbridge.kernels.load import Operators

__all__ = ["backward_calls", "cases", "timed"]

TESTS = Path(__file__).parents[1] / "tests"
SEEDS = 12
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)

Case = tuple[str, torch.Tensor, torch.Tensor]
Timed = tuple[str, Callable[[], object], Callable[[], object] | None]


def cases(device: str = "cuda") -> Iterator[Case]:
    """The cases of the tests, in each element type: the references are NumPy in float64."""
    tests = types.ModuleType("kernels")  # the folder of tests, and not the script of that name beside this one
    tests.__path__ = [str(TESTS / "kernels")]
    sys.modules["kernels"] = tests
    for family in importlib.import_module("kernels.cases").FAMILIES:
        module = importlib.import_module(f"kernels.cases.{family}")
        for seed in range(SEEDS):
            for case in module.random_cases(seed):
                for dtype in DTYPES:
                    found = _called(case, dtype, device)
                    for each, expected in zip(found, case.expected, strict=True):
                        name = f"{case.operator} {case.attributes} {dtype}, seed {seed}"
                        yield name, each, torch.from_numpy(expected)


def _called(case: Any, dtype: torch.dtype, device: str) -> list[torch.Tensor]:
    tensors = [None if each is None else torch.from_numpy(each) for each in case.inputs]
    given = [
        None if each is None else each.to(device, dtype if each.is_floating_point() else each.dtype) for each in tensors
    ]
    found = getattr(torch.ops.opbridge_ops, case.operator)(*given, **case.attributes)
    return [found] if isinstance(found, torch.Tensor) else list(found)


class _Random:
    """Tensors of one generator, of a type and on a device."""

    def __init__(self, dtype: torch.dtype, device: str) -> None:
        self._generator = torch.Generator().manual_seed(0)
        self._like = {"dtype": dtype, "device": device}

    def normal(self, *sizes: int) -> torch.Tensor:
        return torch.randn(*sizes, generator=self._generator).to(**self._like)

    def uniform(self, *sizes: int, low: float = 0.0, high: float = 1.0) -> torch.Tensor:
        return (torch.rand(*sizes, generator=self._generator) * (high - low) + low).to(**self._like)


def timed(ops: Operators, device: str = "cuda") -> Iterator[Timed]:
    """Calls of the sizes that people have, beside PyTorch's or torchvision's own where there is one."""
    for dtype in (torch.float32, torch.float16):
        random, of = _Random(dtype, device), str(dtype).removeprefix("torch.")
        yield from _deformable(ops, random, of)
        yield from _sampling(ops, random, of)
        yield from _regions(ops, random, of)
    yield from _boxes(ops, _Random(torch.float32, device))


def _deformable(ops: Operators, random: _Random, of: str) -> Iterator[Timed]:
    from torchvision.ops import deform_conv2d

    for batch, channels, size in ((4, 64, 64), (4, 256, 32), (4, 128, 100)):
        x, weight = random.normal(batch, channels, size, size), random.normal(channels, channels, 3, 3)
        offset, mask = random.normal(batch, 18, size, size), random.uniform(batch, 9, size, size)
        bias = random.normal(channels)
        yield (
            f"deform_conv2d {batch}x{channels}x{size}x{size}, 3x3 with mask, {of}",
            lambda a=(x, weight, offset, mask, bias): ops.deform_conv2d(*a, [1, 1], [1, 1], [1, 1], 1, 1),
            lambda a=(x, offset, weight, bias), m=mask: deform_conv2d(*a, padding=1, mask=m),
        )
    batch, queries, heads, dim, points = 2, 5000, 8, 32, 4
    shapes = torch.tensor([[64, 64], [32, 32], [16, 16], [8, 8]])
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), shapes.prod(1).cumsum(0)[:-1]])
    value = random.normal(batch, int(shapes.prod(1).sum()), heads, dim)
    locations = random.uniform(batch, queries, heads, len(shapes), points, 2)
    weights = random.uniform(batch, queries, heads, len(shapes), points)
    composed = value, shapes.tolist(), locations, weights
    given = value, shapes.to(value.device), starts.to(value.device), locations, weights
    yield (
        f"ms_deform_attn {batch}x{queries}, {heads} heads of {dim}, 4 levels, {points} points, {of}",
        lambda a=given: ops.ms_deform_attn(*a),
        lambda a=composed: by_grid_sample(*a),
    )


def by_grid_sample(
    value: torch.Tensor, shapes: list[list[int]], locations: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """Multi-scale deformable attention in PyTorch's operators, as mmcv composes it."""
    batch, _, heads, dim = value.shape
    queries, points = locations.shape[1], locations.shape[4]
    grids = 2 * locations - 1
    sampled = []
    for level, each in enumerate(value.split([height * width for height, width in shapes], 1)):
        maps = each.flatten(2).transpose(1, 2).reshape(batch * heads, dim, *shapes[level])
        grid = grids[:, :, :, level].transpose(1, 2).flatten(0, 1)
        sampled.append(functional.grid_sample(maps, grid, align_corners=False))
    shares = weights.transpose(1, 2).reshape(batch * heads, 1, queries, len(shapes) * points)
    total = (torch.stack(sampled, -2).flatten(-2) * shares).sum(-1)
    return total.view(batch, heads * dim, queries).transpose(1, 2)


def _sampling(ops: Operators, random: _Random, of: str) -> Iterator[Timed]:
    modes = {"bilinear": 0, "bicubic": 2}
    image, grid = random.normal(8, 64, 128, 128), random.uniform(8, 128, 128, 2, low=-1)
    for mode, number in modes.items():
        yield (
            f"grid_sample 8x64x128x128, {mode}, {of}",
            lambda n=number, a=(image, grid): ops.grid_sample(*a, n, 0, False),
            lambda m=mode, a=(image, grid): functional.grid_sample(*a, mode=m, align_corners=False),
        )
    volume, points = random.normal(2, 32, 32, 32, 32), random.uniform(2, 32, 32, 32, 3, low=-1)
    yield (
        f"grid_sample 2x32x32x32x32, trilinear, {of}",
        lambda a=(volume, points): ops.grid_sample(*a, 0, 0, False),
        lambda a=(volume, points): functional.grid_sample(*a, align_corners=False),
    )
    small, scales = random.normal(8, 64, 64, 64), torch.tensor([2.0, 2.0])
    yield (
        f"upsample_bicubic 8x64x64x64 to 128x128, scales on the CPU, {of}",
        lambda a=(small, scales): ops.upsample_bicubic(*a),
        lambda a=small: functional.interpolate(a, scale_factor=(2.0, 2.0), mode="bicubic"),
    )


def _regions(ops: Operators, random: _Random, of: str) -> Iterator[Timed]:
    from torchvision.ops import roi_align

    features = random.normal(4, 256, 64, 64)
    corner, size = random.uniform(1000, 2, high=40), random.uniform(1000, 2, low=4, high=20)
    image = torch.arange(1000, device=features.device).remainder(4)[:, None].to(features.dtype)
    rois = torch.cat([image, corner, corner + size], 1)
    yield (
        f"roi_align, 1,000 regions of 4x256x64x64 to 7x7, {of}",
        lambda a=(features, rois): ops.roi_align(*a, 1.0, 7, 7),
        lambda a=(features, rois): roi_align(*a, 7),
    )
    turned = torch.cat([image, corner, size, random.uniform(1000, 1, high=3)], 1)
    yield (
        f"roi_align_rotated, the same, {of}",
        lambda a=(features, turned): ops.roi_align_rotated(*a, 1.0, 7, 7),
        None,
    )


def _boxes(ops: Operators, random: _Random) -> Iterator[Timed]:
    from torchvision.ops import nms

    corner, size, scores = (
        random.uniform(5000, 2, high=500),
        random.uniform(5000, 2, low=4, high=60),
        random.uniform(5000),
    )
    boxes = torch.cat([corner, corner + size], 1)
    dets = torch.cat([boxes, scores[:, None]], 1)
    rotated = torch.cat([corner, size, random.uniform(5000, 1, high=3)], 1)
    yield (
        "nms_match, 5,000 boxes, beside torchvision's nms",
        lambda: ops.nms_match(dets, 0.5),
        lambda: nms(boxes, scores, 0.5),
    )
    yield "nms_rotated, 5,000 boxes", lambda: ops.nms_rotated(rotated, scores, None, 0.5), None
    yield "box_iou_rotated, 5,000 by 1,000 boxes", lambda: ops.box_iou_rotated(rotated, rotated[:1000]), None


def backward_calls(ops: Operators, device: str = "cuda") -> Iterator[Timed]:
    """The gradients that are kernels, beside those of the compositions."""
    random = _Random(torch.float32, device)
    x, grad = random.normal(8, 512, 1024), random.normal(8, 512, 1024)
    dynamic, fixed = random.normal(8, 8, 15, 1024), random.normal(8, 15)
    for name, weight in (("dynamic_conv", dynamic), ("lightweight_conv", fixed)):
        backward = getattr(ops, f"{name}_backward")
        yield f"{name}'s gradients, 8x512x1024, 8 heads, 15 taps", lambda b=backward, w=weight: b(grad, x, w, 7), None
