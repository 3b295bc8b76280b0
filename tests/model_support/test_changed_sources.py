"""Functions whose source is no longer one that is known."""

from __future__ import annotations

import importlib
import sys

import pytest
import torch
from helpers.acme import Acme

import opbridge
from opbridge.model_support import changed_sources, comparison
from opbridge.model_support.applying import applied
from opbridge.model_support.entries import FunctionReplacement


@pytest.fixture
def acme(tmp_path, monkeypatch):
    return Acme(tmp_path, monkeypatch)


def _states():
    (found,) = changed_sources.package_sources_known("acme")
    assert found.brought_by == "acme-onnx 1.2" and not found.fault
    return {each.target: (each.state, each.changed_calls) for each in found.targets}


def test_sources_that_are_known(acme):
    assert _states() == {
        "acme.models:outside": ("known", ()),
        "acme.models:Model.method": ("known", ()),
        "acme.gone:outside": ("absent", ()),
    }
    assert "acme" not in sys.modules  # its files are read


def test_a_function_and_a_function_that_is_called_have_changed(acme):
    acme.write(factor=4, added=2)
    assert _states() == {
        "acme.models:outside": ("changed", ()),
        "acme.models:Model.method": ("changed", ("called",)),
        "acme.gone:outside": ("absent", ()),
    }


def test_a_capture_notes_what_has_changed(acme):
    acme.write(factor=4, added=2)
    model = importlib.import_module("acme.models").Model()
    plan = opbridge.check(model, (torch.ones(3),))
    for target in ("acme.models:outside", "acme.models:Model.method"):
        assert any(each.startswith(f"{target} has a source in acme that opbridge does not know") for each in plan.notes)
    assert sum("does not know" in each for each in plan.notes) == 2


def test_a_model_of_known_sources_has_no_notes(acme):
    models = importlib.import_module("acme.models")

    class Overriding(models.Model):
        """A user's class, whose own method is no change of the package."""

        def called(self, x):
            return x - 1

    for each in (models.Model(), Overriding()):
        assert not changed_sources.notes(each)
    x = torch.ones(3)
    for each, expected in ((models.Model(), 12.0), (Overriding(), 0.0)):
        with applied(each):
            assert each(x).tolist() == [expected] * 3


def test_functions_are_compared_with_their_replacements(acme):
    (found,) = changed_sources.package_sources_known("acme")
    differences = {target: comparison.differences(entry, target) for target, entry in found.replacements().items()}
    assert differences == {"acme.models:outside": [], "acme.models:Model.method": []}


def test_differences_are_told(acme):
    acme.write(factor=4)
    (found,) = changed_sources.package_sources_known("acme")
    (said,) = comparison.differences(found.replacements()["acme.models:outside"], "acme.models:outside")
    assert said.startswith("inputs 1: ") and "not close" in said


@pytest.mark.parametrize(
    ("replacement", "inputs", "said"),
    [
        (lambda arguments: None, [((torch.ones(3),), {})], "inputs 1: the replacement does not take them"),
        (lambda arguments: arguments["x"] * 3, [], "the entry gives no inputs"),
        (lambda arguments: 1 / 0, [((torch.ones(3),), {})], "inputs 1: ZeroDivisionError: division by zero"),
        (lambda arguments: [arguments["x"] * 3], [((torch.ones(3),), {})], "in the place of"),
    ],
)
def test_a_comparison_that_compares_nothing_is_a_difference(acme, replacement, inputs, said):
    entry = FunctionReplacement(
        targets=("acme.models:outside",), sources=("0",), replacement=replacement, inputs=lambda owner: inputs
    )
    (found,) = comparison.differences(entry, "acme.models:outside")
    assert said in found
