"""`opbridge convert`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from opbridge.cli import main


@pytest.fixture
def model(tmp_path: Path) -> Path:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])
    nodes = [
        helper.make_node("Squeeze", ["x", "axes"], ["s"], name="squeeze"),
        helper.make_node("Erf", ["s"], ["y"], name="erf"),
    ]
    axes = numpy_helper.from_array(np.asarray([1], np.int64), "axes")
    made = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y], [axes]), opset_imports=[helper.make_opsetid("", 18)]
    )
    made.ir_version = 8
    onnx.save(made, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


@pytest.mark.slow
def test_convert(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = model.with_name("older.onnx")
    assert main(["convert", str(model), "--opset", "11", "-o", str(output)]) == 0
    said = capsys.readouterr().out
    assert "axes are an attribute" in said and "The results agree in ONNX Runtime" in said and "older.onnx" in said
    assert onnx.load(output).opset_import[0].version == 11


@pytest.mark.slow
def test_refusal(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = model.with_name("older.onnx")
    assert main(["convert", str(model), "--opset", "8", "-o", str(output), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [(each["operator"], each["needed"]) for each in document["refusals"]] == [("Erf", 9)]
    assert not output.exists()
