"""Sizes computed from floating-point inputs, and ArgMax of one dimension, for a target that takes neither."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from helpers.repairs import fix, kept, model, operators, repaired

from opbridge.runtimes.onnxruntime import open_session

_TARGET = "tensorrt-rtx"
_RULE = "size-of-floats"
_COUNT = "h = Greater (x, half) k = Cast <to = 7> (h) n = ReduceSum <keepdims = 0> (k)"
_LIST = f"{_COUNT} l = Reshape (n, at)"
_NUMBERS = {"half": np.float32(0.5), "at": np.int64([1]), "one": np.int64(1), "zero": np.int64(0)}


def _sized(text: str, result: str = "float") -> onnx.ModelProto:
    made = model(f"(float[b, 4] x) => ({result}[] y) {{ {text} }}", **_NUMBERS)
    made.graph.output[0].type.tensor_type.ClearField("shape")
    return made


def _rules_of(made: onnx.ModelProto) -> set[str]:
    """The rules that find something, whether it is repaired or not."""
    fixed = fix(made, _TARGET)
    return {each.finding.rule for each in fixed.changes} | {each.rule for each in fixed.left}


@pytest.mark.parametrize(
    ("text", "result"),
    [
        (f"{_COUNT} m = Add (n, one) y = Range (zero, m, one)", "int64"),
        (f"{_LIST} y = ConstantOfShape (l)", "float"),
        (f"{_LIST} s = Shape (x) e = Concat <axis = 0> (l, s) y = Expand (x, e)", "float"),
        (f"{_LIST} z = Constant <value_ints = [0]> () y = Slice (x, z, l, z)", "float"),
        (f"{_LIST} c = Cast <to = 6> (l) d = Cast <to = 7> (c) e = Concat <axis = 0> (d, at) y = Tile (x, e)", "float"),
        (f"{_COUNT} i = ArgMax <axis = 0> (x) g = GatherElements (x, i) r = Cast <to = 7> (g)"
         " m = ReduceMax <keepdims = 0> (r) y = Range (zero, m, one)", "int64"),
    ],
    ids=["range", "constant_of_shape", "expand", "slice", "tile", "gathered"],
)  # fmt: skip
def test_a_size_of_values_passes_through_topk(text, result):
    fixed = repaired(_sized(text, result), _TARGET, _RULE)
    assert "TopK" in operators(fixed)


def test_the_sizes_beside_it_stay_known():
    fixed = repaired(_sized(f"{_LIST} s = Shape (x) e = Concat <axis = 0> (l, s) y = Expand (x, e)"), _TARGET, _RULE)
    concat = next(each for each in fixed.model.graph if each.op_type == "Concat")
    assert [each.producer().op_type for each in concat.inputs] == ["Reshape", "Shape"]


_CHOICE = "c = Equal (x, k) w = Where (c, x, k)"


@pytest.mark.parametrize(
    "text",
    [
        f"{_CHOICE} m = ReduceMax <keepdims = 0> (w) y = Range (zero, m, one)",
        f"{_CHOICE} m = ReduceMax <keepdims = 0> (w) l = Reshape (m, at) s = ConstantOfShape (l) y = Cast <to = 7> (s)",
        "w = Trilu (x) g = Gather <axis = 1> (w, zero) m = ReduceSum <keepdims = 0> (g) y = Range (zero, m, one)",
    ],
    ids=["range", "constant_of_shape", "trilu"],
)
def test_a_selection_in_two_dimensions_passes_through_topk(text):
    made = model(f"(int64[2, 2] x) => (int64[k] y) {{ {text} }}", **_NUMBERS, k=np.int64([[1, 2], [3, 4]]))
    fixed = repaired(made, _TARGET, "size-of-selection")
    assert "TopK" in operators(fixed)


def test_a_selection_in_one_dimension_is_kept():
    text = "c = Equal (x, at) w = Where (c, x, at) m = ReduceMax <keepdims = 0> (w) y = Range (zero, m, one)"
    made = model(f"(int64[2] x) => (int64[k] y) {{ {text} }}", **_NUMBERS)
    assert _rules_of(made) == {"unused-initializer"}


@pytest.mark.parametrize(
    "text",
    [
        "a = ArgMax <axis = 1, keepdims = 0> (x) n = ReduceMax <keepdims = 0> (a) y = Range (zero, n, one)",
        "p = Softmax (x) k = Cast <to = 7> (p) n = ReduceSum <keepdims = 0> (k) y = Range (zero, n, one)",
        "s = Shape (x) n = ReduceProd <keepdims = 0> (s) y = Range (zero, n, one)",
    ],
    ids=["argmax", "softmax", "shape"],
)
def test_what_runs_on_the_gpu_may_read_anything(text):
    assert _rules_of(_sized(text, "int64")) <= {"unused-initializer"}


def test_a_size_of_a_whole_number_is_kept():
    made = model(
        "(int64[3] x) => (int64[k] y) { n = ReduceMax <keepdims = 0> (x) y = Range (zero, n, one) }", **_NUMBERS
    )
    assert _rules_of(made) == {"unused-initializer"}


def test_a_size_that_is_no_whole_number_is_refused():
    text = "(float x, float d) => (float[k] y) { n = Abs (x) y = Range (x, n, d) }"
    kept(model(text), _TARGET, _RULE, "in a type other than int32 and int64")


@pytest.mark.parametrize("settings", ["", "<keepdims = 0>", "<axis = -1>", "<axis = 0, select_last_index = 1>"])
@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
def test_argmax_of_one_dimension_is_one_of_two(operator, settings):
    made = model(f"(float[n] x) => (int64[] y) {{ y = {operator} {settings} (x) }}")
    made.graph.output[0].type.tensor_type.ClearField("shape")
    fixed = repaired(made, _TARGET, "unsupported-form")
    found = [open_session(each) for each in (made.SerializeToString(), fixed.content)]
    for x in (np.float32([3]), np.float32([1, 5, 5, -2, -2]), np.float32([-np.inf, np.inf, np.inf])):
        one, other = (each.run(None, {"x": x})[0] for each in found)
        assert one.shape == other.shape and one.tolist() == other.tolist()
