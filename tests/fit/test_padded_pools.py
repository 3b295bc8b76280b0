"""MaxPool over a padding of zeros, which ONNX Runtime would take for padding of its own."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches
from torch.nn import functional

X = torch.randn(1, 2, 6, 6) - 5  # below zero: the padding is what is largest


@pytest.mark.parametrize("settings", [{}, {"padding": 1}, {"ceil_mode": True}], ids=str)
def test_zeros_before_max_pool(settings) -> None:
    assert_matches(lambda x: functional.max_pool2d(functional.pad(x, (1, 1, 1, 1)), 3, 2, **settings), X)


def test_other_padding_is_left_alone() -> None:
    program = assert_matches(lambda x: functional.max_pool2d(functional.pad(x, (1, 1, 1, 1), value=-9.0), 3, 2), X)
    assert [node.op_type for node in program.model.graph] == ["Pad", "MaxPool"]
    assert "auto_pad" not in program.model.graph[1].attributes


def test_average_pool_is_left_alone() -> None:
    program = assert_matches(lambda x: functional.avg_pool2d(functional.pad(x, (1, 1, 1, 1)), 3, 2), X)
    assert [node.op_type for node in program.model.graph] == ["Pad", "AveragePool"]
