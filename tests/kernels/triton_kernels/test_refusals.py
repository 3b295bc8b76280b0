"""What of Triton kernels is not supported in a file: the error names the kernel, the model's line, and what to do."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed: pip install 'opbridge[triton]'")

import triton
import triton.language as tl
from kernels.triton_kernels.forms import add_kernel, scale, softmax, tuned
from triton.tools.tensor_descriptor import TensorDescriptor

import opbridge

pytestmark = pytest.mark.slow

X = torch.randn(5, 30)


@triton.jit
def wrong_kernel(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), no_such_value)  # noqa: F821


@triton.jit
def descriptor_kernel(rows, out_ptr, BLOCK: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, BLOCK), rows.load([0]))


@triton.jit
def double_kernel(x_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i) * 2)


@triton.jit
def wild_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK) * 100_000_000
    tl.store(out_ptr + i, tl.load(x_ptr + i))


def launches_wrong_kernel(x):
    y = x.clone()
    wrong_kernel[(1,)](y, BLOCK=64)
    return y


def launches_with_descriptor(x):
    out = torch.empty_like(x)
    descriptor_kernel[(1,)](TensorDescriptor(x, [150], [1], [64]), out, BLOCK=64)
    return out


def launches_clusters(x):
    y = x.clone()
    double_kernel[(1,)](y, BLOCK=64, num_ctas=2)
    return y


def launches_without_argument(x):
    out = torch.empty_like(x)
    add_kernel[(1,)](x, out, BLOCK=64)
    return out


def launches_with_four_dimensions(x):
    y = x.clone()
    double_kernel[(1, 1, 1, 1)](y, BLOCK=64)
    return y


@pytest.mark.parametrize(
    ("model", "args", "said"),
    [
        (
            lambda x: scale(x, x.max().item()),
            (X,),
            r"scale_kernel .* 'alpha'.*not supported .*forms\.py:\d+.*Pass a tensor",
        ),
        (lambda x: scale(x.to(torch.float8_e4m3fn), 2.0), (X,), r"scale_kernel .*float8.*forms\.py:\d+.*View it"),
        (
            launches_with_descriptor,
            (torch.randn(150),),
            r"descriptor_kernel .*descriptor.*refusals\.py:\d+.*Pass a tensor",
        ),
        (launches_clusters, (torch.randn(64),), r"double_kernel needs clusters .*refusals\.py:\d+.*Launch it with"),
        (launches_without_argument, (X,), r"add_kernel .*do not match it: missing .*refusals\.py:\d+"),
        (launches_with_four_dimensions, (torch.randn(64),), r"double_kernel has 4 dimensions.*refusals\.py:\d+"),
    ],
)
def test_a_launch_is_refused(model, args, said):
    with pytest.raises(opbridge.CaptureError, match=said):
        opbridge.check(model, args, architectures=["sm_90"])


def test_a_kernel_that_does_not_compile_is_refused():
    with pytest.raises(opbridge.CaptureError) as raised:
        opbridge.check(launches_wrong_kernel, (X,))
    assert "wrong_kernel does not compile for sm_80" in str(raised.value)
    assert "no_such_value is not defined" in str(raised.value)
    assert "test_refusals.py:" in str(raised.value)


def test_a_kernel_that_ends_its_interpreter_is_an_error():
    with pytest.raises(
        opbridge.UsageError, match=r"wild_kernel ended the process of Triton's interpreter.*Check its masks"
    ):
        opbridge.export(lambda x: launched_wildly(x), (X,))


def launched_wildly(x):
    out = torch.empty_like(x)
    wild_kernel[(1,)](x, out, BLOCK=64)
    return out


def test_a_constant_of_a_dynamic_size_limits_it():
    with pytest.raises(opbridge.VerificationError, match="valid only for b <= 32"):
        opbridge.export(softmax, (torch.randn(6, 20),), dynamic_shapes={0: "a", 1: "b"})


def test_a_configuration_is_the_one_that_was_asked_for():
    plan = opbridge.check(tuned, (X,), autotune={"tuned_kernel": 1})
    assert any("configuration 1 of 2 (BLOCK=32, num_warps=2" in note and "asked for" in note for note in plan.notes)
    plan = opbridge.check(tuned, (X,))
    assert any("configuration 0 of 2 (BLOCK=128" in note and "first one that fits" in note for note in plan.notes)
    with pytest.raises(opbridge.UsageError, match=r"configuration 7 .*tuned_kernel.* from 0 to 1"):
        opbridge.check(tuned, (X,), autotune={"tuned_kernel": 7})


def test_a_configuration_that_does_not_fit_is_left_out():
    @triton.autotune([triton.Config({"BLOCK": 2**21}), triton.Config({"BLOCK": 64})], key=[])
    @triton.jit
    def large_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)

    def copied(x):
        out = torch.empty_like(x)
        large_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
        return out

    assert any("configuration 1 of 2" in note for note in opbridge.check(copied, (X,)).notes)


def test_an_unknown_architecture_is_refused():
    with pytest.raises(opbridge.UsageError, match="Unknown architecture '90'"):
        opbridge.check(tuned, (X,), architectures=["90"])
