"""Deformable convolution, versions 1 and 2."""

from __future__ import annotations

import pytest
import torch
from kernels.cases import Refused
from kernels.cases.deform_conv2d import REFUSED, random_cases
from kernels.checking import DTYPES, Kernels, assert_clean
from torch.library import opcheck

NAMES = ("deform_conv2d",)


@pytest.fixture(scope="module", autouse=True)
def kernels() -> Kernels:
    return Kernels(*NAMES)


@pytest.mark.parametrize("dtype", DTYPES)
def test_equals_the_reference_in_onnxruntime(kernels: Kernels, dtype: str) -> None:
    for seed in range(40):
        kernels.check_in_onnxruntime(random_cases(seed), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_equals_the_reference_in_torch(kernels: Kernels, dtype: str) -> None:
    for seed in range(40):
        kernels.check_in_torch(random_cases(seed), dtype)


@pytest.mark.parametrize("refused", REFUSED, ids=lambda refused: refused.words)
def test_what_does_not_fit_is_refused(kernels: Kernels, refused: Refused) -> None:
    kernels.check_refused(refused)


@pytest.mark.slow
def test_sanitizers_are_silent() -> None:
    assert_clean("kernels.cases.deform_conv2d", NAMES, seeds=60)


def test_pytorch_agrees_with_the_operator() -> None:
    x, weight, offset = torch.randn(2, 4, 8, 8), torch.randn(6, 2, 3, 3), torch.randn(2, 36, 6, 6)
    given = {"groups": 2, "offset_groups": 2}
    opcheck(torch.ops.opbridge_ops.deform_conv2d.default, (x, weight, offset, None, None), given)


@pytest.mark.torchvision
@pytest.mark.parametrize("size", [(1, 64, 64, 64), (2, 256, 32, 32), (1, 128, 100, 100)], ids=str)
def test_equals_torchvision_on_large_sizes(size: tuple[int, int, int, int]) -> None:
    ops = pytest.importorskip("torchvision").ops
    batch, channels, height, width = size
    x, weight = torch.randn(size), torch.randn(channels, channels, 3, 3) / channels**0.5 / 3
    offset, mask = torch.randn(batch, 18, height, width) * 3, torch.rand(batch, 9, height, width)
    bias = torch.randn(channels)
    expected = ops.deform_conv2d(x, offset, weight, bias, padding=1, mask=mask)
    actual = torch.ops.opbridge_ops.deform_conv2d(x, weight, offset, mask, bias, padding=[1, 1])
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)
