"""Kernels of one function of an element on the CPU, in PyTorch and in an exported file."""

from __future__ import annotations

import pytest
import torch
from device import SOURCE

import opbridge

pytestmark = pytest.mark.slow


@pytest.fixture
def ops():
    return opbridge.load(SOURCE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_an_element_is_computed_in_every_type(ops, dtype):
    a, b = torch.randn(2, 3, 5, dtype=dtype)
    torch.testing.assert_close(ops.scaled_add(a, b, alpha=3.0), (3.0 * a.double() + b.double()).to(dtype))
    torch.testing.assert_close(ops.scaled_add(a.t(), b.t()), (2.0 * a.double() + b.double()).to(dtype).t())
    torch.testing.assert_close(ops.broadcast_add(a, b[:, :1]), (2.0 * a.double() + b[:, :1].double()).to(dtype))


def test_many_elements_are_computed_in_parallel(ops):
    a, b = torch.randn(2, 30_000, dtype=torch.float64)
    torch.testing.assert_close(ops.scaled_add(a, b), 2.0 * a + b)
    torch.testing.assert_close(ops.broadcast_add(a.reshape(300, 100), b[:100]), 2.0 * a.reshape(300, 100) + b[:100])


def test_optional_arguments_and_indices(ops):
    x, shift = torch.randn(3, 4), torch.arange(12).reshape(3, 4)
    value, chosen = ops.split(x, shift, 2.0, least=1, flip=True)
    torch.testing.assert_close(value, -2 * x.abs() + shift)
    assert torch.equal(chosen, 2 * x.abs() >= 1)
    x = torch.randn(2, 3, 7)
    expected = torch.nn.functional.avg_pool1d(torch.nn.functional.pad(x, (1, 1)), 3, 2)
    torch.testing.assert_close(ops.smooth(x, 2), expected)


def test_shapes_that_do_not_fit_are_refused(ops):
    with pytest.raises(RuntimeError, match=r"the tensors must have the same shape: \(3\), \(4\)"):
        ops.scaled_add(torch.ones(3), torch.ones(4))
    with pytest.raises(RuntimeError, match=r"cannot be broadcast to one shape: \(2, 3\), \(4\)"):
        ops.broadcast_add(torch.ones(2, 3), torch.ones(4))
    with pytest.raises(RuntimeError, match="a tensor has 9 dimensions, which this kernel does not support"):
        ops.scaled_add(torch.ones([1] * 9), torch.ones([1] * 9))


def test_it_is_exported_with_dynamic_shapes(ops):
    class Model(torch.nn.Module):
        def forward(self, a, b):
            return ops.broadcast_add(ops.scaled_add(a, a), b)

    program = opbridge.export(Model(), (torch.randn(3, 4), torch.randn(4)), dynamic_shapes={"a": {0: "n"}, "b": None})
    assert program.verification.ok
    nodes = [node.op_type for node in program.model.graph]
    assert nodes == ["scaled_add", "broadcast_add"]
