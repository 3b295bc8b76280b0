"""The nodes that cost most, found by halves."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest

from opbridge.precision.searching import Search


def search(
    nodes: Sequence[int],
    measure: Callable[[Sequence[int]], float],
    tolerance: float,
    said: Callable[[str], None] = lambda _: None,
    **settings: int,
) -> Search[int]:
    """A search that ran to a tolerance."""
    found = Search(nodes, said, **settings)
    found.put_back(measure, tolerance)
    return found


def errors(costs: Sequence[float]) -> Callable[[Sequence[int]], float]:
    """The error of a model whose nodes add theirs up independently."""
    return lambda chosen: math.sqrt(sum(costs[at] ** 2 for at in chosen))


@pytest.mark.parametrize("worst", [(5,), (0, 999), (3, 400, 401, 777)])
def test_the_worst_are_put_back_in_few_runs(worst: tuple[int, ...]) -> None:
    costs = [1e-5] * 1000
    for at in worst:
        costs[at] = 0.5
    found = search(range(len(costs)), errors(costs), 1e-2)
    assert sorted(found.back) == sorted(worst)
    assert found.before is not None and found.before > 0.4 and found.after <= 1e-2
    assert found.runs <= 2 + len(worst) * (2 * math.ceil(math.log2(len(costs))) + 1)


def test_nothing_is_put_back_within_the_tolerance() -> None:
    found = search(range(10), errors([1e-4] * 10), 1e-2)
    assert not found.back and found.runs == 1


def test_what_is_not_finite_is_put_back() -> None:
    found = search(range(8), lambda chosen: math.inf if 3 in chosen else 0.0, 1e-2)
    assert [*found.back] == [3] and found.after == 0.0


def test_groups_are_put_back_after_so_many_runs() -> None:
    found = search(range(64), errors([0.5] * 64), 1e-2, most_runs=10)
    assert found.after <= 1e-2 and found.runs < 40


def test_what_only_together_exceeds_the_tolerance() -> None:
    found = search(range(4), lambda chosen: 1.0 if {0, 3} <= set(chosen) else 0.0, 1e-2)
    assert found.after == 0.0 and found.back


def test_progress_is_said() -> None:
    said: list[str] = []
    search(range(4), errors([0, 0, 1, 0]), 1e-2, said.append)
    assert said[-1].startswith("1 nodes put back, error 0")


def test_a_search_goes_on_with_a_lower_tolerance() -> None:
    costs = [1e-6] * 1000
    costs[7], costs[600] = 0.5, 5e-3
    found = search(range(len(costs)), errors(costs), 1e-2)
    assert [*found.back] == [7]
    runs = found.runs
    found.put_back(errors(costs), 1e-3)
    assert sorted(found.back) == [7, 600] and found.after <= 1e-3
    assert found.runs - runs <= 2 + 2 * math.ceil(math.log2(len(costs)))


def test_what_stays_for_another_reason_is_not_measured_again() -> None:
    found = Search(range(8), lambda _: None)
    found.leave_out([3])
    found.put_back(lambda chosen: math.inf if 3 in chosen else 0.0, 1e-2)
    assert not found.back and 3 not in found.nodes()


@pytest.mark.parametrize("count", [100, 1000, 10_000])
def test_many_nodes_alike_are_not_found_one_by_one(count: int) -> None:
    found = search(range(count), errors([2e-2 / math.sqrt(count)] * count), 1e-2)
    assert found.after <= 1e-2
    assert 0.75 * count <= len(found.back) <= 0.8 * count + 64
    assert found.runs < 450
