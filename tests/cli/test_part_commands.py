"""The commands for a set of parts, and for what was recorded."""

from __future__ import annotations

import json

import pytest

from opbridge.cli import main

FACTORIES = """
import torch

import opbridge


def double(x):
    return x * 2


def add(x, y):
    return x + y.tanh()


def run(parts, x):
    return parts.add(parts.double(x), x)


def build():
    x = torch.randn(2, 3)
    return opbridge.Parts({"double": (double, (x,)), "add": (add, (x, x + 1))}, run=run, args=(torch.randn(2, 3),))


def recorded():
    model = torch.nn.Linear(4, 4)
    with opbridge.record(model) as calls:
        for size in (2, 3):
            model(torch.randn(size, 4))
    return calls


def nothing():
    with opbridge.record(torch.nn.Linear(4, 4)) as calls:
        pass
    return calls
"""


@pytest.fixture(autouse=True)
def _spec(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(FACTORIES)


def document(capsys):
    return json.loads(capsys.readouterr().out)


def test_check(capsys):
    assert main(["check", "net.py:build", "--opset", "18", "--json"]) == 0
    found = document(capsys)
    assert found["ok"] and list(found["parts"]) == ["double", "add"]
    assert found["parts"]["add"]["opset"] == 18
    assert main(["check", "net.py:build"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("part 'double'\n") and "\npart 'add'\n" in shown and "aten::tanh" in shown


@pytest.mark.slow
def test_export_and_verify(tmp_path, capsys):
    assert main(["export", "net.py:build", "-o", "set", "--dynamic", "batch", "--json"]) == 0
    found = document(capsys)
    assert [each["path"] for each in found["files"]] == ["set/double.onnx", "set/add.onnx"]
    assert found["parts"]["add"]["verification"]["ok"] and found["verification"]["ok"]
    assert "batch=3" in [run["label"] for run in found["parts"]["double"]["verification"]["runs"]]
    assert main(["verify", "set", "net.py:build", "--json"]) == 0
    found = document(capsys)
    assert found["ok"] and list(found["parts"]) == ["double", "add"] and found["run"]["ok"]
    assert main(["verify", "set", "net.py:build"]) == 0
    assert capsys.readouterr().out.count("verified: ") == 3

    assert main(["export", "net.py:build", "-o", "set", "--no-verify"]) == 0
    shown = capsys.readouterr().out
    assert "set/double.onnx" in shown and "opbridge verify set net.py:build" in shown


@pytest.mark.slow
def test_a_file_that_differs(tmp_path, capsys):
    assert main(["export", "net.py:build", "-o", "set", "--no-verify"]) == 0
    (tmp_path / "net.py").write_text(FACTORIES.replace("y.tanh()", "y.sin()"))
    assert main(["verify", "set", "net.py:build", "--json"]) == 1
    capsys.readouterr()
    (tmp_path / "set" / "add.onnx").write_bytes(b"none")
    assert main(["verify", "set", "net.py:build"]) == 2
    assert "Part 'add': " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["export", "net.py:build", "-o", "set", "--inputs", "x.npz"], "--inputs is valid only for one model"),
        (["export", "net.py:build", "--raw"], "--raw is valid only for one model"),
        (["export", "net.py:build", "-o", "set.onnx"], "is the name of a file, but a set of parts"),
        (["verify", "none", "net.py:build"], "none is not a folder"),
        (["check", "net.py:nothing"], "No call of Linear was recorded"),
    ],
)
def test_wrong_use(arguments, said, capsys):
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_a_recording(capsys):
    assert main(["export", "net.py:recorded", "-o", "net.onnx", "--json"]) == 0
    labels = [run["label"] for run in document(capsys)["verification"]["runs"]]
    assert "call 2" in labels and "batch=1" in labels
    assert main(["verify", "net.onnx", "net.py:recorded", "--json"]) == 0
    assert "call 2" in [run["label"] for run in document(capsys)["runs"]]
    assert main(["check", "net.py:recorded", "--json"]) == 0
