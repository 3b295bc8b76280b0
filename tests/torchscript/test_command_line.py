"""`--capture` on the command line."""

from __future__ import annotations

import json

import pytest
import torch

import opbridge
from opbridge.cli import main

SPEC = """
import torch


class Gate(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x * 2
        else:
            x = x.sum()  # of another rank, so that no other capture takes it
        return torch.special.erfcx(x)


class Deciding(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x * 2
        return torch.special.erfcx(x)


def deciding():
    return Deciding(), (torch.rand(3, 4) + 0.1,)


def build():
    return Gate(), (torch.rand(3, 4) + 0.1,)


def traced():
    return Gate(), (torch.rand(3, 4) + 0.1,), {"capture": "trace", "dynamic_shapes": {"x": {0: "batch"}}}
"""


@pytest.fixture
def spec(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gate.py").write_text(SPEC)
    return "gate.py:build"


def answer(capsys, *arguments):
    status = main([*arguments, "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_check(spec, capsys):
    status, found = answer(capsys, "check", spec, "--capture", "trace")
    assert status == 0
    assert [row["operator"] for row in found["operators"]] == ["aten::mul.Scalar", "aten::special_erfcx"]
    assert found["operators"][0]["sources"] == ["gate.py:8"]
    assert any(
        note.startswith("constant in the trace at gate.py:7, in forward (`if x.sum() > 0:`)") for note in found["notes"]
    )


@pytest.mark.slow
def test_export_and_verify(spec, capsys):
    status, found = answer(capsys, "export", spec, "-o", "gate.onnx", "--capture", "auto")
    assert status == 0 and found["verification"]["ok"]
    assert found["plan"]["notes"][0].startswith("captured by a trace, because capture='export' failed")
    status, found = answer(capsys, "verify", "gate.onnx", spec)
    assert status == 0 and found["ok"]


@pytest.mark.slow
def test_a_factory_can_ask_for_it(spec, capsys):
    status, _ = answer(capsys, "export", "gate.py:traced", "-o", "gate.onnx")
    assert status == 0
    # torch.export cannot say which dimensions vary; the file can.
    status, found = answer(capsys, "verify", "gate.onnx", "gate.py:traced")
    assert status == 0 and found["ok"]
    assert "sizes" in {run["kind"] for run in found["runs"]}


@pytest.mark.slow
def test_what_a_person_sees(spec, capsys):
    assert main(["export", spec, "-o", "gate.onnx", "--capture", "trace"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "constant in the trace at gate.py:7" in printed


@pytest.mark.slow
def test_without_it_the_model_is_refused(spec, capsys):
    status, found = answer(capsys, "export", spec, "-o", "gate.onnx")
    assert status == 1 and found["error"]["kind"] == "CaptureError"
    assert "gate.py:7" in found["error"]["message"]


@pytest.mark.slow
def test_without_it_both_sides_of_a_branch_are_carried(spec, capsys):
    status, found = answer(capsys, "export", "gate.py:deciding", "-o", "gate.onnx")
    assert status == 0 and found["verification"]["ok"]
    session = opbridge.session("gate.onnx")
    for x in (torch.rand(3, 4) + 0.1, -torch.rand(3, 4)):
        expected = torch.special.erfcx(x * 2 if x.sum() > 0 else x)
        torch.testing.assert_close(torch.from_numpy(session.run(None, {"x": x.numpy()})[0]), expected)


def test_unknown_captures_are_wrong_use(spec, capsys):
    status, found = answer(capsys, "check", spec, "--capture", "magic")
    assert status == 2 and "use 'export', 'torch.export', 'trace' or 'auto'" in found["error"]["message"]


def test_raw_has_no_use_for_it(spec, capsys):
    status, found = answer(capsys, "export", spec, "--raw", "--capture", "trace")
    assert status == 2 and "--capture" in found["error"]["message"]
