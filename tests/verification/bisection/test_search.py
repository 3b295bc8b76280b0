"""Tests of the search for the first value that differs."""

import math
import random

import pytest

from opbridge.verification.bisection.search import Probe, Values, search


def _chain(count):
    names = [f"v{number}" for number in range(count)]
    return Values(
        names, {name: names[at - 1 : at] if at else [] for at, name in enumerate(names)}, dict.fromkeys(names, 8)
    )


def _probe(differing, runs):
    def probe(names):
        runs.append(list(names))
        return Probe(frozenset(name for name in names if name in differing))

    return probe


@pytest.mark.parametrize("culprit", [0, 1, 511, 998, 999])
def test_one_cut_a_run_needs_log2_runs(culprit):
    values, runs = _chain(1000), []
    differing = {f"v{number}" for number in range(culprit, 1000)}
    found = search(values, "v999", _probe(differing, runs), budget=0)
    assert found.value == f"v{culprit}" and found.region == [found.value]
    assert all(len(names) == 1 for names in runs) and len(runs) <= math.ceil(math.log2(1000)) + 1


def test_small_values_need_few_runs():
    values, runs = _chain(1000), []
    found = search(values, "v999", _probe({f"v{number}" for number in range(700, 1000)}, runs), budget=1 << 20)
    assert found.value == "v700" and len(runs) <= 3


def test_a_difference_that_cancels_downstream_is_found():
    values, runs = _chain(400), []
    differing = {f"v{number}" for number in range(100, 130)} | {f"v{number}" for number in range(300, 400)}
    found = search(values, "v399", _probe(differing, runs), budget=0)
    assert found.value in ("v100", "v300")


@pytest.mark.parametrize("seed", range(30))
def test_what_is_found_depends_on_nothing_that_differs(seed):
    rng = random.Random(seed)
    names = [f"v{number}" for number in range(120)]
    parents = {
        name: sorted({rng.choice(names[max(0, at - 9) : at]) for _ in range(2)}) if at else []
        for at, name in enumerate(names)
    }
    differing = set(rng.sample(names, 20)) | {"v119"}
    found = search(Values(names, parents, dict.fromkeys(names, 8)), "v119", _probe(differing, []), budget=0)
    assert found.value in differing and differing.isdisjoint(parents[found.value])


def test_values_that_remove_the_difference_are_narrowed_to_a_few():
    values, runs = _chain(256), []

    def probe(names):  # v100 to v103 are computed in one, unless one of the first three is fetched
        runs.append(list(names))
        fused = not {"v100", "v101", "v102"} & set(names)
        differing = {f"v{number}" for number in range(103, 256)} if fused else set()
        return Probe(frozenset(differing & set(names)), fused)

    found = search(values, "v255", probe, budget=0)
    assert found.value == "v103" and {"v100", "v101", "v102"} & set(found.disturbing)
    assert len(found.region) <= 8 and len(runs) < 30
