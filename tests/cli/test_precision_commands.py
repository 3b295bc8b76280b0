"""`opbridge cast`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from opbridge.cli import main


@pytest.fixture
def model(tmp_path: Path) -> Path:
    text = """<ir_version: 9, opset_import: ["" : 19]>
    g (float[4] x) => (float[4] y) <float k = {60000}> { a = Mul (x, k)  b = Div (a, k)  y = Relu (b) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


@pytest.mark.slow
def test_cast(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = model.with_name("half.onnx")
    assert main(["cast", str(model), "--to", "float16", "--keep-io", "-o", str(output)]) == 0
    said = capsys.readouterr().out
    assert "in float32 because" in said and "float16 ends at 65504" in said
    assert "1 of 3 nodes with float32 values compute in float16" in said and f"Written: {output}" in said
    assert output.exists()


@pytest.mark.slow
def test_inputs_and_document(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(model.with_name("inputs.npz"), x=np.full(4, 1e-2, np.float32))
    inputs = str(model.with_name("inputs.npz"))
    assert main(["cast", str(model), "--inputs", inputs, "--keep", "Relu", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] and document["nodes"] == {"cast": 2, "kept": 1} and document["files"] == []
    assert [(each["operator"], each["kind"]) for each in document["kept"]] == [("Relu", "asked")]


@pytest.mark.slow
def test_inputs_of_a_spec(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "spec.py").write_text("import torch\ndef build():\n    return torch.nn.Identity(), (torch.ones(4),)\n")
    assert main(["cast", str(model), "--inputs", f"{tmp_path / 'spec.py'}:build", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["nodes"] == {"cast": 3, "kept": 0}


@pytest.mark.slow
def test_refusals(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cast", str(model), "--to", "int8"]) == 2
    assert "Use float16 or bfloat16" in capsys.readouterr().err
    text = '<ir_version: 9, opset_import: ["" : 19]> g (int64[4] x) => (int64[4] y) { y = Neg (x) }'
    onnx.save(onnx.parser.parse_model(text), model)
    assert main(["cast", str(model), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "PrecisionError"
