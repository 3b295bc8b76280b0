"""LSTM layers with projections."""

from __future__ import annotations

import itertools

import pytest
import torch
from helpers.matching import assert_matches
from torch.export import Dim

import opbridge


def made(layers: int = 2, **options) -> torch.nn.Module:
    return torch.nn.LSTM(6, 5, layers, proj_size=3, **options).eval()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layers", "bidirectional", "batch_first", "bias"), list(itertools.product((1, 2), *[(False, True)] * 3))
)
def test_layers(layers, bidirectional, batch_first, bias):
    module = made(layers, bidirectional=bidirectional, batch_first=batch_first, bias=bias)
    assert_matches(module, torch.randn(4, 3, 6), others=[(torch.randn(4, 3, 6),)])


@pytest.mark.slow
def test_first_states():
    states = torch.randn(4, 3, 3), torch.randn(4, 3, 5)
    for opset in (18, 21, 23):
        assert_matches(made(bidirectional=True), torch.randn(4, 3, 6), states, opset_version=opset)
    assert_matches(made(), torch.randn(4, 6))


def test_any_length_and_batch():
    shapes = ({0: Dim("batch"), 1: Dim("length")},)
    others = [(torch.randn(2, 1, 6),), (torch.randn(1, 7, 6),)]
    module = made(bidirectional=True, batch_first=True)
    assert_matches(module, torch.randn(4, 3, 6), dynamic_shapes=shapes, others=others)


def test_half_precision():
    assert_matches(made().half(), torch.randn(4, 3, 6).half(), rtol=1e-2, atol=1e-2)


def test_double_is_refused():
    with pytest.raises(opbridge.MissingOperators, match="only in float32"):
        opbridge.export(made().double(), (torch.randn(4, 3, 6).double(),))
