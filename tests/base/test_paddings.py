"""Amounts of padding that are computed from sizes."""

from __future__ import annotations

import pytest
import torch

from opbridge.base.torch_private import torch_paddings, torch_sizes
from opbridge.base.torch_private.torch_shape_env import Sizes
from opbridge.capture.guards import decisions


@pytest.fixture
def size():
    return Sizes(general=True).new(13, "x.shape[0]", None, None, None)


def values(number, size):
    return [torch_sizes.example_with(number, {torch_sizes.text_of(size): each}) for each in range(1, 60)]


@pytest.mark.parametrize(
    ("amount", "divisor"),
    [
        (lambda n: (7 - n % 7) % 7, 7),
        (lambda n: -n % 7, 7),
        (lambda n: (4 - n) % 4, 4),
        (lambda n: n % 2, 2),
    ],
)
def test_what_fills_up_to_a_multiple_gives_a_size_that_is_one_by_its_form(size, amount, divisor):
    found = torch_paddings.as_fill(amount(size))
    assert values(found, size) == values(amount(size), size)
    assert (size + found) % divisor == 0
    assert torch_sizes.text_of(found) != torch_sizes.text_of(amount(size))


@pytest.mark.parametrize(
    "amount", [lambda n: (10 - n) % 4, lambda n: (7 - (n // 4) % 7) % 7, lambda n: (n // 4) % 2, lambda n: (n - 9) % 4]
)
def test_other_forms_of_it_are_the_same_numbers(size, amount):
    assert values(torch_paddings.as_fill(amount(size)), size) == values(amount(size), size)


def test_another_amount_stays(size):
    for amount in (size % 4, size + 1, 4 - size % 4):
        assert torch_paddings.as_fill(amount) is amount


def continued(amount):
    def is_implied(condition, by):
        found = decisions.implied(condition, by, {})
        return found.holds and found.is_proven

    return torch_paddings.continued(amount, is_implied)


def test_an_amount_that_follows_a_condition_is_continued(size):
    assert continued(4 - size % 4) is not None
    assert values(continued(4 - size % 4), size) == values(4 - size % 4, size)  # nothing was asked
    assert bool(size % 4 != 0)
    found = values(continued(4 - size % 4), size)
    assert found == [-each % 4 for each in range(1, 60)]
    assert values(continued(size % 4), size) == [each % 4 for each in range(1, 60)]


def test_an_amount_with_a_bound_is_continued(size):
    assert bool(size % 2 != 0)
    found = continued(torch.sym_max(3 - size % 2, 0) // 2)
    assert values(found, size) == [each % 2 for each in range(1, 60)]


@pytest.mark.parametrize(
    "condition", [lambda n: n % 8 != 0, lambda n: n % 4 <= 3, lambda n: n % 3 != 0, lambda n: n % 4 != 2]
)
def test_an_amount_that_a_multiple_may_have_is_not_continued(size, condition):
    assert bool(condition(size))
    amount = 4 - size % 4
    assert continued(amount) is amount
