"""What a report says, and when it is written."""

from __future__ import annotations

import base64
import json
import os
import re
import zlib

import onnx_ir as ir
import pytest
import torch

import opbridge
from opbridge.cli import main
from opbridge.reports.of_file import picture_of_model
from opbridge.reports.report import Report

MODEL = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x):
        x = self.layer(x)
        return torch.nn.functional.gelu(x)

def build():
    return Net().eval(), (torch.randn(5, 4),), {"dynamic_shapes": ({0: "batch"},)}

def missing():
    return lambda x: torch.linalg.eigvals(x), (torch.randn(4, 4),)
"""


class Unknown:
    """What a model may not return."""


def data(path):
    """The document that a page holds."""
    held = re.search(r'id="data">([^<]*)<', path.read_text())
    return json.loads(zlib.decompress(base64.b64decode(held[1])))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(MODEL)
    return tmp_path


def ops_of(graph):
    return {op["n"]: op for op in graph["ops"]}


def test_a_report_of_an_export_says_what_every_operator_became(folder, capsys):
    assert main(["export", "net.py:build", "-o", "net.onnx", "--report", "net.html"]) == 0
    assert "report     net.html" in capsys.readouterr().out
    found = data(folder / "net.html")
    assert found["verdict"]["state"] == "good"
    assert [each["answer"] for each in found["answers"]][:3] == ["Yes", "Yes", "Nothing else"]
    assert [each["name"] for each in found["stages"]] == ["capture", "plan", "translate", "save", "verify"]
    assert all(each["peak"] > 1e6 and each["seconds"] > 0 for each in found["stages"])
    graph = found["graph"]
    linear, gelu = ops_of(graph)["linear"], ops_of(graph)["gelu"]
    assert graph["modules"][linear["m"]] == "layer" and graph["classes"]["layer"] == "Linear"
    assert [graph["nodes"][each][0] for each in linear["x"]] == ["Gemm"]
    assert linear["q"] == gelu["i"] and graph["values"][gelu["q"][0]] == ["gelu", "float32 [batch, 3]"]
    assert [name for name, _ in linear["w"]] == ["layer.weight", "layer.bias"]
    file, line, function, code = graph["frames"][gelu["f"][0]]
    assert (file, function, code) == ("net.py", "forward", "return torch.nn.functional.gelu(x)")
    first, lines = graph["code"][file][0]
    assert lines[line - first].strip() == code
    assert graph["inputs"] == linear["i"] and graph["outputs"] == gelu["q"]
    errors = found["verification"]["runs"][0]["errors"][0]
    assert sum(errors["spread"]) == errors["elements"] == 15


def test_a_report_is_written_where_operators_are_missing(folder, capsys):
    assert main(["export", "net.py:missing", "-o", "net.onnx", "--report", "net.html", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["report"] == "net.html"
    found = data(folder / "net.html")
    assert found["error"]["kind"] == "MissingOperators"
    assert "aten::linalg_eigvals" in found["verdict"]["line"]
    assert ops_of(found["graph"])["linalg_eigvals"]["s"] == "missing"
    assert not (folder / "net.onnx").exists()


def test_a_model_that_cannot_be_captured_is_reported(folder):
    with pytest.raises(opbridge.CaptureError) as caught:
        opbridge.check(lambda x: (x + 1, Unknown()), (torch.randn(3),), report="net.html")
    assert caught.value.report is not None
    found = data(folder / "net.html")
    assert (found["graph"], found["error"]["kind"]) == (None, "CaptureError")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("nowhere/x.html", "The folder nowhere does not exist"),
        (".", ". is a folder"),
        ("report.txt", "Give a name that ends in .html"),
    ],
)
def test_where_no_page_can_be_written_is_said_first(folder, capsys, path, said):
    assert main(["check", "net.py:build", "--report", path]) == 2
    assert said in capsys.readouterr().err
    assert main(["targets", "--html", path]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_not_writable_is_said_first(folder, capsys):
    (folder / "locked").mkdir(mode=0o500)
    assert main(["check", "net.py:build", "--report", "locked/x.html"]) == 2
    assert "cannot be written to" in capsys.readouterr().err


def test_what_stood_there_is_replaced_whole_or_not_at_all(folder, monkeypatch):
    (folder / "net.html").write_text("before")
    monkeypatch.setattr("os.replace", _full)
    with pytest.raises(opbridge.SaveError, match="No space left"):
        opbridge.check(torch.sin, (torch.randn(3),), report="net.html")
    assert (folder / "net.html").read_text() == "before"
    assert sorted(each.name for each in folder.iterdir()) == ["net.html", "net.py"]


def _full(*_):
    raise OSError(28, "No space left on device")


def test_wrong_use_writes_no_report(folder):
    with pytest.raises(opbridge.UsageError):
        opbridge.export(torch.sin, (torch.randn(3),), opset_version=3, report="net.html")
    assert not (folder / "net.html").exists()


@pytest.mark.slow
def test_reports_of_files_say_what_was_found_and_done(folder):
    assert main(["export", "net.py:build", "-o", "net.onnx"]) == 0
    assert main(["verify", "net.onnx", "net.py:build", "--report", "verify.html"]) == 0
    found = data(folder / "verify.html")
    assert found["verdict"]["headline"] == "The file agrees with PyTorch"
    assert [op["o"] for op in found["graph"]["ops"]] == ["aten::linear", "aten::gelu"]
    assert main(["lint", "net.onnx", "-t", "tensorrt:8.5", "--report", "lint.html"]) == 1
    found = data(folder / "lint.html")
    assert found["verdict"]["state"] == "bad" and found["findings"]["findings"]
    assert main(["fix", "net.onnx", "-t", "tensorrt:8.5", "-o", "fixed.onnx", "--report", "fix.html"]) == 0
    found = data(folder / "fix.html")
    assert found["verdict"]["state"] == "good" and found["fixed"]["changes"]


def test_a_trace_is_drawn_from_its_onnx_model(folder):
    opbridge.export(
        torch.nn.Sequential(torch.nn.Linear(2, 2)), (torch.randn(1, 2),), capture="trace", report="net.html"
    )
    assert "aten::linear" in {op["o"] for op in data(folder / "net.html")["graph"]["ops"]}


def test_the_sides_of_a_decision_stand_in_it(folder):
    def model(x):
        return x.sin() if x.sum() > 0 else x.cos()

    opbridge.export(model, (torch.ones(3),), report="net.html")
    graph = data(folder / "net.html")["graph"]
    ops = graph["ops"]
    decision = next(number for number, op in enumerate(ops) if op["o"] == "higher_order::cond")
    sides = {op["o"]: op["b"] for op in ops if op.get("p") == decision}
    assert (sides["aten::sin"], sides["aten::cos"]) == ("if true", "if false")
    inner = {op["o"]: [graph["nodes"][each][0] for each in op.get("x", ())] for op in ops if op.get("p") == decision}
    assert (inner["aten::sin"], inner["aten::cos"]) == (["Sin"], ["Cos"])


def test_modules_are_read_from_what_other_exporters_wrote():
    model = ir.from_onnx_text(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] z) { y = Relu (x) z = Neg (y) }'
    )
    model.graph[0].name, model.graph[1].name = "/layer1/layer1.0/relu/Relu", "Neg_1"
    found = picture_of_model(model).document()
    assert [found["modules"][op["m"]] for op in map(_with_module, found["ops"])] == ["layer1.0.relu", ""]


def _with_module(op):
    return {"m": 0} | op


def test_names_from_a_file_are_text_in_the_page():
    evil = "</script><script>alert(1)</script>"
    report = Report("lint", evil, findings={"ok": True, "targets": [], "remarks": [evil], "findings": []})
    page = report.page()
    assert evil not in page and "&lt;/script&gt;" in page


def test_a_page_loads_nothing():
    page = Report("lint", "x", findings={"ok": True, "targets": [], "remarks": [], "findings": []}).page()
    assert "default-src 'none'" in page
    assert not re.search(r"""(?:src|href)=["'](?!#|data:)""", page)
