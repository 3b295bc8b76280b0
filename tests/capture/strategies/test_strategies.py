"""The strategies for a capture as data: what is tried, in which order, and that nothing is written meanwhile."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from helpers.captures import LAYER, X

from opbridge.capture.assumptions import Assumptions
from opbridge.capture.autograd_functions import Functions
from opbridge.capture.captured import Captured, Failed, SizesContradicted
from opbridge.capture.config import CaptureConfig
from opbridge.capture.resolved_call import resolved_call
from opbridge.capture.retries import capture_with_retries
from opbridge.capture.session import CaptureSession
from opbridge.capture.strategies import STRATEGIES, ordered, run_strategies
from opbridge.capture.strategies.strategy import NoImprovement, Progress, Strategy
from opbridge.errors import CaptureError


def session_of(model, *args, shapes=None, config=CaptureConfig()):  # noqa: B008
    call = resolved_call(model, args, None, shapes)
    return CaptureSession(call, call.module, config, Functions(None, 18, {}), config.limits(lambda text: None))


def progress_of(model, *args, shapes=None, error=None, config=CaptureConfig()):  # noqa: B008
    session = session_of(model, *args, shapes=shapes, config=config)
    first = Assumptions.first(session.call.shapes)
    return Progress(session, first, None if error is None else Failed(error, first))


def applying(progress):
    return [each.name for each in STRATEGIES if each.applies(progress)]


def test_names_are_distinct():
    assert len({each.name for each in STRATEGIES}) == len(STRATEGIES)


def test_the_first_strategy():
    assert applying(progress_of(LAYER, X))[:1] == ["direct capture"]
    assert applying(progress_of(LAYER, X, config=CaptureConfig("torch.export"))) == ["torch.export"]


@pytest.mark.parametrize(
    ("error", "shapes", "expected"),
    [
        (RuntimeError("no such thing"), None, ["torch.export", "torch.export, strict mode"]),
        (CaptureError("ours"), None, ["torch.export, strict mode"]),
        (SizesContradicted([("n <= 9", None)]), {"input": {0: "n"}}, ["branches on sizes"]),
        (SizesContradicted([("n == 3", None)], unrolls=True), {"input": {0: "n"}}, ["all paths of branches on data"]),
    ],
)
def test_what_applies_after_a_failure(error, shapes, expected):
    found = applying(progress_of(LAYER, X, shapes=shapes, error=error))
    assert [each for each in found if each in expected] == expected
    assert not set(found) & {"direct capture", "padding for both answers", "loops over sizes"}


def test_what_applies_after_a_capture():
    progress = progress_of(LAYER, X, shapes={"input": {0: "n"}})
    found = capture_with_retries(progress.session, progress.first)
    assert isinstance(found, Captured) and found.assumptions == progress.first
    # Nothing to improve on: it asks for no size.
    assert applying(dataclasses.replace(progress, outcome=found)) == [
        "padding for both answers",
        "other branch of a condition on sizes",
    ]


def test_a_strategy_that_gives_nothing_leaves_the_outcome_as_it_was(monkeypatch):
    seen = []

    def run(progress):
        seen.append(progress)
        return NoImprovement(CaptureError("of no use") if len(seen) > 1 else None)

    useless = Strategy("useless", lambda progress: True, run)
    monkeypatch.setattr(ordered, "STRATEGIES", (STRATEGIES[0], useless, useless))
    captured, tried = run_strategies(session_of(LAYER, X))
    assert [(each.strategy, each.result, each.executions) for each in tried] == [
        ("direct capture", "captured", 1),
        ("useless", "no improvement", 0),
        ("useless", "no improvement: of no use", 0),
    ]
    assert seen[0].outcome is seen[1].outcome is seen[0].captured
    assert captured.graph is seen[0].captured.graph


def test_an_error_of_a_strategy_ends_the_capture_and_is_told(monkeypatch):
    def stops(progress):
        raise CaptureError("no further")

    monkeypatch.setattr(ordered, "STRATEGIES", (STRATEGIES[0], Strategy("stopping", lambda progress: True, stops)))
    with pytest.raises(CaptureError, match="no further"):
        run_strategies(session_of(LAYER, X))


def test_assumptions_cannot_be_changed():
    first = Assumptions.first(session_of(LAYER, X).call.shapes)
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.gradients = "on"
    again = dataclasses.replace(first, gradients="of inputs", is_unchecked=True).restarted("non-strict")
    assert again == dataclasses.replace(first, mode="non-strict")


class AnyNumberOfRows(torch.nn.Module):
    def forward(self, x):
        return x.relu() if x.shape[0] > 3 else x.tanh()


@pytest.mark.slow
def test_the_plan_shows_what_was_tried():
    import opbridge

    plan = opbridge.check(AnyNumberOfRows(), (torch.randn(2, 3),), dynamic_shapes={"x": {0: "rows"}})
    told = plan.to_json()["captures"]
    assert [each["strategy"] for each in told if each["result"] == "captured"] == [
        "direct capture",
        "branches on sizes",
    ]
    line = "captured by: direct capture, then branches on sizes"
    assert line in str(plan) and plan.capture_line().startswith(line)
    assert opbridge.check(LAYER, (X,)).capture_line() == ""
