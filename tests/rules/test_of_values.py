"""Rules on what the file says of its values, nodes and weights, their repairs, and what a run of the model shows."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from helpers.problems.problem import model
from onnx import TensorProto, helper

import opbridge
from opbridge.onnx import serialize

CUT = "(float[4] x) => (float[4] y) { y = Add (x, away) }"
SHUFFLED = model("(float[4] x) => (float[4] y) { a = Relu (x) b = Neg (a) y = Abs (b) }")
SHUFFLED.graph.node.insert(0, SHUFFLED.graph.node.pop())
CIRCLE = model("(float[4] x) => (float[4] y) { a = Add (x, b) b = Neg (a) y = Abs (b) }")
AXES = "(float[2, 3, 4] x) => (float[2, 3] y) { y = ReduceSum <keepdims = 0> (x, axes) }"
SCALED = "(float[n, 4] x) => (float[n, 4] y) { a = Mul (x, many) y = Tanh (a) }"


def found(made, *targets, **settings):
    return [each.rule for each in opbridge.lint(made.SerializeToString(), targets, **settings)]


def with_weight(**weight):
    made = model("(float[2] x) => (float[2] y) { y = Add (x, w) }")
    tensor = made.graph.initializer.add(name="w", data_type=1, dims=[2])
    for name, value in weight.items():
        setattr(tensor, name, value)
    return made


def stored_at(location):
    made = with_weight(data_location=TensorProto.EXTERNAL)
    made.graph.initializer[0].external_data.add(key="location", value=location)
    return made


@pytest.mark.parametrize(
    ("made", "rule"),
    [
        (model(CUT), "undefined-value"),
        (SHUFFLED, "unsorted-nodes"),
        (CIRCLE, "unsorted-nodes"),
        (model("(float[4] x) => (float[4] y) { y = Relu (x, x) }"), "invalid-node"),
        (model("(float[4] x) => (float[4] y) { y = Relu <axes = [1]> (x) }"), "invalid-node"),
        (model("(float[4] x) => (float[4] y) { y = Cast <to = 99> (x) }"), "invalid-node"),
        (model("(float[4] x) => (float[4] y) { y = Concat (x, x) }"), "invalid-node"),
        (with_weight(raw_data=b"few"), "unreadable-weight"),
        (model(AXES, constants={"axes": np.int64(2)}), "scalar-axes"),
        (model("(float[2] x) => (float[2] y) { y = Add (x, w) }", constants={"w": np.float32([1, np.inf])}),
         "undefined-numbers"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_file(made, rule):
    assert set(found(made)) == {rule}


def test_masks_of_minus_infinity_and_sorted_nodes_are_right():
    masked = model("(float[2] x) => (float[2] y) { y = Add (x, w) }", constants={"w": np.float32([0, -np.inf])})
    assert found(masked) == []
    assert found(model(AXES, constants={"axes": np.int64([2])})) == []


@pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", "away.bin", "link.bin"])
def test_a_weight_outside_of_the_folder_is_not_read(tmp_path, monkeypatch, location):
    (tmp_path / "w.bin").write_bytes(bytes(8))
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link.bin").symlink_to("../w.bin")
    (folder / "model.onnx").write_bytes(stored_at(location).SerializeToString())
    monkeypatch.chdir(folder)
    for given in ("model.onnx", folder / "model.onnx", (folder / "model.onnx").read_bytes()):
        assert [each.rule for each in opbridge.lint(given)] == ["unreadable-weight"]
        with pytest.raises(opbridge.ModelFileError, match="its weight 'w' cannot be read"):
            opbridge.fix(given)


def test_a_weight_beside_the_model_is_read(tmp_path, monkeypatch):
    (tmp_path / "w.bin").write_bytes(np.float32([1, np.nan]).tobytes())
    (tmp_path / "model.onnx").write_bytes(stored_at("w.bin").SerializeToString())
    monkeypatch.chdir(tmp_path)
    assert [each.rule for each in opbridge.lint("model.onnx")] == ["undefined-numbers"]


@pytest.mark.parametrize(
    ("made", "rule"),
    [
        (SHUFFLED, "unsorted-nodes"),
        (model(AXES, constants={"axes": np.int64(2)}), "scalar-axes"),
        (model("(float[2, 3, 4] x, int64 axes) => (float[a, b] y) { z = Mul (axes, none) y = ReduceSum <keepdims"
               " = 0> (x, z) }",
               constants={"none": np.int64(0)}), "scalar-axes"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("one_process")
def test_it_is_repaired(made, rule):
    fixed = opbridge.fix(made.SerializeToString())
    assert {each.finding.rule for each in fixed.changes} - {"unused-initializer"} == {rule} and not fixed.left
    assert fixed.comparison.runs and fixed.comparison.ok


@pytest.mark.parametrize("made", [CIRCLE, model(CUT)], ids=["circle", "cut"])
def test_a_model_that_has_no_order_is_left(made):
    assert not opbridge.fix(made.SerializeToString(), "tensorrt:8.5").changes


@pytest.mark.parametrize(
    "text",
    [
        "(float[1, 2, 3, 3, 3] x, float[2, 2, 3, 3, 3] w) => (float[1, 2, 6, 6, 6] y)"
        " { y = ConvTranspose <strides = [2, 2, 2], pads = [1, 1, 1, 1, 1, 1], output_padding = [1, 1, 1]> (x, w) }",
        "(float[1, 2, 3, 3, 3] x, float[2, 2, 3, 3, 3] w, float[2] b) => (float[1, 2, a, b, c] y)"
        " { y = ConvTranspose <strides = [2, 1, 3], pads = [0, 1, 2, 1, 0, 1], output_padding = [1, 0, 1]> (x,"
        " w, b) }",
    ],
)
@pytest.mark.usefixtures("one_process")
def test_padding_after_a_convolution_is_a_slice(text):
    fixed = opbridge.fix(model(text).SerializeToString(), "tensorrt:8.5")
    assert [each.op_type for each in fixed.model.graph] == ["ConvTranspose", "Slice"]
    assert fixed.comparison.runs and fixed.comparison.ok


def test_padding_beyond_what_there_is_is_left():
    text = (
        "(float[1, 2, 3, 3, 3] x, float[2, 2, 3, 3, 3] w) => (float[1, 2, 8, 8, 8] y)"
        " { y = ConvTranspose <strides = [2, 2, 2], output_padding = [1, 1, 1]> (x, w) }"
    )
    assert not opbridge.fix(model(text).SerializeToString(), "tensorrt:8.5").changes


@pytest.mark.slow
@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize("kind", ["array", "name", "file"])
def test_activations_that_float16_does_not_hold(tmp_path, kind):
    made = model(SCALED, constants={"many": np.float32(1e4)})
    x = np.float32([[1, 2, 3, 10]])
    np.savez(tmp_path / "x.npz", x=x)
    inputs = {"array": [x], "name": {"x": x}, "file": tmp_path / "x.npz"}[kind]
    [one] = opbridge.lint(made.SerializeToString(), inputs=inputs)
    assert (one.rule, one.operator, one.severity) == ("float16-activation", "Mul", "warning")
    assert "returns values up to 1e+05" in one.message
    assert found(made, inputs=[x / 100]) == [] == found(made)


def test_inputs_that_are_not_those_of_the_model_are_refused():
    with pytest.raises(opbridge.UsageError, match="the model has the inputs x"):
        opbridge.lint(SHUFFLED.SerializeToString(), inputs=[1, 2])


def test_ranges_are_said_where_they_are_asked_for():
    made = model(SCALED, constants={"many": np.float32(2)})
    assert found(made, "tensorrt") == []
    [one] = opbridge.lint(made.SerializeToString(), "tensorrt", select=["needs-ranges"])
    assert one.message == "The dimensions of 'x' of [n, 4] are dynamic." and one.severity == "warning"


def test_releases_of_onnxruntime_are_known_by_what_is_published():
    assert found(model(SCALED, constants={"many": np.float32(2)}, opset=20, ir_version=10), "onnxruntime:1.17.3") == [
        "opset-range"
    ]
    with pytest.raises(opbridge.UsageError, match="The facts of onnxruntime come from the installed version"):
        opbridge.lint(SHUFFLED.SerializeToString(), "onnxruntime:99.0")


def clashing(outputs):
    steps = [("Relu", "x", "a"), ("Neg", "a", "a"), ("Exp", "a", outputs)]
    nodes = [helper.make_node(operator, [read], [given]) for operator, read, given in steps]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in ("x", outputs)]
    made = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.slow
@pytest.mark.parametrize("output", ["y", "a", "x"])
def test_the_later_of_two_values_of_a_name_is_renamed(output):
    made = clashing(output)
    assert set(found(made)) == {"clashing-names"}
    fixed = opbridge.fix(made.SerializeToString())
    assert fixed.comparison.runs and fixed.comparison.ok and not fixed.left
    names = [each.outputs[0].name for each in fixed.model.graph]
    assert len(set(names)) == 3 and (output == "x" or names[-1] == output)
    onnx.checker.check_model(onnx.ModelProto.FromString(serialize.to_bytes(fixed.model)), full_check=True)


@pytest.mark.parametrize(
    ("placed", "said"),
    [({}, ""), ({5: -np.inf}, ""), ({5: np.inf}, "infinity"), ({5: np.inf, (1 << 20) + 7: np.nan}, "nan")],
)
def test_a_large_weight_is_looked_through_in_parts(tmp_path, placed, said):
    numbers = np.zeros(5 << 18, np.float32)
    for at, value in placed.items():
        numbers[at] = value
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[{numbers.size}] x) => (float[{numbers.size}] y) {{ y = Add (x, w) }}""")
    model.graph.initializer.append(onnx.numpy_helper.from_array(numbers, "w"))
    whole = model.SerializeToString()
    onnx.save(model, tmp_path / "beside.onnx", save_as_external_data=True, location="weights")
    for found in (opbridge.lint(whole), opbridge.lint(tmp_path / "beside.onnx")):
        assert [each.message for each in found] == ([f"The weight 'w' contains {said}."] if said else [])


@pytest.mark.parametrize("value", ["text", 3])
def test_a_constant_whose_value_is_no_tensor(value):
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 18]> g (float[4] x) => (float[2, 2] y)
        { s = Constant <value = int64[2] {2, 2}> () y = Reshape (x, s) }"""
    )
    del model.graph.node[0].attribute[:]
    model.graph.node[0].attribute.append(onnx.helper.make_attribute("value", value))
    assert not opbridge.lint(model.SerializeToString(), "tensorrt-rtx").ok


def large(body: str, inputs: str = "int32[4] x", output: str = "int32[4] y") -> bytes:
    """A model on integers, as it is saved."""
    text = f'<ir_version: 9, opset_import: ["" : 19]> g ({inputs}) => ({output}) {{ {body} }}'
    return onnx.parser.parse_model(text).SerializeToString()


@pytest.mark.parametrize("number", [2**24 + 1, 2**31 - 1, -(2**25) - 1])
def test_integers_that_float32_does_not_hold_for_openvino(number):
    content = large(f"k = Constant <value = int32 {{{number}}}> ()  y = Equal (x, k)", output="bool[4] y")
    [one] = opbridge.lint(content, "openvino:2026.4", select=["large-integer"])
    assert one.severity == "warning" and one.message == f"Equal reads the constant {number}."
    assert not opbridge.lint(content, "tensorrt", select=["large-integer"])


@pytest.mark.parametrize("body", ["y = Equal (x, k)", "z = Add (x, k)  y = Cast <to = 9> (z)"])
def test_integers_that_openvino_computes_right(body):
    number = 2**25 if "Equal" in body else 2**24 + 1
    content = large(f"k = Constant <value = int32 {{{number}}}> ()  {body}", output="bool[4] y")
    assert not opbridge.lint(content, "openvino:2026.4", select=["large-integer"])


def test_openvino_pads_with_a_computed_value_only_by_computed_amounts():
    amounts = "p = Constant <value = int64[2] {1, 2}> ()  "
    value = large(f"{amounts} y = Pad (x, p, v)", "float[8] x, float v", "float[11] y")
    [one] = opbridge.lint(value, "openvino:2026.4", select=["unsupported-form"])
    assert one.operator == "Pad" and "OpenVINO pads with 0, regardless of the value." in str(one)
    computed = large("y = Pad (x, p, v)", "float[8] x, int64[2] p, float v", "float[n] y")
    constant = large(f"{amounts} v = Constant <value = float {{5}}> ()  y = Pad (x, p, v)", "float[8] x", "float[11] y")
    for content in (computed, constant):
        assert not opbridge.lint(content, "openvino:2026.4", select=["unsupported-form"])
