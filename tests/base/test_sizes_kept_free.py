"""Symbols that a capture of branches keeps free: torch answers by the example, and learns nothing of their values."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from opbridge.base.torch_private.torch_shape_env import Sizes


def _size(example: int) -> tuple[Sizes, Any]:
    sizes = Sizes(general=True, dynamic=frozenset({"x.shape[0]"}))
    return sizes, sizes.new(example, "x.shape[0]", None, None, None)


def test_an_answer_says_nothing_of_other_values() -> None:
    sizes, size = _size(9)
    assert size > 5
    assert sizes.ranges()[str(size)][0] == 0


@pytest.mark.parametrize("subtracted", [1, 2])
def test_a_number_of_data_may_be_such_a_size_less_a_number(subtracted: int) -> None:
    """A size that only data decide is not negative, so that torch asserts what the other one is at least."""
    sizes, size = _size(9)
    with FakeTensorMode(shape_env=sizes.env):
        of_data = sizes.env.create_unbacked_symint()
        torch._check(of_data >= 0)
        torch._check(of_data == size - subtracted)
        found = torch.ones(of_data) + torch.ones(size - subtracted)
    assert str(found.shape[0]) == str(size - subtracted)
