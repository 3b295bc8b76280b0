"""Operators by a trace, whose sizes vary."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers.matching import assert_matches


def test_a_constant_written_to_a_part() -> None:
    class Writing(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x.clone()
            x[:, x.size(0) :] = torch.tensor([1, 2, 3])
            return x

    shapes = ({0: "a", 1: "b"},)
    assert_matches(
        Writing(), torch.ones(2, 5, 3), others=[(torch.randn(3, 4, 3),)], capture="trace", dynamic_shapes=shapes
    )


def test_repeat_interleave_by_a_vector_that_may_be_one_number() -> None:
    def repeated(x: torch.Tensor, repeats: torch.Tensor) -> torch.Tensor:
        return torch.repeat_interleave(x, repeats, dim=1)

    x = torch.randn(2, 3)
    others = [(torch.randn(2, 5), torch.tensor([4]))]
    shapes = ({1: "w"}, {0: "r"})
    assert_matches(repeated, x, torch.tensor([2]), others=others, capture="trace", dynamic_shapes=shapes)
    others = [(x, torch.tensor([1, 0, 3])), (x, torch.tensor([2]))]
    assert_matches(
        repeated, x, torch.tensor([2, 3, 4]), others=others, capture="trace", dynamic_shapes=(None, {0: "r"})
    )


@pytest.mark.parametrize(
    "squeeze",
    [
        lambda x: x.squeeze(1),
        lambda x: (x + 1).squeeze(1),
        lambda x: (x + 1).squeeze(-2),
        lambda x: (x + 1).squeeze((0, -2)),
        lambda x: (x + 1).squeeze(),
        lambda x: (x + 1).squeeze_(1),
    ],
)
def test_squeeze_of_what_may_have_size_one(squeeze: Callable[[torch.Tensor], torch.Tensor]) -> None:
    assert_matches(squeeze, torch.randn(2, 1, 4), others=[(torch.randn(2, 1, 4),)], capture="trace")
    shapes = ({0: "a", 1: "b", 2: "c"},)
    assert_matches(
        squeeze,
        torch.randn(2, 1, 4),
        others=[(torch.randn(2, 2, 3),), (torch.randn(5, 1, 4),)],
        capture="trace",
        dynamic_shapes=shapes,
    )


def test_computing_with_what_was_squeezed() -> None:
    def pooled(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.avg_pool2d(x, 4).squeeze(-1).squeeze(-1).softmax(1)

    others = [(torch.randn(5, 3, 4, 4),)]
    assert_matches(pooled, torch.randn(2, 3, 4, 4), others=others, capture="trace", dynamic_shapes=({0: "b"},))
