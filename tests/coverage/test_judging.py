"""What comes of one sample."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch

from opbridge.coverage.judging import judge
from opbridge.coverage.tasks import Settings, Task

DB = f"{Path(__file__).parent / 'samples_to_sweep.py'}:ALL"
ROUTES = ("standard", "function", "kernel")


def tried(key, index=0, dtype="float32", db=DB, **settings):
    return judge(Task(db, key, dtype, index), Settings(database=db, allow=ROUTES, **settings))


@pytest.mark.parametrize(
    ("key", "compared", "kind"),
    [
        ("relu", "values", "deterministic"),
        ("relu/doubled", "values", "deterministic"),
        ("cat", "values", "deterministic"),
        ("split", "values", "deterministic"),
        ("arange", "values", "deterministic"),
        ("dropout", "distribution", "random"),
        ("seldom", "distribution", "random"),
        ("empty", "shape", "undefined"),
    ],
)
def test_what_passes(key, compared, kind):
    verdict = tried(key)
    assert (verdict.outcome, verdict.compared, verdict.kind) == ("pass", compared, kind), verdict.message
    assert verdict.route == "standard"
    assert verdict.seconds > 0 and {"sample", "eager", "export", "load", "compare"} == verdict.timings.keys()
    assert ("nothing was written to it" in verdict.message) == (key == "empty")


def test_the_routes_of_every_operator():
    assert tried("relu/doubled").routes == {"aten::relu": "standard", "aten::mul.Tensor": "standard"}


def test_a_wrong_translation_is_found_and_named():
    verdict = tried("half")
    assert verdict.outcome == "wrong", verdict.message
    assert "elements differ" in verdict.message and "first at" in verdict.message
    assert "sweeptest::half" in verdict.message


@pytest.mark.slow
def test_a_wrong_distribution_is_found():
    verdict = tried("biased", 2)
    assert (verdict.outcome, verdict.kind) == ("wrong", "random"), verdict.message
    assert "different distributions" in verdict.message


def test_a_missing_operator_is_refused():
    verdict = tried("unknown")
    assert verdict.outcome == "refused", verdict.message
    assert list(verdict.missing) == ["sweeptest::unknown"]


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("number", "it returns no tensor"),
        ("raises", "PyTorch itself fails: ValueError: not with these"),
        ("sparse", "sparse: it gives"),
        ("takes_sparse", "sparse: it takes"),
    ],
)
def test_what_is_left_out(key, reason):
    verdict = tried(key)
    assert verdict.outcome == "left out" and reason in verdict.message, verdict.message


def test_samples_that_are_not_there():
    assert tried("cat", 1) is None
    assert tried("relu", 3, samples=5) is None


@pytest.mark.slow
def test_other_dtypes():
    assert tried("relu", dtype="int64").outcome == "pass"
    assert tried("add", dtype="bfloat16", db="torch").outcome == "pass"
    assert tried("add", dtype="complex64", db="torch").outcome == "pass"


def test_an_older_opset():
    assert tried("relu", opset=11).outcome == "pass"


@pytest.mark.slow
@pytest.mark.parametrize(("exporter", "key", "outcome"), [
    ("torch", "add", "pass"),
    ("torch", "nn.functional.avg_pool2d", "wrong"),
    ("torchscript", "add", "pass"),
    ("torchscript", "acosh", "refused"),
])  # fmt: skip
def test_the_stock_exporters(exporter, key, outcome):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        verdict = tried(key, db="torch", exporter=exporter)
    assert verdict.outcome == outcome, verdict.message
    assert verdict.route is None


def test_samples_stay_as_they_are():
    from opbridge.coverage.databases import samples_of

    (x,) = samples_of(DB, "relu", torch.float32, 3)[0].args
    before = x.clone()
    tried("relu")
    assert torch.equal(x, before)
