"""Files that a runtime builds without a GPU."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import onnx
import pytest

import opbridge
from opbridge.coverage import building
from opbridge.coverage.judging import judge
from opbridge.coverage.models import results as of_models
from opbridge.coverage.models.tasks import ModelSettings, ModelTask, ModelVerdict
from opbridge.coverage.models.trying import tried
from opbridge.coverage.tasks import Settings, Task
from opbridge.runtimes import known, tensorrt_rtx

HERE = Path(__file__).parent
HEAD = '<ir_version: 8, opset_import: ["" : 17]> g'
RELU = f"{HEAD} (float[2] x) => (float[2] y) {{ y = Relu (x) }}"
NON_ZERO = f"{HEAD} (float[2] x) => (int64[1, n] y) {{ y = NonZero (x) }}"
TARGET = "tensorrt-rtx"


def content(text: str) -> bytes:
    return onnx.parser.parse_model(text).SerializeToString()


@pytest.fixture
def builds(monkeypatch):
    """A TensorRT-RTX that is installed and answers as it is told; the feeds that it was given are kept."""
    told = SimpleNamespace(answer=("built", ""), feeds=[], obstacle="there is no GPU")
    monkeypatch.setattr(tensorrt_rtx, "version", lambda: "1.7")
    monkeypatch.setattr(known, "obstacle", lambda name: told.obstacle)

    def built(name, model, feeds):
        assert name == TARGET
        if not isinstance(model, bytes):
            assert onnx.load(model).graph.node
        told.feeds.append(dict(feeds))
        return told.answer

    monkeypatch.setattr(known, "built", built)
    return told


def test_the_runtime_of_a_target_that_only_builds(builds, monkeypatch):
    assert building.builder_of(TARGET) == building.builder_of("tensorrt-rtx:1.7") == TARGET
    assert building.builder_of(None) is building.builder_of("openvino") is None
    assert building.version_of(TARGET) == {TARGET: "1.7"} and building.version_of("openvino") == {}
    monkeypatch.setattr(tensorrt_rtx, "version", lambda: "")
    assert building.builder_of(TARGET) is None
    with pytest.raises(opbridge.UsageError, match="not installed"):
        building.checked_target(TARGET)
    with pytest.raises(opbridge.UsageError, match="nonesuch"):
        building.checked_target("nonesuch")


@pytest.mark.parametrize(
    ("text", "answer", "outcome", "cause", "said"),
    [
        (RELU, ("built", ""), "built", "", ""),
        (RELU, ("partly", "for sm_75: no"), "built", "", "not built for sm_75: no"),
        (
            RELU,
            ("build", "no kernel"),
            "build error",
            "not predicted",
            "TensorRT-RTX cannot build the model: no kernel",
        ),
        (NON_ZERO, ("parse", "no plug-in"), "parse error", "predicted", "TensorRT-RTX cannot parse the model"),
        (NON_ZERO, ("built", ""), "refused", "false finding", "builds the file, but lint: missing-operator"),
    ],
)
def test_what_is_built_beside_what_lint_says(builds, text, answer, outcome, cause, said):
    builds.answer = answer
    found = building.build(TARGET, content(text), {})
    assert (found.outcome, found.cause) == (outcome, cause) and said in found.message
    assert bool(found.predicted) == (text is NON_ZERO)


def test_a_file_that_cannot_be_read_is_predicted(builds):
    builds.answer = ("parse", "no model")
    found = building.build(TARGET, b"nothing", {})
    assert (found.outcome, found.cause) == ("parse error", "predicted")


def model_outcome(name: str, family: str = "GOOD", **settings) -> ModelVerdict:
    spec = f"{HERE / 'models' / 'models_to_sweep.py'}:{family}"
    return tried(ModelTask(spec, name), ModelSettings((spec,), target=TARGET, **settings))


@pytest.mark.slow
@pytest.mark.parametrize("exporter", ["opbridge", "torch"])
def test_a_model_is_built_and_not_run(builds, exporter):
    verdict = model_outcome("relu", exporter=exporter)
    assert (verdict.outcome, verdict.message, verdict.cause) == ("built", "", "")
    assert verdict.timings.keys() == {"build", "eager", "export", "target"} and verdict.nodes
    assert "verify" not in verdict.stages
    assert builds.feeds == [{}]


@pytest.mark.slow
def test_a_model_in_float16(builds):
    seen = []
    builds_before = known.built

    def built(name, model, feeds):
        seen.append(onnx.load(model).graph.input[0].type.tensor_type.elem_type)
        return builds_before(name, model, feeds)

    known.built = built  # the fixture puts it back
    assert model_outcome("relu", dtype="float16").outcome == "built"
    assert seen == [onnx.TensorProto.FLOAT16]


@pytest.mark.slow
def test_a_model_that_is_refused(builds):
    builds.answer = ("build", "no kernel")
    verdict = model_outcome("relu")
    assert (verdict.outcome, verdict.cause) == ("build error", "not predicted") and verdict.predicted == []


@pytest.mark.slow
def test_a_model_that_lint_refuses_is_built_all_the_same(builds):
    builds.answer = ("parse", "no plug-in")
    verdict = model_outcome("nonzero", "OF_DATA", dynamic="none")
    assert (verdict.outcome, verdict.cause) == ("parse error", "predicted")
    (predicted, *_) = verdict.predicted
    assert predicted.startswith("missing-operator at ") and "models_to_sweep.py:" in predicted
    builds.answer = ("built", "")
    assert model_outcome("nonzero", "OF_DATA", dynamic="none").cause == "false finding"


def operator_outcome(key: str, **settings):
    database = f"{HERE / 'samples_to_sweep.py'}:ALL"
    routes = ("standard", "function")
    return judge(
        Task(database, key, "float32", 0),
        Settings(database=database, allow=routes, runtime=TARGET, **settings),
    )


@pytest.mark.parametrize("target", [None, TARGET])
def test_an_operator_is_built_and_not_run(builds, target):
    verdict = operator_outcome("relu", target=target)
    assert (verdict.outcome, verdict.message, verdict.onnx) == ("built", "", "")
    assert verdict.timings.keys() == {"sample", "eager", "export", "build"} and verdict.route == "standard"
    builds.answer = ("parse", "no plug-in")
    verdict = operator_outcome("relu", target=target)
    assert (verdict.outcome, verdict.predicted) == ("parse error", []) and "Relu" in verdict.onnx


def test_an_operator_runs_where_there_is_a_gpu(builds, monkeypatch):
    builds.obstacle = ""
    monkeypatch.setattr(tensorrt_rtx, "load", lambda *_, **__: (_ for _ in ()).throw(opbridge.ModelFileError("loads")))
    verdict = operator_outcome("relu")
    assert verdict.outcome == "load error" and "loads" in verdict.message and not builds.feeds


def test_a_sweep_whose_models_are_built_is_fine():
    verdicts = {"a": ModelVerdict("built"), "b": ModelVerdict("build error", "no", "not predicted")}
    rows = [of_models.row(ModelTask("timm", name), verdict) for name, verdict in verdicts.items()]
    found = of_models.Results(of_models.document({}, rows, {}, {}))
    assert found.summary() == "1 of 2 models are built, not run (50.0 %)" and not found.ok
    assert [each["outcome"] for each in found.document["summary"]["causes"]] == ["build error"]
    assert of_models.Results(of_models.document({}, rows[:1], {}, {})).ok
