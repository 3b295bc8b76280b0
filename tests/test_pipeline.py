"""check and export, end to end."""

from __future__ import annotations

import contextlib
import io
import re
from typing import Any

import onnx
import pytest
import torch
from helpers.matching import assert_same_results
from helpers.running import run, run_session
from onnxscript import opset18 as op

import opbridge


class Recorder:
    def __init__(self):
        self.stages, self.details = [], []

    @contextlib.contextmanager
    def stage(self, name):
        self.stages.append(name)
        yield self

    def detail(self, text):
        self.details.append(text)


def _written_to(y, half, places):
    y = y.clone()
    y[places] = half
    return y


def _model():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).eval()


def test_export_writes_a_verified_file_that_runs(tmp_path):
    model, x = _model(), torch.randn(3, 4)
    program = opbridge.export(model, (x,), tmp_path / "model.onnx", dynamic_shapes={"input": {0: "batch"}})
    assert program.verification.ok
    assert program.files == [tmp_path / "model.onnx"]
    assert set(program.timings) == {"capture", "plan", "translate", "save", "verify"}
    onnx.checker.check_model(str(tmp_path / "model.onnx"), full_check=True)
    session = opbridge.session(tmp_path / "model.onnx")
    other = torch.randn(7, 4)
    assert_same_results(run_session(session, (other,)), model, (other,), equal_nan=False)
    assert opbridge.verify(tmp_path / "model.onnx", model, (x,)).ok


def test_the_stages_are_told_in_order(tmp_path):
    recorder = Recorder()
    opbridge.export(_model(), torch.randn(1, 4), tmp_path / "model.onnx", progress=recorder)
    assert recorder.stages == ["capture", "plan", "translate", "save", "verify"]
    assert len(recorder.details) == 5


def test_a_wrong_translation_is_found_and_named(tmp_path):
    table = {"aten::relu": lambda x: op.LeakyRelu(x, alpha=0.1)}
    with pytest.raises(opbridge.VerificationError) as caught:
        opbridge.export(_model(), torch.randn(16, 4), tmp_path / "model.onnx", custom_translation_table=table)
    assert not caught.value.verification.ok
    assert "aten::relu" in str(caught.value)
    assert caught.value.exit_status == 1


@pytest.mark.slow
def test_a_file_that_failed_is_kept_under_another_name_and_what_stood_there_stays(tmp_path):
    path, failed = tmp_path / "model.onnx", tmp_path / "model.failed.onnx"
    table = {"aten::relu": lambda x: op.LeakyRelu(x, alpha=0.1)}
    model = torch.nn.Sequential(torch.nn.Linear(4, 512), torch.nn.ReLU(), torch.nn.Linear(512, 2)).eval()
    args = torch.randn(16, 4)
    with pytest.raises(opbridge.VerificationError, match=f"saved as {failed} for inspection; {path}") as caught:
        opbridge.export(model, args, path, custom_translation_table=table, external_data=True)
    assert caught.value.file == failed
    [model_file, data] = sorted(tmp_path.iterdir())
    assert model_file == failed and re.fullmatch(r"model\.failed\.onnx\.[0-9a-f]{8}\.data", data.name)
    kept = onnx.load(failed)
    assert "differs on 3 of 3 runs" in {each.key: each.value for each in kept.metadata_props}["opbridge.failed"]
    assert not opbridge.verify(failed, model, args).ok
    # An export that is verified takes it away.
    assert opbridge.export(model, args, path).path == path
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]
    before = path.read_bytes()
    with pytest.raises(opbridge.VerificationError, match="is unchanged"):
        opbridge.export(model, args, path, custom_translation_table=table)
    assert path.read_bytes() == before
    # A file of this name that no export wrote is nobody's business.
    failed.write_bytes(before)
    opbridge.export(model, args, path)
    assert failed.read_bytes() == before


def test_a_stream_gets_nothing_that_failed():
    table = {"aten::relu": lambda x: op.LeakyRelu(x, alpha=0.1)}
    stream = io.BytesIO()
    with pytest.raises(opbridge.VerificationError):
        opbridge.export(_model(), torch.randn(16, 4), stream, custom_translation_table=table)
    assert stream.getvalue() == b""


@pytest.mark.slow
def test_tolerances_are_given_at_export_too(tmp_path):
    table = {"aten::relu": lambda x: op.LeakyRelu(x, alpha=0.001)}
    with pytest.raises(opbridge.VerificationError, match="pass rtol= and atol="):
        opbridge.export(_model(), torch.randn(16, 4), custom_translation_table=table)
    program = opbridge.export(_model(), torch.randn(16, 4), custom_translation_table=table, rtol=0.1, atol=0.1)
    assert program.verification.ok and "given" in program.verification.outputs[0].worst.tolerance.origin


def test_without_verification_a_wrong_translation_is_not_found():
    table = {"aten::relu": lambda x: op.LeakyRelu(x, alpha=0.1)}
    program = opbridge.export(_model(), torch.randn(16, 4), custom_translation_table=table, verify=False)
    assert program.verification is None


def test_a_failed_export_leaves_what_was_there(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"before")
    with pytest.raises(opbridge.MissingOperators):
        opbridge.export(_model(), torch.randn(1, 4), path, allow=())
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_path_that_cannot_be_written_is_said_before_the_work(tmp_path):
    recorder = Recorder()
    for path, said in ((tmp_path, "is a folder"), (tmp_path / "none" / "model.onnx", "does not exist")):
        with pytest.raises(opbridge.SaveError, match=said):
            opbridge.export(_model(), torch.randn(1, 4), path, progress=recorder)
    assert not recorder.stages


def test_an_exported_program_and_a_function_are_taken_too():
    x = torch.randn(2, 4)
    assert opbridge.export(torch.export.export(_model(), (x,)), ()).verification.ok
    assert opbridge.export(lambda a, b: a @ b, (x, torch.randn(4, 3))).verification.ok


def test_check_raises_nothing_and_exports_nothing():
    plan = opbridge.check(_model(), torch.randn(1, 4))
    assert plan.ok
    assert [row.operator for row in plan.rows] == ["aten::linear", "aten::relu"]


@pytest.mark.parametrize(
    ("model", "args", "said"),
    [
        (lambda x: torch.nn.functional.linear(x, torch.ones(2, 4)), (torch.ones(3, 4).double(),), "same dtype"),
        (_written_to, (torch.zeros(3, 4), torch.ones(2, 4).half(), torch.tensor([0, 1])), "dtypes match"),
        (lambda x: torch.bmm(x, x.double()), (torch.ones(2, 3, 3),), "expected scalar type|same dtype"),
    ],
    ids=["linear", "index_put", "bmm"],
)
def test_a_model_that_fails_in_pytorch_is_said_to_with_its_own_words(model, args, said):
    for function in (opbridge.check, opbridge.export):
        with pytest.raises(opbridge.UsageError, match=said) as caught:
            function(model, args)
        assert str(caught.value).startswith("The model itself fails on these inputs in plain PyTorch")
        assert "test_pipeline.py:" in str(caught.value) and ".." not in str(caught.value)


def test_an_operator_without_a_kernel_is_no_failure_of_the_model():
    library = torch.library.Library("pipelinetest", "FRAGMENT")
    library.define("nowhere(Tensor t) -> Tensor")
    library.impl("nowhere", torch.empty_like, "Meta")
    assert [
        row.operator for row in opbridge.check(lambda x: torch.ops.pipelinetest.nowhere(x), (torch.ones(3),)).missing
    ] == ["pipelinetest::nowhere"]


def test_functions_of_onnx_are_called_and_defined():
    import onnxscript

    domain = onnxscript.values.Opset("test.functions", 1)

    @onnxscript.script(domain)
    def Twice(X):
        return op.Add(X, X)

    program = opbridge.export(
        torch.relu,
        (torch.randn(3),),
        custom_translation_table={"aten::relu": Twice},
        custom_opsets={"test.functions": 3},
        verify=False,
    )
    assert program.plan.rows[0].route == "function"
    assert [node.domain for node in program.model.graph] == ["test.functions"]
    assert [identifier[:2] for identifier in program.model.functions] == [("test.functions", "Twice")]
    assert program.model.opset_imports["test.functions"] == 3
    (got,) = run(program, (torch.ones(3),))
    assert got.tolist() == [2, 2, 2]


@pytest.mark.slow
def test_our_translations_serve_the_stock_exporter(tmp_path):
    """What opbridge corrects is corrected there too: a variance over one element is nan, and the stock file says 0."""
    import onnxruntime

    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.std(x, dim=-1)

    x = torch.randn(3, 1)
    stock = torch.onnx.export(
        Model(), (x,), dynamo=True, custom_translation_table=opbridge.translation_table(), verbose=False
    )
    session = onnxruntime.InferenceSession(stock.model_proto.SerializeToString())
    (got,) = run_session(session, (x,))
    assert all(value != value for value in got.tolist())


@pytest.mark.slow
def test_our_translations_pass_over_devices_in_the_stock_exporter():
    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.conv2d(x, torch.ones(2, 4, 2, 2))

    table = opbridge.translation_table()
    stock = torch.onnx.export(
        Model(), (torch.randn(1, 4, 4, 4),), dynamo=True, custom_translation_table=table, verbose=False
    )
    assert stock.model_proto.graph.node


def test_another_way_to_capture_is_refused():
    with pytest.raises(opbridge.UsageError, match="capture='magic'"):
        opbridge.export(_model(), torch.randn(1, 4), capture="magic")


@pytest.mark.parametrize("option", [{"rtol": 1e-3}, {"atol": 1e-3}, {"inputs": [(torch.ones(2),)]}])
def test_options_of_a_verification_that_is_switched_off_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(opbridge.UsageError, match=rf"{next(iter(option))}= would have no effect"):
        opbridge.export(torch.relu, (torch.ones(2),), verify=False, **option)
