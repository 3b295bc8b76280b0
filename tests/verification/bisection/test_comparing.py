"""Tests of opbridge.compare."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import opbridge
from opbridge.errors import UsageError


def _model(*nodes, inputs=("x",), outputs=("y",), dtype=TensorProto.FLOAT, shape=("n", 3), constants=()):
    values = [
        [helper.make_tensor_value_info(each, dtype, list(shape)) for each in names] for names in (inputs, outputs)
    ]
    graph = helper.make_graph([helper.make_node(*each) for each in nodes], "g", *values, list(constants))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return model.SerializeToString()


def _compare(first, second, **options):
    return opbridge.compare(first, second, isolated=False, **options)


_SIN = _model(("Sin", ["x"], ["y"]))


def test_files_that_agree_are_compared_at_several_sizes():
    found = _compare(_SIN, _SIN)
    assert found.ok and len({tuple(run.shapes["x"]) for run in found.runs}) == 4
    assert "All outputs agree on 4 sets of inputs" in str(found) and found.to_json()["ok"]


def test_outputs_that_differ_are_named_with_both_values():
    found = _compare(_SIN, _model(("Cos", ["x"], ["y"])))
    assert not found.ok and "The outputs differ" in str(found)
    assert "the first" in str(found) or "The model in memory" in str(found)
    assert "PyTorch" not in str(found)


def test_the_tolerance_is_that_of_verification():
    def shifted(by):
        constants = [numpy_helper.from_array(np.float32(by), "by")]
        return _model(("Sin", ["x"], ["s"]), ("Add", ["s", "by"], ["y"]), constants=constants)

    assert _compare(_SIN, shifted(1e-6)).ok and not _compare(_SIN, shifted(1e-2)).ok
    assert _compare(_SIN, shifted(1e-2), atol=0.1).ok


def test_other_names_are_matched_by_position_with_a_note():
    other = _model(("Sin", ["a"], ["b"]), inputs=("a",), outputs=("b",))
    found = _compare(_SIN, other)
    assert found.ok and any("matched by position: y and b" in note for note in found.notes)
    assert any("matched by position: x and a" in note for note in found.notes)


def test_outputs_in_another_order_are_matched_by_name():
    nodes = (("Sin", ["x"], ["y"]), ("Cos", ["x"], ["z"]))
    assert _compare(_model(*nodes, outputs=("y", "z")), _model(*nodes, outputs=("z", "y"))).ok


def test_another_number_of_outputs_or_inputs_is_said():
    two = _model(("Sin", ["x"], ["y"]), ("Cos", ["x"], ["z"]), outputs=("y", "z"))
    found = _compare(_SIN, two)
    assert not found.ok and "has 1 output (y)" in found.reason and "2 outputs (y, z)" in found.reason
    found = _compare(_SIN, _model(("Add", ["x", "z"], ["y"]), inputs=("x", "z")))
    assert not found.ok and "has 1 input (x)" in found.reason and "2 inputs (x, z)" in found.reason


def test_another_type_of_an_output_is_said():
    other = _model(("Sin", ["x"], ["y"]), dtype=TensorProto.DOUBLE)
    found = _compare(_SIN, other)
    assert not found.ok and "its dtype is float64 in" in str(found)


def test_given_inputs_are_used(tmp_path):
    np.savez(tmp_path / "in.npz", x=np.ones((5, 3), np.float32))
    found = _compare(_SIN, _SIN, inputs=tmp_path / "in.npz")
    assert [run.shapes for run in found.runs] == [{"x": [5, 3]}]
    with pytest.raises(UsageError, match="has 2 arrays"):
        _compare(_SIN, _SIN, inputs={"x": np.ones(3), "z": np.ones(3)})


def test_inputs_of_text_are_refused():
    text = _model(("Identity", ["x"], ["y"]), dtype=TensorProto.STRING)
    with pytest.raises(UsageError, match="no numbers"):
        _compare(text, text)


def test_initializers_that_are_inputs_in_older_files_stay_what_they_are():
    model = onnx.ModelProto.FromString(
        _model(
            ("Add", ["x", "w"], ["a"]), ("Sin", ["a"], ["y"]), constants=[numpy_helper.from_array(np.float32(2), "w")]
        )
    )
    model.ir_version, model.opset_import[0].version = 3, 8
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, []))
    other = onnx.ModelProto.FromString(model.SerializeToString())
    other.graph.node[0].op_type = "Sub"
    found = opbridge.bisect(model.SerializeToString(), other.SerializeToString(), isolated=False)
    assert found.culprit.first.operator == "Sub" and found.culprit.alone
