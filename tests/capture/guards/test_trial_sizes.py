"""Sizes to try a model with."""

from __future__ import annotations

from opbridge.capture.guards.trial_sizes import TrialSizes
from opbridge.graph.captured_graph import SizeCondition

EXAMPLE = {"s0": 10, "s1": 12}


def test_values_on_both_sides_of_conditions():
    condition = SizeCondition("s0 <= 5000", ("s0",))
    trial = TrialSizes(EXAMPLE, {"s0": (1, None), "s1": (2, 20)}, [condition])
    assert {5000, 5001, 10, 1} <= {*trial.values["s0"]} and max(trial.values["s1"]) == 20
    assert all(2 <= each["s1"] <= 20 for each in (*trial.beside(), *trial.mixed()))


def test_each_combination_of_remainders():
    trial = TrialSizes(EXAMPLE, {"s0": (1, None), "s1": (1, None)})
    found = trial.combined(["s0 % 4", "s0 % 3", "s1 % 5", "(s0 + s1) % 7"])
    combinations = {(each["s0"] % 4 == 0, each["s0"] % 3 == 0, each["s1"] % 5 == 0) for each in found}
    assert len(combinations) == 8


def test_sizes_for_which_something_holds():
    trial = TrialSizes(EXAMPLE, {"s0": (1, None), "s1": (1, None)})
    found = trial.alike(lambda sizes: sizes["s0"] % 2 == 0 and sizes["s1"] > sizes["s0"])
    assert len(found) > 20 and all(each["s0"] % 2 == 0 and each["s1"] > each["s0"] for each in found)
    assert all(each["s0"] % 64 == 10 and each["s1"] % 2520 == 12 for each in trial.far())
