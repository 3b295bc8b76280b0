"""The built-in kernels: what all of them have to do, and where one has to equal PyTorch or torchvision."""

from __future__ import annotations

import functools
import importlib
import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType

import numpy as np
import pytest
import torch
from device import needs_linux
from kernels.cases import Case, Refused
from kernels.checking import DTYPES, Kernels, assert_clean, read_beyond_inputs
from kernels.references import dynamic_conv as reference
from torch.library import opcheck

from opbridge.kernels import shipped


@dataclass(frozen=True)
class Family:
    """Kernels that share a file of cases.

    Attributes:
        kernels: Their names.
        seeds: How many sets of random cases are tried.
    """

    kernels: tuple[str, ...]
    seeds: int = 30


FAMILIES = {
    "deform_conv2d": Family(("deform_conv2d",), 40),
    "dynamic_conv": Family(("dynamic_conv", "lightweight_conv"), 25),
    "grid_sample": Family(("grid_sample",)),
    "upsample_bicubic": Family(("upsample_bicubic",)),
    "ms_deform_attn": Family(("ms_deform_attn",)),
    "rotated_boxes": Family(("box_iou_rotated", "nms_rotated")),
    "nms_match": Family(("nms_match",)),
    "roi_align": Family(("roi_align", "roi_align_rotated")),
}
OVER_TIME = FAMILIES["dynamic_conv"].kernels
OPS = torch.ops.opbridge_ops


@pytest.fixture(scope="module", autouse=True)
def kernels() -> Kernels:
    return Kernels()


def test_every_kernel_has_cases() -> None:
    assert {name for family in FAMILIES.values() for name in family.kernels} == {
        source.stem for source in shipped.sources("_builtin")
    }


def cases_of(family: str) -> ModuleType:
    return importlib.import_module(f"kernels.cases.{family}")


@functools.cache
def random_cases(family: str, seed: int) -> Sequence[Case]:
    """Calls with what a reference in NumPy gives, which takes longer than the kernels: once for all dtypes."""
    found: Sequence[Case] = cases_of(family).random_cases(seed)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_equals_the_reference_in_onnxruntime(kernels: Kernels, family: str, dtype: str) -> None:
    for seed in range(FAMILIES[family].seeds):
        kernels.check_in_onnxruntime(random_cases(family, seed), dtype)


@pytest.mark.parametrize("place", range(len(DTYPES)), ids=DTYPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_equals_the_reference_in_torch(kernels: Kernels, family: str, place: int) -> None:
    """Each seed in one dtype: the function that PyTorch calls is the one that ONNX Runtime calls in all of them."""
    for seed in range(place, FAMILIES[family].seeds, len(DTYPES)):
        kernels.check_in_torch(random_cases(family, seed), DTYPES[place])


@pytest.mark.parametrize(
    "refused",
    [refused for family in FAMILIES for refused in cases_of(family).REFUSED],
    ids=lambda refused: refused.words,
)
def test_what_does_not_fit_is_refused(kernels: Kernels, refused: Refused) -> None:
    kernels.check_refused(refused)


@pytest.mark.long
@needs_linux
def test_nothing_is_read_beyond_an_input() -> None:
    assert read_beyond_inputs([f"kernels.cases.{family}" for family in FAMILIES], seeds=8) == "nothing"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.thorough  # test_kernel_build.py asks the same of small kernels
@pytest.mark.parametrize("family", FAMILIES)
def test_sanitizers_are_silent(family: str) -> None:
    assert_clean(f"kernels.cases.{family}", FAMILIES[family].kernels, seeds=15)


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


@pytest.mark.parametrize("channels", [3, 20, 64])
def test_sampling_is_the_same_however_it_is_shared_out(channels: int) -> None:
    """Many images: each core takes whole blocks of channels. One: the cores share the points."""
    batch = 4 * (os.cpu_count() or 1)
    x, grid = torch.randn(batch, channels, 9, 9), torch.rand(batch, 15, 13, 2) * 2.4 - 1.2
    for mode, padding in itertools.product(range(3), range(3)):
        apart = [
            OPS.grid_sample(image[None], points[None], mode, padding, False)
            for image, points in zip(x, grid, strict=True)
        ]
        torch.testing.assert_close(OPS.grid_sample(x, grid, mode, padding, False), torch.cat(apart), rtol=0, atol=0)


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


@pytest.mark.slow
def test_pytorch_agrees_with_the_operators() -> None:
    sampled, weight, offset = torch.randn(2, 4, 8, 8), torch.randn(6, 2, 3, 3), torch.randn(2, 36, 6, 6)
    opcheck(OPS.deform_conv2d.default, (sampled, weight, offset, None, None), {"groups": 2, "offset_groups": 2})
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


@pytest.mark.torchvision
@pytest.mark.parametrize("size", [(1, 64, 64, 64), (2, 256, 32, 32), (1, 128, 100, 100)], ids=str)
def test_deformable_convolution_equals_torchvision_on_large_sizes(size: tuple[int, int, int, int]) -> None:
    ops = pytest.importorskip("torchvision").ops
    batch, channels, height, width = size
    x, weight = torch.randn(size), torch.randn(channels, channels, 3, 3) / channels**0.5 / 3
    offset, mask = torch.randn(batch, 18, height, width) * 3, torch.rand(batch, 9, height, width)
    bias = torch.randn(channels)
    expected = ops.deform_conv2d(x, offset, weight, bias, padding=1, mask=mask)
    actual = OPS.deform_conv2d(x, weight, offset, mask, bias, padding=[1, 1])
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", OVER_TIME)
def test_gradients_of_convolutions_over_time(name: str) -> None:
    operator = getattr(OPS, name)
    x = torch.randn(2, 6, 21, dtype=torch.float64, requires_grad=True)
    sizes = (2, 3, 5, 21) if name == "dynamic_conv" else (3, 5)
    weight = torch.randn(sizes, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, weight: operator(x, weight, 3), (x, weight))


@pytest.mark.slow
@pytest.mark.parametrize("name", OVER_TIME)
def test_pytorch_agrees_with_convolutions_over_time(name: str) -> None:
    operator = getattr(OPS, name).default
    weight = torch.randn((2, 3, 5, 9) if name == "dynamic_conv" else (3, 5), requires_grad=True)
    opcheck(operator, (torch.randn(2, 6, 9, requires_grad=True), weight, 2))
    opcheck(getattr(OPS, f"{name}_backward").default, (*torch.randn(2, 2, 6, 9), weight.detach(), 2))


@pytest.mark.slow
def test_the_gradient_of_weights_does_not_depend_on_threads() -> None:
    threads = torch.get_num_threads()
    x, weight = torch.randn(4, 16, 300), torch.randn(2, 9)
    try:
        found = []
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            found.append(OPS.lightweight_conv_backward(x, x, weight, 4)[1])
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])
    expected = reference.lightweight_conv_gradients(x.numpy(), x.numpy(), weight.numpy(), 4)[1]
    np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=1e-3)
