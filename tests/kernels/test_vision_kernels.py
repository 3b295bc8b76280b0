"""The built-in kernels for vision: sampling, interpolation, attention, rotated boxes, suppression, pooled regions."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest
import torch
from kernels.checking import DTYPES, Kernels, assert_clean
from torch.library import opcheck

FAMILIES = {
    "grid_sample": ("grid_sample",),
    "upsample_bicubic": ("upsample_bicubic",),
    "ms_deform_attn": ("ms_deform_attn",),
    "rotated_boxes": ("box_iou_rotated", "nms_rotated"),
    "nms_match": ("nms_match",),
    "roi_align": ("roi_align", "roi_align_rotated"),
}
OPS = torch.ops.opbridge_ops


@pytest.fixture(scope="module", autouse=True)
def kernels() -> Kernels:
    return Kernels(*(name for names in FAMILIES.values() for name in names))


def cases_of(family: str) -> ModuleType:
    return importlib.import_module(f"kernels.cases.{family}")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_equals_the_reference_in_onnxruntime(kernels: Kernels, family: str, dtype: str) -> None:
    for seed in range(30):
        kernels.check_in_onnxruntime(cases_of(family).random_cases(seed), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_equals_the_reference_in_torch(kernels: Kernels, family: str, dtype: str) -> None:
    for seed in range(30):
        kernels.check_in_torch(cases_of(family).random_cases(seed), dtype)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_does_not_fit_is_refused(kernels: Kernels, family: str) -> None:
    for refused in cases_of(family).REFUSED:
        kernels.check_refused(refused)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_sanitizers_are_silent(family: str) -> None:
    assert_clean(f"kernels.cases.{family}", FAMILIES[family], seeds=60)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("padding", range(3))
@pytest.mark.parametrize("dims", [2, 3])
def test_sampling_equals_pytorch_where_coordinates_are_no_numbers(dims: int, padding: int, dtype: torch.dtype) -> None:
    for channels in (1, 3, 20):
        x = torch.randn(1, channels, *[4] * dims, dtype=dtype)
        grid = torch.rand(1, *[5] * dims, dims, dtype=dtype) * 3 - 1.5
        for place, value in enumerate((torch.nan, torch.inf, -torch.inf)):
            grid.view(-1, dims)[place, place % dims] = value
        for mode, align in [(mode, align) for mode in range(3 if dims == 2 else 2) for align in (False, True)]:
            expected = torch.nn.functional.grid_sample(
                x,
                grid,
                ("bilinear", "nearest", "bicubic")[mode],
                ("zeros", "border", "reflection")[padding],
                align,
            )
            torch.testing.assert_close(OPS.grid_sample(x, grid, mode, padding, align), expected, equal_nan=True)


@pytest.mark.torchvision
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_pooling_equals_torchvision(dtype: torch.dtype) -> None:
    torchvision = pytest.importorskip("torchvision")
    torch.manual_seed(0)
    for ratio, aligned in [(0, False), (0, True), (2, False), (3, True)]:
        x, start = torch.randn(2, 21, 18, 30, dtype=dtype), torch.rand(40, 2, dtype=dtype) * 70 - 10
        rois = torch.cat([torch.randint(0, 2, (40, 1)), start, start + torch.rand(40, 2) * 60], dim=1).to(dtype)
        expected = torchvision.ops.roi_align(x, rois, (7, 5), 0.5, ratio, aligned)
        torch.testing.assert_close(OPS.roi_align(x, rois, 0.5, 7, 5, ratio, aligned), expected)


@pytest.mark.torchvision
@pytest.mark.parametrize("scale", [0.8, 0.3, 1 / 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_pooling_takes_as_many_samples_as_torchvision(dtype: torch.dtype, scale: float) -> None:
    """Where a bin is a whole number of pixels high, how the edges are rounded decides on the number of samples."""
    torchvision = pytest.importorskip("torchvision")
    x, rois = torch.randn(1, 2, 7, 8, dtype=dtype), torch.randint(0, 9, (2000, 5)).to(dtype)
    rois[:, 0] = 0
    expected = torchvision.ops.roi_align(x, rois, (3, 2), scale, 0, False)
    torch.testing.assert_close(OPS.roi_align(x, rois, scale, 3, 2, 0, False), expected)


def test_interpolation_equals_pytorch() -> None:
    x = torch.randn(2, 3, 11, 17)
    for scale in ([2.0, 3.0], [0.7, 1.3], [0.1, 5.7]):
        for align in (False, True):
            expected = torch.nn.functional.interpolate(x, scale_factor=scale, mode="bicubic", align_corners=align)
            actual = OPS.upsample_bicubic(x, torch.tensor(scale, dtype=torch.float64), align)
            torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


def test_pytorch_agrees_with_the_operators() -> None:
    x, boxes, scores = torch.randn(1, 3, 8, 8), torch.rand(6, 5) * 4, torch.rand(6)
    opcheck(OPS.grid_sample.default, (x, torch.rand(1, 4, 4, 2)))
    opcheck(OPS.box_iou_rotated.default, (boxes, boxes))
    opcheck(OPS.nms_rotated.default, (boxes, scores, None, 0.3))
    opcheck(OPS.nms_match.default, (boxes, 0.3))
    opcheck(OPS.roi_align.default, (x, torch.tensor([[0.0, 1, 1, 5, 5]]), 1.0, 2, 2))
    opcheck(OPS.roi_align_rotated.default, (x, torch.tensor([[0.0, 3, 3, 4, 4, 1]]), 1.0, 2, 2))
    opcheck(OPS.upsample_bicubic.default, (x, torch.tensor([2.0, 1.5])))
    shapes, starts = torch.tensor([[2, 2], [3, 1]]), torch.tensor([0, 4])
    value, locations, weights = torch.randn(1, 7, 2, 4), torch.rand(1, 5, 2, 2, 3, 2), torch.rand(1, 5, 2, 2, 3)
    opcheck(OPS.ms_deform_attn.default, (value, shapes, starts, locations, weights))
