"""Dynamic and lightweight convolution over time, and their gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from kernels.cases import Refused
from kernels.cases.dynamic_conv import REFUSED, random_cases
from kernels.checking import DTYPES, Kernels, assert_clean
from kernels.references import dynamic_conv as reference
from torch.library import opcheck

NAMES = ("dynamic_conv", "lightweight_conv")


@pytest.fixture(scope="module", autouse=True)
def kernels() -> Kernels:
    return Kernels(*NAMES)


@pytest.mark.parametrize("dtype", DTYPES)
def test_equals_the_reference_in_onnxruntime(kernels: Kernels, dtype: str) -> None:
    for seed in range(25):
        kernels.check_in_onnxruntime(random_cases(seed), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_equals_the_reference_in_torch(kernels: Kernels, dtype: str) -> None:
    for seed in range(25):
        kernels.check_in_torch(random_cases(seed), dtype)


@pytest.mark.parametrize("refused", REFUSED, ids=lambda refused: refused.words)
def test_what_does_not_fit_is_refused(kernels: Kernels, refused: Refused) -> None:
    kernels.check_refused(refused)


@pytest.mark.slow
def test_sanitizers_are_silent() -> None:
    assert_clean("kernels.cases.dynamic_conv", NAMES, seeds=60)


@pytest.mark.parametrize("name", NAMES)
def test_gradients(name: str) -> None:
    operator = getattr(torch.ops.opbridge_ops, name)
    x = torch.randn(2, 6, 21, dtype=torch.float64, requires_grad=True)
    sizes = (2, 3, 5, 21) if name == "dynamic_conv" else (3, 5)
    weight = torch.randn(sizes, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, weight: operator(x, weight, 3), (x, weight))


@pytest.mark.parametrize("name", NAMES)
def test_pytorch_agrees_with_the_operator(name: str) -> None:
    operator = getattr(torch.ops.opbridge_ops, name).default
    weight = torch.randn((2, 3, 5, 9) if name == "dynamic_conv" else (3, 5), requires_grad=True)
    opcheck(operator, (torch.randn(2, 6, 9, requires_grad=True), weight, 2))
    opcheck(getattr(torch.ops.opbridge_ops, f"{name}_backward").default, (*torch.randn(2, 2, 6, 9), weight.detach(), 2))


def test_the_gradient_of_weights_does_not_depend_on_threads() -> None:
    threads = torch.get_num_threads()
    x, weight = torch.randn(4, 16, 300), torch.randn(2, 9)
    try:
        found = []
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            found.append(torch.ops.opbridge_ops.lightweight_conv_backward(x, x, weight, 4)[1])
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])
    expected = reference.lightweight_conv_gradients(x.numpy(), x.numpy(), weight.numpy(), 4)[1]
    np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=1e-3)
