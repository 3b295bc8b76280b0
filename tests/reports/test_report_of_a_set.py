"""The report of a set of models: the whole first, and each part with its picture."""

from __future__ import annotations

import base64
import json
import re
import runpy
import zlib

import onnx
import pytest
import torch

import opbridge
from opbridge.cli import main
from opbridge.verification import part_calls

FACTORY = """
import opbridge
import torch

def double(x):
    return x * 2

def add(x, y):
    return x + y.tanh()

def missing(x):
    return torch.linalg.eigvals(x)

def run(parts, x):
    return parts.add(parts.double(x), x)

def build():
    x = torch.randn(2, 3)
    return opbridge.Parts({"double": (double, (x,)), "add": (add, (x, x + 1))}, run=run, args=(torch.randn(2, 3),))

def refused():
    x = torch.randn(3, 3)
    return opbridge.Parts({"double": (double, (x,)), "missing": (missing, (x,)), "never": (double, (x,))})
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(FACTORY)
    return tmp_path


def documents(path):
    """Those that a page holds: of the set, and of each part."""
    held = re.findall(r'id="data(?:-\d+)?">([^<]*)<', path.read_text())
    first, *rest = (json.loads(zlib.decompress(base64.b64decode(each))) for each in held[-1:] + held[:-1])
    return first, rest


def test_an_export_is_reported_as_a_whole_and_by_its_parts(folder, capsys):
    assert main(["export", "net.py:build", "-o", "out", "--report", "set.html"]) == 0
    assert "report  set.html" in capsys.readouterr().out
    whole, (double, add) = documents(folder / "set.html")
    assert whole["verdict"]["headline"] == "The exported models agree with PyTorch"
    answers = {each["question"]: each["answer"] for each in whole["answers"]}
    assert answers["Do the parts work together?"] == "Yes" and answers["Does it run?"] == "Yes"
    assert [row["name"] for row in whole["parts"]] == ["double", "add"]
    assert {each["path"] for each in whole["files"]} == {"out/double.onnx", "out/add.onnx"}
    assert {"capture", "save", "verify", "run"} <= {each["name"] for each in whole["stages"]}
    assert [each["o"] for each in add["graph"]["ops"]] == ["aten::tanh", "aten::add.Tensor"]
    assert double["subject"] == "out: double" and double["verification"]["ok"]


def test_the_part_that_stops_an_export_is_named(folder):
    parts = runpy.run_path("net.py")["refused"]()
    with pytest.raises(opbridge.MissingOperators) as caught:
        parts.export("out", allow=["standard"], report="set.html")
    assert caught.value.report is not None
    whole, shown = documents(folder / "set.html")
    assert whole["verdict"]["headline"] == "Part missing: 1 operator has no route to ONNX"
    assert "Part 'missing'" in whole["error"]["message"]
    assert [row["name"] for row in whole["parts"]] == ["double", "missing"]  # the third was not begun
    assert shown[1]["plan"]["ok"] is False


def test_a_pipeline_that_differs_is_shown(folder):
    parts = runpy.run_path("net.py")["build"]()
    model = parts.run
    parts.run = lambda given, x: model(given, x) + (type(given.add) is part_calls.PartCall)
    with pytest.raises(opbridge.VerificationError):
        parts.export("out", report="set.html")
    whole, _ = documents(folder / "set.html")
    assert whole["verdict"]["headline"] == "The whole pipeline does not agree with PyTorch"
    assert [row["state"] for row in whole["parts"]] == ["good", "good"]


@pytest.mark.slow
def test_a_set_is_checked_and_verified_with_a_report(folder):
    assert main(["check", "net.py:build", "--report", "check.html"]) == 0
    assert documents(folder / "check.html")[0]["verdict"]["headline"] == "Every operator has a route to ONNX"
    assert main(["export", "net.py:build", "-o", "out"]) == 0
    assert main(["verify", "out", "net.py:build", "--report", "verify.html"]) == 0
    assert documents(folder / "verify.html")[0]["verdict"]["state"] == "good"
    model = onnx.load("out/add.onnx")
    next(each for each in model.graph.node if each.op_type == "Tanh").op_type = "Sin"
    onnx.save(model, "out/add.onnx")
    assert main(["verify", "out", "net.py:build", "--report", "verify.html"]) == 1
    whole, (_, add) = documents(folder / "verify.html")
    assert whole["verdict"]["headline"].startswith("Part add: ") and add["verification"]["ok"] is False


def test_a_part_has_no_report_of_its_own():
    with pytest.raises(opbridge.UsageError, match="It applies to the whole set"):
        opbridge.Parts({"a": (torch.sin, (torch.randn(2),), {"report": "a.html"})})


def test_wrong_use_writes_no_report(folder):
    assert main(["export", "net.py:build", "-o", "out", "--report", "nowhere/set.html"]) == 2
    assert main(["export", "net.py:build", "-o", "net.py", "--report", "set.html"]) != 0
    assert not (folder / "out").exists()
