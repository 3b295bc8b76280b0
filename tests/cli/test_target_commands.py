"""The commands lint and targets, as a user types them."""

from __future__ import annotations

import json

import onnx
import pytest

from opbridge.cli import main

MODEL = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 5000] x) => (float[n, 4000] v)'
    " <int64[1] k = {4000}> { v, i = TopK (x, k) }"
)
OWN = """
name = "mychip"
title = "My chip"
versions = ["1.0", "2.0"]

[[fact]]
kind = "missing"
until = "1.0"
operators = ["TopK"]
source = "published: the chip's manual, page 7"
"""


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(MODEL, "model.onnx")
    (tmp_path / "mychip.toml").write_text(OWN)
    return "model.onnx"


def test_findings_are_printed_and_exit_with_1(path, capsys):
    assert main(["lint", path, "--target", "tensorrt:10.1"]) == 1
    said = capsys.readouterr().out
    assert "error  too-large  TopK" in said
    assert "Stay below the limit" in said
    assert said.endswith("1 error in model.onnx for tensorrt:10.1.\n")


def test_without_a_finding_the_exit_status_is_0(path, capsys):
    assert main(["lint", path]) == 0
    assert capsys.readouterr().out == "No findings in model.onnx for ONNX.\n"
    assert main(["lint", path, "--target", "tensorrt:10.1", "--ignore", "too-large"]) == 0


def test_a_target_of_ones_own(path, capsys):
    assert main(["lint", path, "-t", "mychip.toml:1.0"]) == 1
    assert "The target does not support the operator TopK." in capsys.readouterr().out
    assert main(["lint", path, "-t", "mychip.toml"]) == 0


def test_several_targets_stand_side_by_side(path, capsys):
    assert main(["lint", path, "-t", "mychip.toml:1.5,tensorrt:10.3"]) == 1
    said = capsys.readouterr().out
    assert "mychip 1.5 is treated as 1.0, the nearest older version" in said
    assert "error  mychip:1.0     missing-operator  TopK" in said
    assert "error  tensorrt:10.1  too-large         TopK" in said


@pytest.mark.parametrize("form", ["--json", "--sarif"])
def test_forms_for_programs(path, capsys, form):
    assert main(["lint", path, "-t", "tensorrt:10.1", form]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is False if form == "--json" else document["version"] == "2.1.0"


def test_annotations(path, capsys):
    assert main(["lint", path, "-t", "tensorrt:10.1", "--github"]) == 1
    assert capsys.readouterr().out.startswith("::error file=model.onnx,title=too-large::")


def test_rules_are_explained(capsys):
    assert main(["lint", "--explain", "too-large"]) == 0
    assert capsys.readouterr().out.startswith("too-large: A number that is above the target's limit.")
    assert main(["lint", "--explain", "all"]) == 0
    assert "mixed-types:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Missing argument 'MODEL.onnx'"),
        (["absent.onnx"], "The file absent.onnx does not exist"),
        (["model.onnx", "-t", "tensort"], "Did you mean 'tensorrt'?"),
        (["model.onnx", "-t", "tensorrt:7.0"], "older than all versions"),
        (["model.onnx", "--json", "--sarif"], "mutually exclusive"),
        (["model.onnx", "--explain", "nothing"], "Unknown rule 'nothing'"),
        (["mychip.toml"], "cannot be read as an ONNX model"),
    ],
)
def test_wrong_use(path, capsys, arguments, said):
    assert main(["lint", *arguments]) in (1, 2)
    captured = capsys.readouterr()
    assert said in captured.out + captured.err


@pytest.mark.slow
def test_targets_are_listed_with_where_each_fact_is_known_from(path, capsys):
    assert main(["targets"]) == 0
    assert "tensorrt" in capsys.readouterr().out
    assert main(["targets", "tensorrt:10.1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["opsets"]["newest"] == 20
    assert all(each["source"].startswith(("published:", "measured:", "asked:")) for each in document["facts"])
    assert main(["targets", "mychip.toml:1.0"]) == 0
    assert "the chip's manual, page 7" in capsys.readouterr().out


NORM = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 3] x, float[3] s) => (float[n, 3] y)'
    " { y = LayerNormalization (x, s) }"
)


def test_other_releases_of_onnxruntime_and_what_it_is_asked_are_said_in_words(path, capsys):
    assert main(["targets"]) == 0
    (line,) = [each for each in capsys.readouterr().out.splitlines() if each.startswith("onnxruntime ")]
    assert "1.11 to " in line
    assert main(["targets", "onnxruntime"]) == 0
    assert "<function" not in capsys.readouterr().out
    assert main(["targets", "onnxruntime:1.21"]) == 0
    said = capsys.readouterr().out
    assert "onnxruntime 1.21 is treated as 1.20" in said and said.endswith("No facts are known about this target.\n")
    assert main(["targets", "ncnn"]) == 0
    assert "form (warning)" in capsys.readouterr().out


@pytest.mark.slow
def test_without_a_file_to_write_a_repair_says_so(path, capsys):
    assert main(["fix", path, "--target", "tensorrt:10.1"]) == 0
    assert capsys.readouterr().out.endswith("No file was written. Add -o FILE.onnx to write one.\n")


@pytest.mark.slow
def test_a_model_is_repaired(path, tmp_path, capsys):
    onnx.save(NORM, "norm.onnx")
    assert main(["fix", "norm.onnx", "-t", "tensorrt:8.5", "-o", "fixed.onnx", "--diff"]) == 0
    said = capsys.readouterr().out
    assert "replaced LayerNormalization by" in said
    assert "-y = LayerNormalization (x, s)" in said
    assert said.endswith("Written: fixed.onnx\n")
    assert main(["lint", "fixed.onnx", "-t", "tensorrt:8.5"]) == 0


def test_what_is_left_is_said(path, capsys):
    assert main(["fix", path, "-t", "mychip.toml:1.0"]) == 1
    said = capsys.readouterr().out
    assert "Left:" in said and "missing-operator" in said and "No repair was made. Remaining: " in said


NET = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return {}

def build():
    return Net(), (torch.rand(1, 20),)
"""


@pytest.mark.slow
def test_export_for_a_target_says_what_was_repaired_and_what_stays(path, tmp_path, capsys):
    (tmp_path / "net.py").write_text(NET.format("torch.nn.functional.layer_norm(x, (20,)), x.nonzero()"))
    assert main(["export", "net.py:build", "-o", "net.onnx", "--target", "tensorrt:8.5"]) == 0
    said = capsys.readouterr().out
    assert "tensorrt:8.5: missing-operator 1 repaired; 1 warning" in said
    assert "data-dependent-shape at net.py:6" in said
    assert onnx.load("net.onnx").opset_import[0].version == 17
    assert main(["export", "net.py:build", "-o", "net.onnx", "--target", "tensorrt:8.5", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [each["operator"] for each in document["repairs"]] == ["LayerNormalization"]
    assert [each["rule"] for each in document["findings"]["findings"]] == ["data-dependent-shape"]


def test_export_of_what_the_target_does_not_take(path, tmp_path, capsys):
    (tmp_path / "net.py").write_text(NET.format("x.topk(2)"))
    assert main(["export", "net.py:build", "-o", "net.onnx", "--target", "mychip.toml:1.0"]) == 1
    said = capsys.readouterr().err
    assert (
        "missing-operator at net.py:6: The target does not support the operator TopK." in said
        and "net.failed.onnx" in said
    )
    assert not (tmp_path / "net.onnx").exists() and (tmp_path / "net.failed.onnx").exists()
    assert main(["export", "net.py:build", "-o", "net.onnx", "--target", "mychip.toml:1.0", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["error"]["kind"] == "TargetError" and document["file"] == "net.failed.onnx"
    assert [each["operator"] for each in document["findings"]["findings"]] == ["TopK"]
