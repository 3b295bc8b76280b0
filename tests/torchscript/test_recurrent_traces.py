"""Recurrent layers by a trace: packed sequences, and dimensions that are all dynamic."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.matching import assert_matches
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Packed(torch.nn.Module):
    def __init__(self, kind: str, *, enforce_sorted: bool) -> None:
        super().__init__()
        self.layer = getattr(torch.nn, kind)(5, 7, 2, batch_first=True, bidirectional=True)
        self.enforce_sorted = enforce_sorted

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        packed, states = self.layer(pack_padded_sequence(x, lengths, True, self.enforce_sorted))
        return *pad_packed_sequence(packed, True), states


def sequences(*lengths: int, steps: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(len(lengths), steps or max(lengths), 5), torch.tensor(lengths)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("enforce_sorted", [False, True])
def test_packed_sequences(kind: str, enforce_sorted: bool) -> None:
    lengths = [(6, 4, 2), (8, 8, 2, 1), (3,)] if enforce_sorted else [(4, 6, 2), (1, 8, 8, 2), (3,)]
    example, *others = [sequences(*each) for each in lengths]
    shapes = {"x": {0: "batch", 1: "steps"}, "lengths": {0: "batch"}}
    module = Packed(kind, enforce_sorted=enforce_sorted).eval()
    assert_matches(module, *example, others=[*others, sequences(2, 1, steps=9)], capture="trace", dynamic_shapes=shapes)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_all_dimensions_dynamic(kind: str) -> None:
    layer = getattr(torch.nn, kind)(5, 7, bidirectional=True).eval()
    shapes = ({0: "steps", 1: "batch"},)
    assert_matches(
        layer, torch.randn(4, 3, 5), others=[(torch.randn(2, 6, 5),)], capture="trace", dynamic_shapes=shapes
    )
