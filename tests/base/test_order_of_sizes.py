"""Which sizes are seen to be at most others, without a question about them."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from opbridge.base.torch_private import torch_size_arithmetic, torch_sizes


def _size():
    env = ShapeEnv()
    context = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC])
    return env, FakeTensorMode(shape_env=env).from_tensor(torch.zeros(224), symbolic_context=context).shape[0]


@pytest.mark.parametrize(
    "left, right, is_seen",
    [
        (lambda n: 4 * (n // 4), lambda n: n, True),
        (lambda n: n, lambda n: 4 * (n // 4), False),
        (lambda n: (n + 3) // 4, lambda n: 7 * ((n + 27) // 28), True),
        (lambda n: 7 * ((n + 27) // 28), lambda n: (n + 3) // 4, False),
        (lambda n: 7 * ((n + 27) // 28), lambda n: (n + 3) // 4 + 6, True),
        (lambda n: 7 * ((n + 27) // 28), lambda n: (n + 3) // 4 + 5, False),  # where n is 1
        (lambda n: (n + 7) // 8, lambda n: 7 * ((n + 55) // 56), True),
        (lambda n: n // 3, lambda n: n // 4, False),
        (lambda n: 3, lambda n: 4, True),
        (lambda n: (n // 4 + n // 8 - 1) // (n // 8 + 1), lambda n: n // 4 + 9, False),
    ],
)
def test_a_size_is_at_most_another_one(left, right, is_seen, caplog):
    env, size = _size()
    with torch_size_arithmetic.dividing_sizes_directly():
        assert torch_sizes.is_at_most(left(size), right(size)) is is_seen
    assert not env.guards
    assert not caplog.records  # torch logs what its bounds fail for
    assert all(left(n) <= right(n) for n in range(1, 200)) or not is_seen


@pytest.mark.parametrize(
    "left, right, is_seen",
    [
        (lambda n: (n + -n % 8) // 8, lambda n: (n + 7) // 8, True),
        (lambda n: (n - n % 3) // 3, lambda n: n // 3, True),
        (lambda n: (n + -n % 8) // 8, lambda n: (n + 8) // 8, False),
        (lambda n: (n - n % 3) // 3, lambda n: (n - n % 2) // 2, False),
        (lambda n: (n - n % 3 - 1) // 3, lambda n: n // 3 - 1, True),
        (lambda n: n // 4, lambda n: n // 8 + n // 8, False),
    ],
)
def test_quotients_that_are_written_apart_are_equal(left, right, is_seen):
    env, size = _size()
    with torch_size_arithmetic.dividing_sizes_directly():
        assert torch_sizes.is_equal(left(size), right(size)) is is_seen
    assert not env.guards
    assert all(left(n) == right(n) for n in range(200)) is is_seen


def test_a_size_that_is_known_is_equal_to_its_number():
    _, size = _size()
    number = size.node.hint
    assert not torch_sizes.is_equal(size, number)
    assert size == number  # from now on
    assert torch_sizes.is_equal(size, number) and torch_sizes.is_equal(number, size)
    assert not torch_sizes.is_equal(size, number + 1)
