"""What comes of one model."""

from __future__ import annotations

from pathlib import Path

import pytest

from opbridge.coverage import words
from opbridge.coverage.models import exporting
from opbridge.coverage.models.tasks import ModelSettings, ModelTask
from opbridge.coverage.models.trying import tried

FILE = Path(__file__).parent / "models_to_sweep.py"


def outcome(name, family="BAD", **settings):
    spec = f"{FILE}:{family}"
    return tried(ModelTask(spec, name), ModelSettings((spec,), **settings))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["relu", "keyword", "no_others"])
def test_what_passes(name):
    verdict = outcome(name, "GOOD")
    assert verdict.outcome == "pass", verdict.message
    assert verdict.timings.keys() == {"build", "eager", "export", "load", "compare"}
    assert 0 < verdict.export_cpu_seconds < verdict.cpu_seconds
    assert verdict.stages.keys() == {"capture", "plan", "translate", "save", "verify"}
    assert verdict.nodes and verdict.routes["standard"] and verdict.capture == "direct"
    assert verdict.ratio == pytest.approx(
        sum(verdict.stages[name] for name in ("capture", "plan", "translate", "save")) / verdict.stages["capture"]
    )


@pytest.mark.slow
def test_a_file_that_is_wrong_on_inputs_that_the_export_did_not_see():
    verdict = outcome("large")
    assert verdict.outcome == "wrong" and verdict.cause
    assert "inputs 1" in verdict.message


@pytest.mark.slow
def test_operators_without_a_route():
    verdict = outcome("unknown")
    assert (verdict.outcome, verdict.cause) == ("refused", "MissingOperators")
    assert verdict.export_cpu_seconds is not None and "load" not in verdict.timings
    assert verdict.missing == ["modelstest::unknown"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("raises", "PyTorch itself fails on the example: ValueError"),
        ("nothing", "it returns no tensor and no number"),
        ("not_built", "it cannot be built: OSError"),
    ],
)
def test_what_is_left_out(name, said):
    verdict = outcome(name)
    assert verdict.outcome == "left out" and said in verdict.message


@pytest.mark.slow
def test_all_dimensions_of_a_model_that_has_a_batch_only():
    verdict = outcome("relu", "GOOD", dynamic="all")
    assert verdict.outcome == "pass", verdict.message


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", ["all", "batch"])
def test_dimensions_that_a_model_does_not_have(dynamic):
    verdict = outcome("fixed", "FIXED", dynamic=dynamic)
    assert verdict.outcome == "left out" and f"no dynamic dimensions of the kind {dynamic!r}" in verdict.message
    assert outcome("fixed", "FIXED", dynamic="none").outcome == "pass"


@pytest.mark.slow
def test_a_file_with_fixed_dimensions_is_wrong(monkeypatch):
    export = exporting.EXPORTERS["opbridge"]
    stubborn = {"opbridge": lambda model, example, shapes, *rest: export(model, example, None, *rest)}
    monkeypatch.setattr("opbridge.coverage.models.trying.EXPORTERS", stubborn)
    verdict = outcome("relu", "GOOD")
    assert (verdict.outcome, verdict.cause) == ("wrong", "fixed dimensions")
    assert "x.shape[0] == 2" in verdict.message


@pytest.mark.slow
def test_an_error_that_is_none_of_opbridges(monkeypatch):
    def broken(*args):
        raise ZeroDivisionError("by zero") from KeyError("first")

    monkeypatch.setattr("opbridge.coverage.models.trying.EXPORTERS", {"opbridge": broken, "torch": broken})
    verdict = outcome("relu", "GOOD")
    assert (verdict.outcome, verdict.cause) == ("export error", "ZeroDivisionError: KeyError")
    assert verdict.message == "KeyError: 'first' (raised as ZeroDivisionError)"
    assert outcome("relu", "GOOD", exporter="torch").outcome == "refused"


@pytest.mark.slow
def test_the_stock_exporter():
    verdict = outcome("relu", "GOOD", exporter="torch")
    assert verdict.outcome == "pass", verdict.message
    assert verdict.nodes and not verdict.stages and verdict.ratio is None
    refused = outcome("unknown", exporter="torch")
    assert refused.outcome == "refused" and "unknown" in refused.message and len(refused.message) < 800
    assert outcome("large", exporter="torch").outcome in ("wrong", "refused")


@pytest.mark.slow
def test_a_file_of_the_stock_exporter_is_compared_on_other_sizes_than_the_entrys_too():
    verdict = outcome("batches", "IN_AN_EXPORT", exporter="torch", dynamic="batch")
    assert verdict.outcome == "wrong" and "batch=" in verdict.message, verdict.message


@pytest.mark.slow
def test_a_cache_whose_layers_have_dropped_tokens():
    pytest.importorskip("transformers", reason="transformers is not installed")
    task = ModelTask("transformers", "Gemma2ForCausalLM, cache")
    verdict = tried(task, ModelSettings(("transformers",), dynamic="all"))
    assert verdict.outcome == "pass", verdict.message


@pytest.mark.parametrize(
    "said, told",
    [
        ("/tmp/a/opbridge-models-x1/model.onnx does not run", "model.onnx does not run"),
        (
            "at /opt/env/lib/python3.11/site-packages/timm/vit.py:3 (/opt/x/site-packages/a.py)",
            "at timm/vit.py:3 (a.py)",
        ),
        ("from '/tmp/opbridge-sweep-h7/0/torch_geometric.nn.conv.gat_conv'", "from 'torch_geometric.nn.conv.gat_conv'"),
        ("/tmp/opbridge-sweep-h7/0/opbridge-models-x/model.onnx is wrong", "model.onnx is wrong"),
        ("a/b is no number", "a/b is no number"),
    ],
)
def test_messages_name_no_folders_of_this_machine(said, told):
    assert words.short(said) == told
