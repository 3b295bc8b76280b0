"""Repairs of models with operators that only the user's runtime has."""

from __future__ import annotations

import onnx
import pytest

import opbridge

HEAD = '<ir_version: 8, opset_import: ["" : 17, "trt" : 1]>'
BODY = (
    "g (float[n, 4] x, float[4] s) => (float[n, 4] y, float[n, 4] w) {types}"
    "{ h = LayerNormalization (x, s) z = trt.Plugin <k = 3> (h) y = Relu (z) w = LayerNormalization (z, s) }"
)
TYPES = "<float[n, 4] h, float[n, 4] z>"


def model(types: str = TYPES) -> bytes:
    return onnx.parser.parse_model(HEAD + BODY.replace("{types}", types)).SerializeToString()


@pytest.mark.slow
def test_all_but_the_plug_in_is_compared(tmp_path):
    fixed = opbridge.fix(model(), "tensorrt:8.5", tmp_path / "m.onnx", provides="trt::*")
    assert fixed.left.ok and len(fixed.changes) == 2
    assert fixed.comparison.runs and fixed.comparison.ok
    assert "left out of the comparison" in fixed.summary()
    written = onnx.load(tmp_path / "m.onnx")
    assert [each.op_type for each in written.graph.node].count("Plugin") == 1
    assert [each.name for each in written.graph.input] == ["x", "s"]
    assert [each.name for each in written.graph.output] == ["y", "w"]


def test_without_the_types_around_the_plug_in_nothing_is_written(tmp_path):
    with pytest.raises(opbridge.FixError, match="could not be verified"):
        opbridge.fix(model(""), "tensorrt:8.5", tmp_path / "m.onnx", provides="trt::*")
    assert not list(tmp_path.iterdir())
