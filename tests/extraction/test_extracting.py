"""Tests of opbridge.extract."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import opbridge
from opbridge.errors import ModelFileError, UsageError

_WEIGHT = np.arange(16, dtype=np.float32).reshape(4, 4)


def _body(name, *nodes):
    return helper.make_graph(
        list(nodes), name, [], [helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, None)]
    )


def _model():
    """Two products, an If whose branches take values from outside, a function, and a second output."""
    function = helper.make_function(
        "my",
        "Twice",
        ["i"],
        ["o"],
        [helper.make_node("Add", ["i", "i"], ["o"], name="inner")],
        [helper.make_opsetid("", 21)],
    )
    yes = _body("yes", helper.make_node("Mul", ["a", "b"], ["yes_y"], name="in_branch"))
    no = _body("no", helper.make_node("Neg", ["a"], ["no_y"]))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
        helper.make_node("MatMul", ["a", "w"], ["b"], name="second"),
        helper.make_node("If", ["c"], ["d"], name="choose", then_branch=yes, else_branch=no),
        helper.make_node("Twice", ["d"], ["e"], name="call", domain="my"),
        helper.make_node("Sin", ["e"], ["y"], name="last"),
        helper.make_node("Cos", ["a"], ["z"], name="aside"),
    ]
    nodes[0].metadata_props.add(key="opbridge.source", value="net.py:3")
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4]),
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
    ]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in "yz"]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(_WEIGHT, "w")])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("my", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=[function])
    model.metadata_props.add(key="author", value="somebody")
    return model


def _extract(**options):
    return opbridge.extract(_model(), isolated=False, **options)


def _proto(found):
    import onnx_ir as ir

    return ir.to_proto(found.model)


def test_a_node_has_its_inputs_weights_and_metadata():
    found = _extract(node="second")
    assert (found.nodes, found.of) == (1, 6)
    assert found.inputs == ["a: float32 [n, 4]"] and found.outputs == ["b: float32 [n, 4]"]
    model = _proto(found)
    onnx.checker.check_model(model, full_check=True)
    assert [each.name for each in model.graph.initializer] == ["w"] and not model.functions
    assert {each.key: each.value for each in model.metadata_props} == {"author": "somebody"}
    assert _proto(_extract(node="first")).graph.node[0].metadata_props[0].value == "net.py:3"


def test_a_node_is_named_by_its_output_too():
    assert _extract(node="b").outputs == ["b: float32 [n, 4]"]


def test_a_node_with_bodies_takes_what_they_capture():
    found = _extract(node="choose")
    assert [each.partition(":")[0] for each in found.inputs] == ["c", "a", "b"]
    onnx.checker.check_model(_proto(found), full_check=True)


def test_a_part_between_values_gives_what_the_model_gives():
    x = np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)
    c = np.array(True)
    whole = _proto(_extract(to=["y", "a", "d"])).SerializeToString()
    y, a, d = onnxruntime.InferenceSession(whole).run(None, {"x": x, "c": c})
    part = _extract(from_="d", to="y")
    assert part.nodes == 2 and part.inputs == ["d: float32 [n, 4]"]
    model = _proto(part)
    assert [each.name for each in model.functions] == ["Twice"]
    np.testing.assert_array_equal(onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"d": d})[0], y)
    part = _extract(from_="second", to="choose")  # reads a, and gives d; c is an input besides
    assert part.nodes == 2 and [each.partition(":")[0] for each in part.inputs] == ["a", "c"]
    found = onnxruntime.InferenceSession(_proto(part).SerializeToString()).run(None, {"a": a, "c": c})
    np.testing.assert_array_equal(found[0], d)


def test_a_beginning_alone_reaches_the_outputs_that_depend_on_it():
    assert [each.partition(":")[0] for each in _extract(from_="d").outputs] == ["y"]
    assert [each.partition(":")[0] for each in _extract(from_="a").outputs] == ["y", "z"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "Give either node="),
        ({"node": "first", "to": "y"}, "Give either node="),
        ({"node": "secnd"}, "has no node 'secnd'. The nearest names are: second"),
        ({"to": "nowhere_near_it"}, "has no node or value 'nowhere_near_it'"),
        ({"node": "in_branch"}, "is in a body of If 'choose'"),
        ({"to": "yes_y"}, "is in a body of If 'choose'"),
        ({"node": "inner"}, r"is in the function my::Twice"),
        ({"from_": "y", "to": "a"}, "a does not depend on 'y'"),
        ({"from_": "z", "to": "y"}, "y does not depend on 'z'"),
        ({"to": "x"}, "is an input of"),
        ({"to": "w"}, "is an initializer of"),
    ],
)
def test_what_cannot_be_extracted_is_said(options, said):
    with pytest.raises(UsageError, match=said):
        _extract(**options)


def test_external_data_come_with_the_part(tmp_path):
    onnx.save_model(_model(), tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    found = opbridge.extract(tmp_path / "m.onnx", tmp_path / "part.onnx", node="first", isolated=False)
    assert found.files == [tmp_path / "part.onnx"]
    (tmp_path / "m.data").unlink()
    np.testing.assert_array_equal(
        numpy_helper.to_array(onnx.load(tmp_path / "part.onnx").graph.initializer[0]), _WEIGHT
    )
    with pytest.raises(ModelFileError, match="cannot be read"):
        opbridge.extract(tmp_path / "m.onnx", node="first", isolated=False)


def test_onnxruntime_is_asked_for_types_that_onnx_does_not_know():
    nodes = [
        helper.make_node("FastGelu", ["x"], ["a"], domain="com.microsoft"),
        helper.make_node("Sin", ["a"], ["y"], name="sin"),
    ]
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4]) for name in "xy"]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(helper.make_graph(nodes, "g", value[:1], value[1:]), opset_imports=opsets, ir_version=10)
    assert opbridge.extract(model, node="sin", isolated=False).inputs == ["a: float32 [2, 4]"]


def test_files_that_are_no_models_are_refused(tmp_path):
    (tmp_path / "a.onnx").write_bytes(b"nothing of that kind")
    with pytest.raises(ModelFileError):
        opbridge.extract(tmp_path / "a.onnx", node="first")
