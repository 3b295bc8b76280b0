"""Models fitted to onnxruntime."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches

import opbridge


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("function", [torch.relu, lambda x: x.sum(0), lambda x: x * x, lambda x: x.abs().max(0).values])
def test_integer_types_without_a_kernel_are_widened(function, dtype):
    x = torch.tensor([[1, 2, 3], [4, 100, 6]], dtype=dtype)
    assert_matches(function, x, others=[(torch.tensor([[0, 7, 3], [9, 1, 120]], dtype=dtype),)])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types_compute_in_float32_and_come_back(dtype):
    program = opbridge.export(
        torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.GELU()).to(dtype), (torch.randn(2, 4).to(dtype),)
    )
    assert program.verification.ok
    assert str(program.model.graph.outputs[0].dtype) == {torch.float16: "FLOAT16", torch.bfloat16: "BFLOAT16"}[dtype]


def test_outputs_that_nobody_reads_are_left_out():
    program = opbridge.export(torch.nn.MaxPool2d(2), (torch.randn(1, 1, 4, 4),), verify=False)
    (pool,) = [node for node in program.model.graph if node.op_type == "MaxPool"]
    assert len(pool.outputs) == 1


def test_outputs_that_are_read_stay():
    program = assert_matches(torch.nn.MaxPool2d(2, return_indices=True), torch.randn(1, 1, 4, 4))
    pools = [node for node in program.model.graph if node.op_type == "MaxPool"]
    assert any(len(pool.outputs) == 2 for pool in pools)
