"""The least and the greatest of sizes, without the numbers that another one decides."""

from __future__ import annotations

import functools

import pytest
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from opbridge.base.torch_private import torch_extremes


@pytest.mark.parametrize(
    "computed, expected, python",
    [
        (lambda n, least, _: least(least(n, 500) + 50, n), "Min(550, n)", lambda n: min(n, 550)),
        (lambda n, least, _: least(least(n, 500) - 50, n, 9), "Min(9, n - 50)", lambda n: min(n - 50, 9)),
        (lambda n, _, greatest: greatest(greatest(n, 5) - 3, n), "Max(2, n)", lambda n: max(n, 2)),
        (lambda n, least, greatest: greatest(least(n, 5) - 3, n), None, lambda n: max(min(n, 5) - 3, n)),
        (lambda n, least, _: least(n, 7), "Min(7, n)", lambda n: min(n, 7)),
    ],
)
def test_what_another_number_decides_is_left_out(computed, expected, python):
    def of_torch(function):
        return lambda *sizes: torch_extremes.simplified(functools.reduce(function, sizes))

    size = ShapeEnv().create_unbacked_symint()
    found = computed(size, of_torch(torch.sym_min), of_torch(torch.sym_max)).node.expr
    if expected is not None:
        assert str(found).replace(str(size.node.expr), "n") == expected
    for number in (0, 1, 2, 3, 4, 5, 6, 58, 59, 60, 499, 500, 501, 549, 550, 551, 10_000):
        assert found.subs(size.node.expr, number) == python(number)


def test_anything_else_is_returned_as_it_is():
    size = ShapeEnv().create_unbacked_symint()
    assert torch_extremes.simplified(3) == 3
    assert torch_extremes.simplified(size) is size
