"""Tensors taken apart along a dimension that is not known at export."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches
from torch.export import Dim

ROWS = ({0: Dim.AUTO},)


def some(count: int) -> torch.Tensor:
    return torch.randn(count, 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "function", [torch.split, torch.ops.aten.unsafe_split.Tensor, torch.ops.aten.split_copy.Tensor]
)
def test_split_by_a_size(function):
    """The number of parts is that of the example."""
    assert_matches(lambda x: function(x, 4), some(10), dynamic_shapes=ROWS, others=[(some(9),), (some(12),)])


@pytest.mark.slow
def test_split_of_one_part():
    assert_matches(lambda x: torch.split(x, 4), some(3), dynamic_shapes=ROWS, others=[(some(4),), (some(2),)])


@pytest.mark.slow
def test_split_by_a_size_of_an_input():
    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.split(x, x.shape[0] // 2)

    assert_matches(model, some(10), dynamic_shapes=ROWS, others=[(some(4),), (some(20),)])


def test_tensor_split():
    others = [(some(count),) for count in (2, 3, 4, 9, 11, 12)]
    for sections in (1, 3):
        assert_matches(
            lambda x, sections=sections: torch.tensor_split(x, sections),
            some(10),
            dynamic_shapes=({0: Dim("rows")},),
            others=others,
        )
