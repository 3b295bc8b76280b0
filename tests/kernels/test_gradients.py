"""The gradients of built-in kernels against finite differences of the kernels themselves, in double."""

from __future__ import annotations

import pytest
import torch
from helpers.rows import one_in
from kernels.checking import Kernels
from torch.autograd import gradcheck
from torch.library import opcheck

OPS = torch.ops.opbridge_ops


@pytest.fixture(scope="module", autouse=True)
def kernels() -> Kernels:
    torch.manual_seed(0)
    return Kernels()


def double(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def away_from_pixels(value: torch.Tensor) -> torch.Tensor:
    """The same numbers, none of them so near to a whole one that a finite difference reaches over it."""
    with torch.no_grad():
        return (value.floor() + 0.1 + 0.8 * (value - value.floor())).requires_grad_()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("groups", "offset_groups", "masked", "biased", "settings"),
    one_in(
        5,
        [
            (2, 4, False, True, {"padding": [1, 1], "stride": [1, 2], "dilation": [1, 2]}),
            (1, 1, True, True, {}),
            (1, 1, False, False, {"padding": [1, 2]}),
            (2, 1, True, False, {"padding": [1, 1], "stride": [2, 1]}),
            (1, 2, True, True, {"padding": [2, 1], "dilation": [2, 1]}),
        ],
    ),
)
def test_deformable_convolution(groups: int, offset_groups: int, masked: bool, biased: bool, settings: dict) -> None:
    settings = {"stride": [1, 1], "padding": [0, 0], "dilation": [1, 1]} | settings
    kernel = (3, 2)
    sizes = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip((6, 7), kernel, *(settings[name] for name in settings), strict=True)
    ]
    taps = offset_groups * kernel[0] * kernel[1]
    x, weight = double(2, 4, 6, 7), double(6, 4 // groups, *kernel)
    offset = away_from_pixels(double(2, 2 * taps, *sizes) * 1.5)
    mask = double(2, taps, *sizes) if masked else None
    bias = double(6) if biased else None
    others = {"groups": groups, "offset_groups": offset_groups, **settings}
    given = [each for each in (x, weight, offset, mask, bias) if each is not None]

    def call(x: torch.Tensor, weight: torch.Tensor, offset: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        left = list(rest)
        return OPS.deform_conv2d(
            x, weight, offset, left.pop(0) if masked else None, left.pop(0) if biased else None, **others
        )

    assert gradcheck(call, given)


def test_deformable_convolution_far_outside_and_at_whole_pixels() -> None:
    """At a whole pixel the derivative is the one towards the next, as in torchvision; outside there is none."""
    x, weight = double(1, 1, 4, 4), torch.ones(1, 1, 1, 1, dtype=torch.float64)
    offset = torch.zeros(1, 2, 4, 4, dtype=torch.float64)
    offset[0, 0, 0, 0], offset[0, 1, 3, 3] = 50.0, torch.nan
    offset.requires_grad_()
    OPS.deform_conv2d(x, weight, offset, None, None).nan_to_num().sum().backward()
    assert x.grad is not None and offset.grad is not None
    assert x.grad[0, 0, 0, 0] == 0 and x.grad[0, 0, 1, 2] == 1
    assert offset.grad[0, :, 0, 0].tolist() == [0, 0] and offset.grad[0, :, 3, 3].tolist() == [0, 0]
    torch.testing.assert_close(offset.grad[0, 0, 1, 1], x[0, 0, 2, 1] - x[0, 0, 1, 1])
    torch.testing.assert_close(offset.grad[0, 1, 1, 1], x[0, 0, 1, 2] - x[0, 0, 1, 1])


@pytest.mark.torchvision
def test_deformable_convolution_has_the_gradients_of_torchvision() -> None:
    ops = pytest.importorskip("torchvision").ops
    x, weight, bias = (torch.randn(size, requires_grad=True) for size in ((2, 8, 9, 11), (4, 4, 3, 3), (4,)))
    offset = (torch.randn(2, 36, 9, 11) * 3).requires_grad_()
    mask = torch.rand(2, 18, 9, 11, requires_grad=True)
    given = (x, weight, offset, mask, bias)
    ours = OPS.deform_conv2d(*given, padding=[1, 1], groups=2, offset_groups=2)
    theirs = ops.deform_conv2d(x, offset, weight, bias, padding=1, mask=mask)
    grad = torch.randn_like(ours)
    for actual, expected in zip(
        torch.autograd.grad(ours, given, grad), torch.autograd.grad(theirs, given, grad), strict=True
    ):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_attention() -> None:
    shapes, starts = torch.tensor([[4, 3], [2, 5]]), torch.tensor([0, 12])
    value, weights = double(2, 22, 2, 3), double(2, 5, 2, 2, 2)
    # Places away from pixels, some outside: in pixels first.
    pixels = away_from_pixels(torch.rand(2, 5, 2, 2, 2, 2, dtype=torch.float64) * 8 - 2)
    sizes = shapes.flip(1)[:, None]
    locations = ((pixels + 0.5) / sizes).detach().requires_grad_()
    assert gradcheck(
        lambda v, o, w: OPS.ms_deform_attn(v, shapes, starts, o, w), (value, locations, weights), atol=1e-4
    )


@pytest.mark.parametrize("padding", range(3))
@pytest.mark.parametrize(("dims", "mode"), [(2, 0), (2, 1), (2, 2), (3, 0), (3, 1)])
def test_sampling(dims: int, mode: int, padding: int) -> None:
    x = double(2, 3, *[4] * dims)
    pixels = away_from_pixels(torch.rand(2, *[3] * dims, dims, dtype=torch.float64) * 5 - 0.5)
    pixels = pixels * 0.7 + 0.1 if mode == 1 else pixels
    grid = ((2 * pixels + 1) / 4 - 1).detach().requires_grad_()
    assert gradcheck(lambda x, grid: OPS.grid_sample(x, grid, mode, padding, False), (x, grid), atol=1e-4)
    only = x.detach()
    OPS.grid_sample(only, grid, mode, padding, False).sum().backward()
    assert grid.grad is not None and only.grad is None


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("scales", [[2.0, 1.5], [0.6, 3.0]])
def test_interpolation(scales: list[float], align: bool) -> None:
    factors = torch.tensor(scales, dtype=torch.float64)
    assert gradcheck(lambda x: OPS.upsample_bicubic(x, factors, align), (double(1, 2, 5, 4),))


@pytest.mark.slow
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("ratio", [0, 2])
def test_regions(ratio: int, aligned: bool) -> None:
    rois = [[0, 1, 1, 6, 5], [1, 0.3, 2.2, 2.9, 7.7], [1, -5, -4, 3, 30], [0, 6, 6, 4, 4], [1, 3, 3, 3.4, 3.2]]
    boxes = torch.tensor(rois, dtype=torch.float64)
    assert gradcheck(lambda x: OPS.roi_align(x, boxes, 0.8, 3, 2, ratio, aligned), (double(2, 2, 7, 8),))


@pytest.mark.parametrize("clockwise", [False, True])
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("ratio", [0, 2])
def test_rotated_regions(ratio: int, aligned: bool, clockwise: bool) -> None:
    rois = [[0, 4, 4, 6, 5, 0.7], [1, 2, 3, 3, 5, -2], [1, -1, 8, 9, 4, 1.5], [0, 3, 3, 0.4, 0.3, 0.1]]
    boxes = torch.tensor(rois, dtype=torch.float64)
    settings = (0.8, 3, 2, ratio, aligned, clockwise)
    assert gradcheck(lambda x: OPS.roi_align_rotated(x, boxes, *settings), (double(2, 2, 7, 8),))


def test_half_precision_and_nothing() -> None:
    x, weight = torch.randn(1, 2, 5, 5).half().requires_grad_(), torch.randn(2, 2, 3, 3).half().requires_grad_()
    offset = torch.randn(1, 18, 3, 3).half().requires_grad_()
    OPS.deform_conv2d(x, weight, offset, None, None).sum().backward()
    assert x.grad is not None and x.grad.dtype == torch.float16 and offset.grad is not None
    for name, rois in (("roi_align", torch.zeros(0, 5)), ("roi_align_rotated", torch.zeros(0, 6))):
        image = torch.randn(1, 2, 5, 5, requires_grad=True)
        getattr(OPS, name)(image, rois, 1.0, 2, 2, 0).sum().backward()
        assert image.grad is not None and not image.grad.any()


@pytest.mark.slow
def test_pytorch_agrees_with_the_operators() -> None:
    x = torch.randn(1, 4, 6, 6, requires_grad=True)
    weight, offset = torch.randn(2, 4, 3, 3, requires_grad=True), torch.randn(1, 18, 4, 4, requires_grad=True)
    opcheck(OPS.deform_conv2d.default, (x, weight, offset, None, None))
    opcheck(OPS.grid_sample.default, (x, torch.rand(1, 4, 4, 2, requires_grad=True)))
    opcheck(OPS.roi_align.default, (x, torch.tensor([[0.0, 1, 1, 5, 5]]), 1.0, 2, 2, 2))
    opcheck(OPS.roi_align_rotated.default, (x, torch.tensor([[0.0, 3, 3, 4, 4, 1]]), 1.0, 2, 2, 2))
    shapes, starts = torch.tensor([[2, 2], [3, 1]]), torch.tensor([0, 4])
    value, locations = torch.randn(1, 7, 2, 4, requires_grad=True), torch.rand(1, 5, 2, 2, 3, 2, requires_grad=True)
    weights = torch.rand(1, 5, 2, 2, 3, requires_grad=True)
    opcheck(OPS.ms_deform_attn.default, (value, shapes, starts, locations, weights))
