"""Loops over the rows of a triangular matrix, and the operator in their place."""

from __future__ import annotations

import types

import pytest
import torch

from opbridge.model_support.transformers import triangular_loops


def inverted(attn, chunk_size):
    for i in range(1, chunk_size):
        row = attn[..., i, :i].clone()
        sub = attn[..., :i, :i].clone()
        attn[..., i, :i] = row + (row.unsqueeze(-1) * sub).sum(-2)

    return attn


def weighted(attn, chunk_size):
    for i in range(1, chunk_size):
        row = attn[..., i, :i].clone()
        sub = attn[..., :i, :i].clone()
        attn[..., i, :i] = row + (row.unsqueeze(-1) * sub).sum(-1)
    return attn


def _changed(function):
    code = triangular_loops.with_operator(function)
    return None if code is None else types.FunctionType(code, function.__globals__, function.__name__)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1, 2, 5, 16])
def test_the_operator_gives_what_the_loop_gives(dtype, size):
    torch.manual_seed(0)
    matrix = (torch.randn(2, 3, size, size, dtype=dtype) / 4).tril(-1)
    for given in (matrix, matrix[:, :0]):
        torch.testing.assert_close(_changed(inverted)(given.clone(), size), inverted(given.clone(), size))


def test_another_loop_stays():
    assert _changed(weighted) is None
    assert triangular_loops.with_operator(inverted).co_firstlineno == inverted.__code__.co_firstlineno
