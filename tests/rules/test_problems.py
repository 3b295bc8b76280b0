"""Reported problems are found by their rules, a model beside each has no error, and repairs keep results."""

from __future__ import annotations

import re

import pytest
from helpers.problems import LEFT_OUT, PROBLEMS, counts
from helpers.problems.of_tensorrt import PROBLEMS as OF_TENSORRT

import opbridge
from opbridge.onnx import serialize
from opbridge.rules import catalogue
from opbridge.runtimes import tensorrt_rtx
from opbridge.targets import find_target

IDENTIFIERS = [each.identifier for each in PROBLEMS]

REPAIRABLE = [pytest.param(each, id=each.identifier) for each in PROBLEMS if each.repairable]


@pytest.mark.parametrize("problem", PROBLEMS, ids=IDENTIFIERS)
def test_a_reported_problem_is_found_by_its_rule(problem):
    findings = opbridge.lint(problem.model.SerializeToString(), problem.target)
    assert problem.rule in {each.rule for each in findings}, list(findings)


@pytest.mark.parametrize("problem", PROBLEMS, ids=IDENTIFIERS)
def test_a_model_beside_it_has_no_error(problem):
    for clean in problem.clean:
        findings = opbridge.lint(clean.SerializeToString(), problem.target)
        assert not [each for each in findings if each.severity == "error" or each.rule == problem.rule]


@pytest.mark.parametrize("problem", [each for each in PROBLEMS if each.until], ids=lambda each: each.identifier)
def test_what_is_known_of_older_releases_is_a_warning_for_newer_ones(problem):
    name = problem.target.partition(":")[0]
    versions = find_target(name).versions
    last = versions.index(problem.until)

    def severities(version):
        found = opbridge.lint(problem.model.SerializeToString(), f"{name}:{version}")
        return {each.severity for each in found if each.rule == problem.rule}

    assert severities(versions[last]) == {"error"}
    assert all(severities(each) == {"warning"} for each in versions[last + 1 :])


@pytest.mark.skipif(not tensorrt_rtx.version(), reason=f"tensorrt-rtx is not installed: {tensorrt_rtx.INSTALL}")
@pytest.mark.slow
@pytest.mark.parametrize("problem", OF_TENSORRT, ids=lambda each: each.identifier)
def test_tensorrt_rtx_refuses_what_lint_says_before_the_repair_only(problem):
    from opbridge.runtimes.tensorrt_rtx.building import attempt

    content = problem.model.SerializeToString()
    assert attempt(content).stage == (problem.refused_by_rtx or "built")
    errors = {each.rule for each in opbridge.lint(content, "tensorrt-rtx") if each.severity == "error"}
    # ONNX itself has no updates of another type than the data's.
    assert bool(errors - ({"mixed-types"} if not problem.refused_by_rtx else set())) == bool(problem.refused_by_rtx)
    fixed = opbridge.fix(content, "tensorrt-rtx")
    assert attempt(serialize.to_bytes(fixed.model)).stage == "built"
    assert not [each for each in fixed.left if each.severity == "error"]


@pytest.mark.slow
@pytest.mark.parametrize("problem", REPAIRABLE)
@pytest.mark.usefixtures("one_process")
def test_a_repairable_problem_is_repaired_and_gives_the_same(problem, tmp_path):
    fixed = opbridge.fix(problem.model.SerializeToString(), problem.target, tmp_path / "fixed.onnx")
    assert fixed.changes and fixed.comparison.runs and fixed.comparison.ok
    assert problem.rule not in {each.rule for each in fixed.left}
    assert problem.rule not in {each.rule for each in opbridge.lint(tmp_path / "fixed.onnx", problem.target)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "problem", [each for each in PROBLEMS if not each.repairable], ids=lambda each: each.identifier
)
def test_another_problem_is_left_as_it_is(problem):
    fixed = opbridge.fix(problem.model.SerializeToString(), problem.target)
    assert problem.rule in {each.rule for each in fixed.left}


def test_there_are_enough_of_them_each_once():
    assert len(set(IDENTIFIERS)) == len(IDENTIFIERS)
    reports = {re.match(r"[A-Z]\d+", each)[0] for each in IDENTIFIERS}
    assert not reports & LEFT_OUT.keys()
    assert len(reports) >= 40 and counts()["clean models"] >= 40
    assert {each.rule for each in PROBLEMS} <= {each.identifier for each in catalogue()}
