"""The cross product, along the dimension that torch takes."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches


@pytest.mark.parametrize("shape", [(2, 3, 3), (3, 3, 2), (4, 3), (3, 5)], ids=str)
def test_the_first_dimension_of_size_three(shape: tuple[int, ...]) -> None:
    assert_matches(lambda x, y: torch.cross(x, y), torch.randn(shape), torch.randn(shape))


def test_a_dynamic_dimension_that_becomes_three() -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cross(x, y)

    n, m = torch.export.Dim("n"), torch.export.Dim("m")
    sizes = [(3, 5, 3), (5, 3, 3), (3, 3, 3), (2, 1, 3)]
    assert_matches(
        model,
        torch.randn(5, 4, 3),
        torch.randn(5, 4, 3),
        others=[(torch.randn(size), torch.randn(size)) for size in sizes],
        dynamic_shapes=({0: n, 1: m}, {0: n, 1: m}),
    )


def test_along_a_given_dimension() -> None:
    assert_matches(lambda x, y: torch.cross(x, y, dim=-2), torch.randn(3, 3, 3), torch.randn(3, 3, 3))
    assert_matches(lambda x, y: torch.linalg.cross(x, y), torch.randn(2, 3), torch.randn(1, 3))
    assert_matches(lambda x, y: torch.cross(x, y), torch.randint(9, (2, 3)), torch.randint(9, (2, 3)))
