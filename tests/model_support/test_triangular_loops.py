"""Loops over the rows of a triangular matrix, and the operator in their place."""

from __future__ import annotations

import pytest
import torch

from opbridge.model_support.transformers.triangular_loops import solved


def inverted(attn, chunk_size):
    for i in range(1, chunk_size):
        row = attn[..., i, :i].clone()
        sub = attn[..., :i, :i].clone()
        attn[..., i, :i] = row + (row.unsqueeze(-1) * sub).sum(-2)

    return attn


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1, 2, 5, 16])
def test_the_operator_gives_what_the_loop_gives(dtype, size):
    torch.manual_seed(0)
    matrix = (torch.randn(2, 3, size, size, dtype=dtype) / 4).tril(-1)
    for given in (matrix, matrix[:, :0]):
        torch.testing.assert_close(solved(given), inverted(given.clone(), size))
