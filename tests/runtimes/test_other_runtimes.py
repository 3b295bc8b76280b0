"""The runtimes beside ONNX Runtime, as far as they are installed: the reference evaluator always is."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import onnx
import pytest
import torch

import opbridge
from opbridge.cli import main
from opbridge.runtimes import known
from opbridge.runtimes.sessions import open_runtime


def _param(name: str):
    runtime = known.find(name)
    marks = [] if name == "reference" else [pytest.mark.slow]
    if not runtime.version():
        marks.append(pytest.mark.skip(reason=f"{name} is not installed: {runtime.INSTALL}"))
    elif why := known.obstacle(name):
        marks.append(pytest.mark.skip(reason=f"{name} cannot run here: {why}"))
    return pytest.param(name, marks=marks)


OTHERS = [_param(name) for name in known.NAMES if name != "onnxruntime"]

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[n, 3] x, float[3] b) => (float[n, 3] y, int64[n] at, bool[n, 3] above) {
  y = Add (x, b)
  at = ArgMax <axis = 1, keepdims = 0> (y)
  above = Greater (x, b)
}"""


def content(text: str = MODEL) -> bytes:
    return onnx.parser.parse_model(text).SerializeToString()


ADD = """<ir_version: 8, opset_import: ["" : 17]>
g (float[n, 3] x, float[3] b) => (float[n, 3] y) { y = Add (x, b) }"""
"""What every runtime has."""


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.linear(x).softmax(-1), x.relu()


X = torch.randn(2, 4)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    torch.manual_seed(0)
    model, path = Net().eval(), tmp_path_factory.mktemp("runtimes") / "net.onnx"
    opbridge.export(model, (X,), path, dynamic_shapes="batch", verify=False)
    return path, model


@pytest.mark.parametrize("name", OTHERS)
def test_a_model_runs(name):
    x, b = np.float32([[1, 5, 2], [7, 0, 1]]), np.float32([1, 0, 3])
    with opbridge.session(content(ADD), runtime=name) as session:
        np.testing.assert_allclose(session.run(None, {"x": x, "b": b})[0], x + b)
        np.testing.assert_allclose(session.run(["y"], {"x": x[:1], "b": b})[0], x[:1] + b)  # another size


@pytest.mark.parametrize("name", [each for each in OTHERS if each.values != ("ncnn",)])
def test_outputs_have_the_types_of_the_file(name):
    x, b = np.float32([[1, 5, 2], [7, 0, 1]]), np.float32([1, 0, 3])
    with opbridge.session(content(), runtime=name) as session:
        assert [each.name for each in session.get_inputs()] == ["x", "b"]
        assert session.get_outputs()[1].type == "tensor(int64)"
        y, at, above = session.run(None, {"x": x, "b": b})
        np.testing.assert_allclose(y, x + b)
        assert at.tolist() == [1, 0] and at.dtype == np.int64
        assert above.dtype == np.bool_ and (above == (x > b)).all()
        (again,) = session.run(["at"], {"x": x[:1], "b": b})  # another size
        assert again.tolist() == [1]


@pytest.mark.parametrize("name", OTHERS)
def test_what_cannot_be_loaded_or_run_is_said(name):
    with pytest.raises(opbridge.ModelFileError):
        opbridge.session(b"no model", runtime=name)
    with pytest.raises(opbridge.ModelFileError, match="does not exist"):
        opbridge.session("missing.onnx", runtime=name)
    text = MODEL.replace('"" : 17', '"" : 17, "mylib" : 1').replace("Add (x, b)", "mylib.foo (x, b)")
    with pytest.raises(opbridge.ModelFileError, match="mylib::foo"):
        opbridge.session(content(text), runtime=name)
    with opbridge.session(content(ADD), runtime=name) as session:
        x = np.ones((2, 3), np.float32)
        with pytest.raises(opbridge.UsageError, match="The inputs of the model are x, b"):
            session.run(None, {"x": x})
        with pytest.raises(opbridge.UsageError, match="has type float32, but float64 was given"):
            session.run(None, {"x": x, "b": np.ones(3)})
        with pytest.raises(opbridge.UsageError, match="Unknown output 'z'"):
            session.run(["z"], {"x": x, "b": x[0]})
        with pytest.raises(opbridge.RunError):
            session.run(None, {"x": x, "b": np.ones(2, np.float32)})


@pytest.mark.skipif(not known.find("ncnn").version(), reason="ncnn is not installed")
@pytest.mark.slow
def test_what_ncnn_lacks_is_named():
    fixed = MODEL.replace("[n", "[2")  # of which it is known when the model is loaded
    with pytest.raises(opbridge.ModelFileError, match=r"unsupported layers: ArgMax, torch.gt"):
        opbridge.session(content(fixed), runtime="ncnn")
    with opbridge.session(content(), runtime="ncnn") as session, pytest.raises(opbridge.RunError, match="ArgMax"):
        session.run(None, {"x": np.ones((2, 3), np.float32), "b": np.ones(3, np.float32)})
    with pytest.raises(opbridge.ModelFileError, match="does not support inputs of rank 5, such as 'x'"):
        opbridge.session(content(ADD.replace("[n, 3] x", "[n, 1, 1, 1, 3] x")), runtime="ncnn")
    with (
        opbridge.session(content(ADD), runtime="ncnn") as session,
        pytest.raises(opbridge.RunError, match="does not support empty tensors, such as .x."),
    ):
        session.run(None, {"x": np.ones((0, 3), np.float32), "b": np.ones(3, np.float32)})


def test_options_of_onnxruntime_are_refused():
    with pytest.raises(opbridge.UsageError, match="threads= is valid only for ONNX Runtime"):
        opbridge.session(content(), runtime="reference", threads=1)
    with pytest.raises(opbridge.UsageError, match="Did you mean 'reference'"):
        opbridge.session(content(), runtime="refrence")


def test_a_runtime_that_is_missing_is_said_with_the_command(monkeypatch, tmp_path):
    from opbridge.runtimes import web

    monkeypatch.setenv("OPBRIDGE_ONNXRUNTIME_WEB", str(tmp_path))
    assert web.version() == ""
    with pytest.raises(opbridge.UsageError, match="npm install --prefix .* onnxruntime-web"):
        opbridge.session(content(), runtime="web")


@pytest.mark.slow
def test_the_reference_evaluator_runs_in_a_process_of_its_own_where_that_is_asked_for():
    text = MODEL.replace("float[n, 3]", "bfloat16[n, 3]").replace("float[3]", "bfloat16[3]")
    x = np.ones((2, 3), ml_dtypes.bfloat16)
    with open_runtime("reference", content(text), opbridge.Limits(seconds=60)) as session:
        first = session.run(["y"], {"x": x, "b": x[0]})[0]
        session._child.process.kill()
        with pytest.raises(opbridge.RunError, match="crashed the process"):
            session.run(["y"], {"x": x, "b": x[0]})
        (again,) = session.run(["y"], {"x": x, "b": x[0]})
    assert first.dtype == again.dtype == ml_dtypes.bfloat16
    assert (first == again).all() and float(first[0, 0]) == 2


@pytest.mark.parametrize("name", OTHERS)
def test_a_file_is_verified_in_it(name, exported):
    path, model = exported
    found = opbridge.verify(path, model, (X,), runtime=name)
    assert found.ok and found.runtime == known.label(name)
    assert len([run for run in found.runs if run.comparisons]) > 3


def test_several_runtimes_are_shown_side_by_side(exported):
    path, model = exported
    found = opbridge.verify(path, model, (X,), runtime=["onnxruntime", "reference"])
    assert found.ok and [each.runtime.split()[0] for each in found.each] == ["onnxruntime", "reference"]
    assert [(row[1], row[-1]) for row in found.rows()] == [("yes", "matches")] * 2
    other = Net().eval()
    wrong = opbridge.verify(path, other, (X,), runtime=["onnxruntime", "reference"])
    assert not wrong.ok and [row[-1] for row in wrong.rows()] == ["differs"] * 2
    assert "the first operator that differs can be located only in ONNX Runtime" in " ".join(wrong.each[1].notes)


def test_a_runtime_that_refuses_the_file_does_not_agree(tmp_path):
    class Ranking(torch.nn.Module):
        def forward(self, x):
            return x.relu()

    path = tmp_path / "model.onnx"
    text = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
    g (float[n, 4] x) => (float[n, 4] y) { z = com.microsoft.Gelu (x) y = Relu (x) }"""
    path.write_bytes(content(text))
    found = opbridge.verify(path, Ranking(), (X,), runtime=["onnxruntime", "reference"])
    assert [(row[1], row[-1]) for row in found.rows()] == [("yes", "matches"), ("no", "refused")]
    assert not found.ok and "com.microsoft::Gelu" in str(found)
    with pytest.raises(opbridge.ModelFileError, match="com.microsoft::Gelu"):
        opbridge.verify(path, Ranking(), (X,), runtime="reference")


def test_a_file_that_is_built_and_not_run_is_not_verified(exported, monkeypatch):
    path, model = exported
    monkeypatch.setattr(known, "obstacle", lambda name: "there is no GPU" if name == "reference" else "")
    found = opbridge.verify(path, model, (X,), runtime="reference")
    assert found.ok and found.verdict == "built, not run" and not found.runs
    assert "BUILT, NOT RUN" in str(found) and "because there is no GPU" in found.summary()
    data = found.to_json()
    assert data["verdict"] == "built, not run" and data["unrun"] == "there is no GPU"
    both = opbridge.verify(path, model, (X,), runtime=["onnxruntime", "reference"])
    assert both.summary().endswith("1 of 2 runtimes agree with PyTorch, 1 built the file and did not run it")
    assert both.rows()[1][1:] == ("yes", "0", "-", "-", "built, not run")


def test_a_profile_is_for_runtimes_that_build(exported):
    path, model = exported
    with pytest.raises(opbridge.UsageError, match="profile= .* only for tensorrt-rtx, not for reference"):
        opbridge.verify(path, model, (X,), runtime="reference", profile={"batch": 2})
    with pytest.raises(opbridge.UsageError, match="profile= .* only for tensorrt-rtx, not for runtime='reference'"):
        opbridge.session(path, runtime="reference", profile={"batch": 2})


def test_a_program_is_verified_too():
    program = opbridge.export(Net().eval(), (X,), verify=False)
    assert opbridge.verify(program, runtime=["reference"]).ok


@pytest.mark.slow
def test_the_command(exported, tmp_path, capsys, monkeypatch):
    path, model = exported
    monkeypatch.chdir(tmp_path)
    torch.save(model.state_dict(), "weights.pt")
    (tmp_path / "spec.py").write_text(
        "import torch\nfrom runtimes.test_other_runtimes import Net\n"
        "def build():\n    net = Net().eval()\n    net.load_state_dict(torch.load('weights.pt'))\n"
        "    return net, (torch.rand(2, 4),)\n"
        "def other():\n    net, args = build()\n    net.linear.weight.data *= 3\n    return net, (torch.rand(2, 4),)\n"
    )
    assert main(["verify", str(path), "spec.py:build", "--runtime", "onnxruntime,reference"]) == 0
    assert "2 of 2 runtimes agree with PyTorch" in capsys.readouterr().out
    assert main(["verify", str(path), "spec.py:other", "--runtime", "reference", "--json"]) == 1
    assert [each["ok"] for each in json.loads(capsys.readouterr().out)["runtimes"]] == [False]
    assert main(["verify", str(path), "spec.py:build", "--runtime", "nothing"]) == 2
    assert "The runtimes are: onnxruntime, cuda, openvino" in capsys.readouterr().err
