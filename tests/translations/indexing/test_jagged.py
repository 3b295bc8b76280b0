"""Rows of several sequences, jagged and padded."""

from __future__ import annotations

import torch
from helpers.matching import assert_matches

OFFSETS = torch.tensor([0, 2, 2, 5])


def test_padded():
    def model(values, offsets):
        return torch.ops.aten._jagged_to_padded_dense_forward(values, [offsets], [3], -1.0)

    assert_matches(model, torch.randn(5, 4), OFFSETS)
    assert_matches(model, torch.randn(0, 4), torch.zeros(3, dtype=torch.int64))
    others = [(torch.randn(3, 4), torch.tensor([0, 3]))]
    assert_matches(model, torch.randn(5, 4), OFFSETS, others=others, dynamic_shapes=({0: "rows"}, {0: "ends"}))


def test_jagged():
    def model(dense, offsets):
        return torch.ops.aten._padded_dense_to_jagged_forward(dense, [offsets], 5)

    assert_matches(model, torch.randn(3, 3, 4), OFFSETS)
