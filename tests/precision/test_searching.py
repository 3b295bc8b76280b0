"""The nodes that cost most, found by halves."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from opbridge.precision.searching import search


def errors(costs: Sequence[float]) -> object:
    """The error of a model whose nodes add theirs up independently."""
    return lambda chosen: math.sqrt(sum(costs[at] ** 2 for at in chosen))


@pytest.mark.parametrize("worst", [(5,), (0, 999), (3, 400, 401, 777)])
def test_the_worst_are_put_back_in_few_runs(worst: tuple[int, ...]) -> None:
    costs = [1e-5] * 1000
    for at in worst:
        costs[at] = 0.5
    found = search(range(len(costs)), errors(costs), 1e-2, lambda _: None)
    assert sorted(found.back) == sorted(worst)
    assert found.before > 0.4 and found.after <= 1e-2
    assert found.runs <= 2 + len(worst) * (2 * math.ceil(math.log2(len(costs))) + 1)


def test_nothing_is_put_back_within_the_tolerance() -> None:
    found = search(range(10), errors([1e-4] * 10), 1e-2, lambda _: None)
    assert not found.back and found.runs == 1


def test_what_is_not_finite_is_put_back() -> None:
    found = search(range(8), lambda chosen: math.inf if 3 in chosen else 0.0, 1e-2, lambda _: None)
    assert [*found.back] == [3] and found.after == 0.0


def test_groups_are_put_back_after_so_many_runs() -> None:
    found = search(range(64), errors([0.5] * 64), 1e-2, lambda _: None, most_runs=10)
    assert found.after <= 1e-2 and found.runs < 40


def test_what_only_together_exceeds_the_tolerance() -> None:
    found = search(range(4), lambda chosen: 1.0 if {0, 3} <= set(chosen) else 0.0, 1e-2, lambda _: None)
    assert found.after == 0.0 and found.back


def test_progress_is_said() -> None:
    said: list[str] = []
    search(range(4), errors([0, 0, 1, 0]), 1e-2, said.append)
    assert said[-1].startswith("1 nodes put back, error 0")
