"""The branches of decisions: what is known of them, and the inputs that are searched for to take each."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

import opbridge
from opbridge.graph.decisions import condition_of
from opbridge.verification.branch_inputs import branch_inputs
from opbridge.verification.dynamic_sizes import DynamicSizes

X = torch.rand(3, 4, generator=torch.Generator().manual_seed(0)) + 0.1


def branch(x):
    return x * 2 if x.sum() > 0 else x.exp()


def raising(x):
    if x.isnan().any():
        raise ValueError("not a number")
    return x + 1 if x.sum() > 0 else x


@pytest.mark.parametrize(
    "code, condition",
    [
        ("if x.sum() > 0:", "x.sum() > 0"),
        ("elif a and b:", "a and b"),
        ("while x < 3:", "x < 3"),
        ("return a if x.max() > 1 else b", "x.max() > 1"),
        ("assert x.all(), 'no'", "x.all()"),
        ("y = (a if p else b) + (c if q else d)", "y = (a if p else b) + (c if q else d)"),
        ("for i in range(n):", "for i in range(n):"),
        ("x.sum() > 0 and", "x.sum() > 0 and"),
    ],
)
def test_the_condition_of_a_line(code, condition):
    assert condition_of(code) == condition


def test_check_lists_the_decisions_with_what_each_branch_does():
    plan = opbridge.check(branch, (X,))
    (found,) = plan.decisions
    line = branch.__code__.co_firstlineno + 1
    assert (
        found.place.endswith(f"test_exercised_branches.py:{line}")
        and found.condition == "x.sum() > 0"
        and found.is_in_file
    )
    assert [(branch.answer, branch.operators) for branch in found.branches] == [
        (True, ("aten::mul.Tensor",)),
        (False, ("aten::exp",)),
    ]
    said = str(plan)
    assert "1 condition that depends on data, both branches in the file" in said
    assert "True: aten::mul.Tensor" in said and "False: aten::exp" in said
    (data,) = json.loads(json.dumps(plan.to_json()))["decisions"]
    assert data["condition"] == "x.sum() > 0" and data["branches"][1] == {
        "answer": False,
        "operators": ["aten::exp"],
        "raises": False,
    }


@pytest.mark.slow
def test_check_lists_a_branch_that_raises():
    plan = opbridge.check(raising, (X,))
    in_file, other = plan.decisions
    assert in_file.is_in_file and not other.is_in_file
    assert [branch.raises for branch in other.branches] == [True, False]
    assert "True: raises an error" in str(plan)
    assert "1 condition that depends on data" in str(plan)


def test_a_model_without_decisions_has_none():
    plan = opbridge.check(nn.ReLU(), (X,))
    assert plan.decisions == () and "decision" not in str(plan)


def test_inputs_are_found_for_the_other_branch():
    found = opbridge.export(branch, (X,)).verification
    assert [run.label for run in found.runs] == ["example", "fresh 1", "fresh 2", "negated"]
    assert [(branch.answer, branch.runs) for branch in found.branches] == [
        (True, ("example", "fresh 1", "fresh 2")),
        (False, ("negated",)),
    ]
    assert "both branches exercised" in found.summary()
    assert [branch["runs"] for branch in found.to_json()["branches"]] == [
        ["example", "fresh 1", "fresh 2"],
        ["negated"],
    ]


@pytest.mark.slow
def test_a_branch_that_no_run_takes_is_said():
    def model(x):
        return x + 1 if x.sum() == 12345.25 else x

    found = opbridge.export(model, (X,)).verification
    assert found.ok
    (branch,) = found.untaken
    assert branch.answer and branch.runs == ()
    assert (
        "1 of 2 branches not exercised by any run" in found.summary()
        and "`x.sum() == 12345.25` is True" in found.summary()
    )
    assert "x.sum() == 12345.25` is True: not exercised" in str(found)


@pytest.mark.slow
def test_masks_all_true_and_all_false_are_tried():
    def model(x, mask):
        if mask.all():
            return x * 2
        return x.masked_fill(mask, 0.0) if mask.any() else x - 1

    mask = torch.tensor([True, False, False, True])
    found = opbridge.export(model, (X, mask)).verification
    assert found.ok and not found.untaken
    labels = {run.label for run in found.runs}
    assert labels >= {"all true", "all false"}


@pytest.mark.slow
def test_sizes_are_tried():
    def model(x):
        y = x[x > 0.5]
        return y.mean().reshape(1) if y.numel() > 20 else x.new_ones(1)

    found = opbridge.export(model, (X,), dynamic_shapes=({0: "rows"},)).verification
    assert found.ok and not found.untaken


def test_sizes_that_no_memory_holds_are_not_tried():
    sizes = DynamicSizes(dims={0: ("n",)}, example={"n": 3}, of_branches=({"n": 8}, {"n": 10**12}))
    found = branch_inputs((torch.zeros(3),), {}, 0, kept=(), sizes=sizes, names={})
    labels = [label for label, _, _ in found]
    assert labels[0] == "n=8" and "n=13" in labels and "n=1000000000000" not in labels


@pytest.mark.slow
def test_a_wrong_branch_is_found(monkeypatch):
    program = opbridge.export(branch, (X,), verify=False)

    def other(x):
        return x * 2 if x.sum() > 0 else x.exp() + 1

    found = opbridge.verify(program, other, (X,))
    assert not found.ok and [run.label for run in found.runs if not run.ok] == ["negated"]
    assert "inputs that take another branch (negated)" in found.describe_mismatch()


@pytest.mark.slow
def test_a_file_that_decides_is_verified_on_all_branches(tmp_path):
    path = tmp_path / "model.onnx"
    opbridge.export(branch, (X,), path, verify=False)
    found = opbridge.verify(path, branch, (X,))
    assert found.ok and len(found.branches) == 2 and not found.untaken


@pytest.mark.slow
def test_no_inputs_are_searched_for_beside_given_ones():
    found = opbridge.export(branch, (X,), inputs=[(X + 1,)]).verification
    assert [run.label for run in found.runs] == ["example", "inputs 1"]
    assert [branch.answer for branch in found.untaken] == [False]


@pytest.mark.slow
def test_inputs_that_the_model_refuses_are_no_runs():
    found = opbridge.export(raising, (X,)).verification
    assert found.ok and not found.untaken and not found.left_out


@pytest.mark.slow
def test_a_loop_that_has_no_end_for_some_inputs():
    def model(x):
        while x.sum() < 50:
            x = x * 2
        return x + 1

    found = opbridge.export(model, (X,)).verification
    iteration, none = found.branches
    assert found.ok and iteration.answer and not none.answer
    assert iteration.operators and not none.operators and iteration.runs and none.runs
