"""Scatters with a reduction, for a target that has none: all updates at once, or a Loop."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from helpers.repairs import fix, model, operators, repaired, repaired_by_reference

from opbridge import lint
from opbridge.fixing.families import combining
from opbridge.runtimes.onnxruntime import open_session

_TARGET = "tensorrt-rtx"
_RULE = "unsupported-form"
REDUCTIONS = ("add", "mul", "max", "min")


def _scatter(operator: str, reduction: str, inputs: str, *, settings: str = "") -> onnx.ModelProto:
    made = model(f'({inputs}) => (float[] y) {{ y = {operator} <reduction = "{reduction}"{settings}> (x, i, u) }}')
    result = made.graph.output[0].type.tensor_type
    result.ClearField("shape")
    result.elem_type = made.graph.input[0].type.tensor_type.elem_type
    return made


def _results(made: onnx.ModelProto, content: bytes, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    return [open_session(each).run(None, feeds)[0] for each in (made.SerializeToString(), content)]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["float", "double", "int64", "int32"])
@pytest.mark.parametrize(
    ("sizes", "axis"), [((6, 4), 0), ((6, 4), -1), ((2, 6, 3), 1), ((6,), 0)], ids=["rows", "columns", "batch", "flat"]
)
def test_elements_and_updates_meet_in_a_table(sizes, axis, dtype, reduction):
    places = list(sizes)
    places[axis] = 5
    one, other = (", ".join(map(str, each)) for each in (sizes, places))
    inputs = f"{dtype}[{one}] x, int64[{other}] i, {dtype}[{other}] u"
    made = _scatter("ScatterElements", reduction, inputs, settings=f", axis = {axis}")
    fixed = repaired(made, _TARGET, _RULE)
    assert operators(fixed).isdisjoint({"Loop", "ScatterElements"})
    random = np.random.default_rng(0)
    kind = onnx.helper.tensor_dtype_to_np_dtype(made.graph.input[0].type.tensor_type.elem_type)
    feeds = {
        "x": random.integers(-9, 9, sizes).astype(kind),
        "i": random.integers(-sizes[axis], sizes[axis], places),
        "u": random.integers(-9, 9, places).astype(kind),
    }
    expected, found = _results(made, fixed.content, feeds)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("places", "updates"), [("5, 1", "5, 3"), ("2, 3, 2", "2, 3"), ("0, 1", "0, 3")])
def test_slices_and_updates_meet_in_a_table(places, updates, reduction):
    made = _scatter("ScatterND", reduction, f"float[6, 3] x, int64[{places}] i, float[{updates}] u")
    fixed = repaired(made, _TARGET, _RULE)
    assert operators(fixed).isdisjoint({"Loop", "ScatterND"})
    sizes = [int(each) for each in places.split(",")]
    random = np.random.default_rng(0)
    feeds = {
        "x": random.integers(-9, 9, (6, 3)).astype(np.float32),
        "i": random.integers(-3, 3, sizes),
        "u": random.integers(-9, 9, [int(each) for each in updates.split(",")]).astype(np.float32),
    }
    expected, found = _results(made, fixed.content, feeds)
    np.testing.assert_array_equal(found, expected)


def test_inf_and_nan_stay_where_they_belong():
    made = _scatter("ScatterND", "add", "float[4, 1] x, int64[3, 1] i, float[3, 1] u")
    fixed = repaired(made, _TARGET, _RULE)
    feeds = {
        "x": np.ones((4, 1), np.float32),
        "i": np.int64([[0], [1], [1]]),
        "u": np.float32([[np.inf], [np.nan], [-np.inf]]),
    }
    for found in _results(made, fixed.content, feeds):
        np.testing.assert_array_equal(found.ravel(), np.float32([np.inf, np.nan, 1, 1]))


def test_halves_are_rounded_once():
    made = _scatter("ScatterElements", "add", "float16[2] x, int64[3] i, float16[3] u")
    fixed = repaired_by_reference(made, _TARGET, _RULE)
    assert {"Where", "ReduceSum", "Cast"} <= operators(fixed)
    feeds = {"x": np.float16([2048, 0]), "i": np.int64([0, 0, 1]), "u": np.float16([1, 1, 3])}
    assert open_session(fixed.content).run(None, feeds)[0].tolist() == [2050, 3]


@pytest.mark.parametrize(
    "inputs",
    [
        "float[n, 4] x, int64[m, 4] i, float[m, 4] u",
        "float[8, 4] x, int64[6, 3] i, float[6, 3] u",
        "float[1024, 64] x, int64[512, 64] i, float[512, 64] u",
    ],
    ids=["dynamic", "smaller", "large"],
)
def test_others_are_combined_in_a_loop(inputs, monkeypatch):
    monkeypatch.setattr(combining, "_MOST", 1 << 22)
    made = _scatter("ScatterElements", "add", inputs)
    changed = fix(made, _TARGET)
    assert "Loop" in operators(changed) and _RULE not in {each.rule for each in changed.left}
    loop = next(each for each in changed.model.graph if each.op_type == "Loop")
    assert loop.inputs[1] is not None  # a condition, which the body passes on


def test_a_loop_gets_its_condition():
    body = "<body = b (int64 k, bool c, float[3] v) => (bool d, float[3] w) { d = Identity (c) w = Add (v, v) }>"
    made = model(f"(float[3] x) => (float[3] y) {{ y = Loop (n, , x) {body} }}", n=np.int64(3))
    fixed = repaired(made, _TARGET, _RULE)
    assert {each.done for each in fixed.changes} == {"set the condition of Loop to true"}
    other = body.replace("d = Identity (c)", "o = Constant <value_int = 1> () d = Cast <to = 9> (o)")
    made = model(f"(float[3] x) => (float[3] y) {{ y = Loop (n, , x) {other} }}", n=np.int64(3))
    assert not fix(made, _TARGET).changes


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_lint_reports_the_reduction(reduction):
    made = _scatter("ScatterElements", reduction, "float[6, 4] x, int64[5, 4] i, float[5, 4] u")
    assert [each.rule for each in lint(made.SerializeToString(), _TARGET)] == [_RULE]
    assert not lint(
        _scatter("ScatterElements", "none", "float[6, 4] x, int64[5, 4] i, float[5, 4] u").SerializeToString(), _TARGET
    )


def test_a_type_that_has_no_such_table_is_left():
    made = _scatter("ScatterElements", "max", "bool[6] x, int64[5] i, bool[5] u")
    assert ir.DataType.BOOL not in combining._TYPES
    assert not any("Where" in each.done for each in fix(made, _TARGET).changes)
