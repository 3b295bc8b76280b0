"""Models that do not run on random inputs are compared on given ones; a model that nothing runs is said to be one."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import opbridge
from opbridge.cli import main

RESHAPED = (
    '<ir_version: 8, opset_import: ["" : 17]> g (float[2, 6] x, int64[3] s) => (float[a, b, c] y)'
    " <float[2] w = {1, 2}> { y = Reshape (x, s) }"
)
CONTENT = onnx.parser.parse_model(RESHAPED).SerializeToString()
FEEDS = {"s": np.int64([3, 2, 2]), "x": np.arange(12, dtype=np.float32).reshape(2, 6)}

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_process")]


def test_the_error_says_how_to_give_inputs():
    with pytest.raises(opbridge.FixError, match=r"Give inputs that it accepts with --inputs FILE.npz \(inputs=\)"):
        opbridge.fix(CONTENT)


def test_given_inputs_by_name_in_order_and_in_a_file(tmp_path, capsys):
    path, inputs = tmp_path / "model.onnx", tmp_path / "inputs.npz"
    path.write_bytes(CONTENT)
    np.savez(inputs, **FEEDS)
    for given in (FEEDS, [FEEDS["x"], FEEDS["s"]], inputs):
        fixed = opbridge.fix(path, inputs=given)
        assert fixed.comparison.given and len(fixed.comparison.runs) == 1
        assert "on 1 set of given inputs" in fixed.summary()
    assert main(["fix", str(path), "--inputs", str(inputs)]) == 0
    assert "on 1 set of given inputs" in capsys.readouterr().out


def test_given_inputs_that_do_not_fit():
    with pytest.raises(opbridge.FixError, match="The original model fails on the given inputs"):
        opbridge.fix(CONTENT, inputs={**FEEDS, "s": np.int64([5, 5, 5])})
    with pytest.raises(opbridge.UsageError, match="inputs= has 1 arrays"):
        opbridge.fix(CONTENT, inputs=[FEEDS["x"]])


def test_a_model_without_findings_that_does_not_load_is_said_to_be_one(tmp_path):
    made = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "acme" : 1]> g (float[2] x) => (float[2] y) { y = acme.Foo (x) }'
    )
    fixed = opbridge.fix(made.SerializeToString(), (), tmp_path / "fixed.onnx")
    assert fixed.summary().startswith("No findings to repair, but ONNX Runtime does not load the model. ")
    assert "acme" in fixed.refused and fixed.document()["refused"] == fixed.refused


def test_what_neither_runs_is_said_of_both():
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x, string[2] s) => (float[2] y) { y = Add (x, s) }'
    fixed = opbridge.fix(onnx.parser.parse_model(text).SerializeToString())
    assert not fixed.changes and [each.rule for each in fixed.left] == ["mixed-types", "type-not-in-onnx"]
