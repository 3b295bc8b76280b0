"""The supports of packages, found through entry points."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest
import torch
from helpers.distributions import Distribution

import opbridge
from opbridge.model_support import registry

_ROOT = Path(__file__).parents[2]

_SUPPORT = """
import acme
from opbridge.model_support.entries import FunctionReplacement, ModelSupport
from opbridge.model_support.fingerprints import fingerprint

SUPPORT = ModelSupport(
    package="acme",
    entries=(
        FunctionReplacement(
            targets=("acme:doubled_by_values",),
            sources=(fingerprint(acme.doubled_by_values),),
            replacement=lambda arguments: arguments["x"] * 2,
            inputs=lambda owner: [((acme.torch.ones(3),), {})],
        ),
    ),
)
"""
_PACKAGE = """
import torch

def doubled_by_values(x):
    return torch.tensor([each * 2 for each in x.tolist()])

class Doubling(torch.nn.Module):
    def forward(self, x):
        return doubled_by_values(x)
"""


@pytest.fixture
def acme(tmp_path, monkeypatch):
    """A package that is not imported yet, and the distribution that brings its support."""
    registry.loaded.cache_clear()  # of the test before, which had the same entry point
    monkeypatch.setattr(registry, "_left_out", {})
    made = Distribution(tmp_path, monkeypatch, "acme-onnx")
    made.module("acme", _PACKAGE)
    made.module("acme_support", _SUPPORT)
    made.entry_points(registry.GROUP, acme="acme_support:SUPPORT")
    return made


def _packages():
    return [each.package for each in registry.supports()]


def test_a_support_is_loaded_when_its_package_has_been_imported(acme):
    assert "acme" in [each.name for each in registry.declared()]
    assert "acme" not in _packages() and "acme_support" not in sys.modules
    importlib.import_module("acme")
    assert "acme" in _packages() and "acme_support" in sys.modules


@pytest.mark.slow
def test_what_a_distribution_brings_is_used_in_a_capture(acme):
    model = importlib.import_module("acme").Doubling()
    x = torch.arange(3.0)
    program = opbridge.export(model, (x,), dynamic_shapes=({0: "n"},))
    assert program.verification.ok and [row.operator for row in program.plan.rows] == ["aten::mul.Tensor"]
    assert torch.equal(model(x), 2 * x)  # the function itself is back


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise OSError('no\\nlicense')", "OSError: no license"),
        ("import a_package_that_is_not_there", "ModuleNotFoundError: No module named 'a_package_that_is_not_there'"),
        ("SUPPORT = 3", "TypeError: it is of type int, and not a ModelSupport"),
        ("", "AttributeError: module 'acme_support' has no attribute 'SUPPORT'"),
        (_SUPPORT.replace('package="acme"', 'package="other"'), "it is for the package other, and the entry point is"),
        (_SUPPORT.replace('"acme:doubled_by_values"', '"acme.doubled"'), "is not of the form"),
    ],
)
def test_a_support_that_cannot_be_loaded_is_named_and_left_out(acme, source, said):
    acme.module("acme_support", source)
    importlib.import_module("acme")
    with pytest.warns(RuntimeWarning, match="the model support for acme that acme-onnx 1.2 brings"):
        assert "acme" not in _packages()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (fault,) = registry.faults()  # there is one warning
    assert said in str(fault) and "(acme_support:SUPPORT) cannot be loaded, and is not used" in str(fault)
    plan = opbridge.check(torch.nn.ReLU(), (torch.ones(3),))
    assert any(said in each for each in plan.notes)


def test_a_support_that_fails_in_a_capture_is_named_and_left_out(acme):
    context = "CaptureContext(targets=('acme:f',), sources=('0',), context=lambda model: 1 / 0)"
    source = _SUPPORT.replace("import FunctionReplacement", "import CaptureContext, FunctionReplacement")
    acme.module("acme_support", source.replace("entries=(\n", f"entries=(\n{context},"))
    importlib.import_module("acme")
    assert "acme" in _packages()
    with pytest.warns(
        RuntimeWarning, match="that acme-onnx 1.2 brings .* fails in a capture, and is not used: ZeroDiv"
    ):
        plan = opbridge.check(torch.nn.ReLU(), (torch.ones(3),))
    assert plan.ok and any("fails in a capture" in each for each in plan.notes)
    assert "acme" not in _packages()
    with pytest.raises(KeyError, match="ours"):
        registry.leave_out(importlib.import_module("opbridge.model_support.einx.support").SUPPORT, KeyError("ours"))


@pytest.mark.slow
def test_an_error_of_a_capture_names_what_is_left_out(acme):
    acme.module("acme_support", "SUPPORT = 3")
    model = importlib.import_module("acme").Doubling()
    with pytest.warns(RuntimeWarning), pytest.raises(opbridge.CaptureError) as caught:
        opbridge.export(model, (torch.ones(3),), dynamic_shapes=({0: "n"},), verify=False)
    said = "The model support for acme that acme-onnx 1.2 brings (acme_support:SUPPORT) cannot be loaded"
    assert said in str(caught.value)


def test_entry_points_that_cannot_be_read_are_left_out(acme, tmp_path, monkeypatch):
    broken = Distribution(tmp_path / "broken", monkeypatch, "broken-onnx")
    broken.entry_points(f"{registry.GROUP}]\nnothing\n[other", acme="acme_support:SUPPORT")
    with pytest.warns(RuntimeWarning, match="the entry points of broken-onnx 1.2 cannot be read"):
        assert "acme" in [each.name for each in registry.declared()]


def test_opbridge_declares_its_own_in_the_same_group():
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"][registry.GROUP] == registry.BUILTIN
    for each in registry.declared():
        if each.value in registry.BUILTIN.values():
            assert each.load().package == each.name


@pytest.mark.slow
def test_opbridges_own_are_found_without_metadata(tmp_path):
    """From a folder on `sys.path`, where nothing is installed."""
    code = """
import sys
sys.path = [each for each in sys.path if "site-packages" not in each]
from opbridge.model_support import registry
names = [each.name for each in registry.declared()]
assert names == ["transformers", "einx", "neuralforecast", "torchaudio", "torchmetrics", "torchvision"], names
"""
    # torch, which the entries need, is imported before.
    _run(f"import torch{code}", tmp_path)


@pytest.mark.slow
def test_nothing_of_a_package_is_imported_for_a_model_without_it(tmp_path):
    code = """
import sys, torch, opbridge
opbridge.check(torch.nn.ReLU(), (torch.ones(3),))
packages = "transformers", "einx", "torchvision"
known = [each for each in sys.modules if each.startswith((*packages, "opbridge.model_support."))]
assert "opbridge.model_support.registry" in known
found = [each for each in known if each.startswith(packages) or each.endswith(".support")]
assert not found, found
"""
    _run(code, tmp_path)


def _run(code, folder):
    """Runs code in a process of its own, where opbridge is found in its folder of sources."""
    environment = {**os.environ, "PYTHONPATH": str(_ROOT / "src")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
