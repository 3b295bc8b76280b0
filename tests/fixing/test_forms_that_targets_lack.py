"""Operators that a target takes in some forms only, in the forms that it takes."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.repairs import fix, kept, model, operators, repaired, repaired_by_reference

from opbridge.rules import lint

FORM = '[[fact]]\nkind = "form"\noperators = ["{}"]\nform = ["{}"]\nsource = "published: x"\n'
REDUCTIONS = ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare")


def _transform(shape: str, settings: str, opset: int = 17, axis: int | None = None, **constants):
    given = "x, , axis" if axis is not None else "x"
    constants = {**constants, **({} if axis is None else {"axis": np.array(axis)})}
    made = model(f"(float[{shape}] x) => (float[] y) {{ y = DFT {settings} ({given}) }}", opset, **constants)
    made.graph.output[0].type.tensor_type.ClearField("shape")
    return made


@pytest.mark.parametrize("settings", ["onesided = 1", "axis = 2, onesided = 1", "axis = -2", "axis = -3, inverse = 1"])
@pytest.mark.parametrize("shape", ["2, 6, 5, 1", "n, m, k, 1"])
def test_transforms_that_openvino_takes_otherwise(shape, settings):
    fixed = repaired(_transform(shape, f"<{settings}>"), "openvino", "unsupported-form")
    (transform,) = (each for each in fixed.model.graph if each.op_type == "DFT")
    assert transform.attributes["axis"].value == 1 and "onesided" not in transform.attributes


@pytest.mark.slow
@pytest.mark.parametrize("axis", [None, 0, 2, -2])
def test_transforms_of_opset_20(axis):
    made = _transform("2, 6, 5, 2", "", 20, axis)
    assert "Transpose" in operators(repaired_by_reference(made, "openvino", "unsupported-form"))


@pytest.mark.parametrize("axis", [1, -3])
def test_transforms_that_are_taken_stay(axis):
    assert not fix(_transform("2, 6, 5, 2", "", 20, axis), "openvino").changes
    assert not fix(_transform("2, 6, 5, 2", "<axis = 2>"), "openvino").changes


def test_the_transform_of_one_signal():
    fixed = repaired(_transform("6, 1", "<axis = 0, onesided = 1>"), "openvino", "unsupported-form")
    assert "Squeeze" in operators(fixed)


def test_a_transform_back_to_real_numbers_is_kept():
    made = _transform("2, 6, 5, 2", "<onesided = 1, inverse = 1>")
    kept(made, "openvino", "unsupported-form", "There is no repair for DFT with a real output")


@pytest.mark.parametrize("operator", REDUCTIONS)
@pytest.mark.parametrize("axes", [[1], [0, 2], [-1, 0]])
def test_reductions_whose_axes_mnn_does_not_read(operator, axes):
    text = f"(float[n, 3, 4] x) => (float[] y) {{ y = {operator} <keepdims = 0> (x, axes) }}"
    made = model(text, axes=np.array(axes))
    made.graph.output[0].type.tensor_type.ClearField("shape")
    assert operator not in operators(repaired(made, "mnn", "unsupported-form"))


@pytest.mark.parametrize("operator", REDUCTIONS)
def test_reductions_that_mnn_takes_stay(operator):
    everything = model(f"(float[n, 3, 4] x) => (float[1, 1, 1] y) {{ y = {operator} (x) }}")
    older = model(f"(float[n, 3, 4] x) => (float[n, 1, 1] y) {{ y = {operator} <axes = [1, 2]> (x) }}", 13)
    for made in (everything, older):
        assert not fix(made, "mnn").changes


@pytest.mark.parametrize(
    ("left", "right"), [("4", "4"), ("3, 4", "4"), ("n, 3, 4", "4"), ("4", "4, 5"), ("4", "n, 4, 5")]
)
@pytest.mark.parametrize("constant", [False, True])
def test_products_of_vectors(lacking, left, right, constant):
    names = {"a": left} if constant and right == "4" else {"a": left, "b": right}
    inputs = ", ".join(f"float[{sizes}] {name}" for name, sizes in names.items())
    stored = {} if "b" in names else {"b": np.arange(4, dtype=np.float32)}
    made = model(f"({inputs}) => (float[] y) {{ y = MatMul (a, b) }}", **stored)
    made.graph.output[0].type.tensor_type.ClearField("shape")
    vector = "A has rank 1" if left == "4" else "B has rank 1"
    repaired(made, lacking(facts=FORM.format("MatMul", vector)), "unsupported-form")


def test_products_of_matrices_are_kept(lacking):
    target = lacking(facts=FORM.format("MatMul", "A has rank 2"))
    made = model("(float[n, 4] a, float[4, 5] b) => (float[n, 5] y) { y = MatMul (a, b) }")
    kept(made, target, "unsupported-form", "There is no repair for MatMul of matrices")


@pytest.mark.parametrize(("operator", "count"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("outputs", ["y", ", h", "y, h"])
def test_recurrent_operators_with_all_outputs(operator, count, outputs):
    draw = np.random.default_rng(0)
    weights = {"w": (1, 4 * count, 3), "r": (1, 4 * count, 4), "b": (1, 8 * count)}
    stored = {name: draw.standard_normal(sizes).astype(np.float32) for name, sizes in weights.items()}
    given = [each for each in ("y", "h") if each in outputs]
    declared = ", ".join(f"float[{'5, 1, n, 4' if each == 'y' else '1, n, 4'}] {each}" for each in given)
    reset = ", linear_before_reset = 1" if operator == "GRU" else ""
    text = f"{outputs} = {operator} <hidden_size = 4{reset}> (x, w, r, b)"
    made = model(f"(float[5, n, 3] x) => ({declared}) {{ {text} }}", 17, **stored)
    if "y" in outputs and operator != "LSTM":
        assert not fix(made, "mnn").changes
        return
    (node,) = (each for each in repaired(made, "mnn", "unsupported-form").model.graph if each.op_type == operator)
    assert all(each.name for each in node.outputs)
    assert not [each for each in lint(fix(made, "mnn").content, "mnn") if each.severity == "error"]
