"""Reductions in others, rows that are masked as a whole, and GatherElements of fewer indices than data."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from helpers.repairs import fix, model, operators, repaired, repaired_by_reference

from opbridge.rules import lint
from opbridge.runtimes.onnxruntime import open_session

REDUCTIONS = ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare")
FORM = '[[fact]]\nkind = "form"\noperators = ["{}"]\nform = ["axes has length 1"]\nsource = "published: x"\n'
MASK = """(bool[4, 4] m, float[4, 4] s) => (float[4, 4] y) {
    e = Unsqueeze (m, zero) f = Squeeze (e, zero) b = Where (f, none, lowest) w = Add (s, b) p = Softmax (w)
    r = ReduceMax <keepdims = 1> (b, last) a = Equal (r, lowest) y = Where (a, none, p) }"""
CONSTANTS = {
    "none": np.float32(0),
    "lowest": np.array([-np.inf], np.float32),
    "last": np.array([-1]),
    "zero": np.array([0]),
}


def _reduction(operator: str, settings: str, axes: str, dtype: str, opset: int) -> onnx.ModelProto:
    given = ", axes" if axes and opset >= 18 else ""
    said = [each for each in (settings, f"axes = {axes}" if axes and opset < 18 else "") if each]
    attributes = f"<{', '.join(said)}>" if said else ""
    constants = {"axes": np.array(eval(axes), np.int64)} if given else {}
    text = f"({dtype}[n, 3, 4] x) => ({dtype}[] y) {{ y = {operator} {attributes} (x{given}) }}"
    made = model(text, opset, **constants)
    made.graph.output[0].type.tensor_type.ClearField("shape")
    return made


@pytest.mark.parametrize("opset", [11, 13, 17, 18])
@pytest.mark.parametrize(("settings", "axes"), [("", ""), ("keepdims = 0", "[1]"), ("keepdims = 1", "[-1, 0]")])
@pytest.mark.parametrize("operator", REDUCTIONS)
def test_reductions(lacking, operator, settings, axes, opset):
    fixed = repaired(_reduction(operator, settings, axes, "float", opset), lacking(operator))
    assert operator not in operators(fixed)


@pytest.mark.slow
@pytest.mark.parametrize("operator", REDUCTIONS)
def test_reductions_over_no_axes(lacking, operator):
    fixed = repaired(_reduction(operator, "", "[]", "float", 18), lacking(operator))
    assert operator not in operators(fixed)
    made = _reduction(operator, "noop_with_empty_axes = 1", "[]", "float", 18)
    repaired_by_reference(made, lacking(operator), "missing-operator")


@pytest.mark.parametrize("operator", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["double", "float16", "int32", "int64"])
def test_reductions_of_other_types(lacking, operator, dtype):
    made = _reduction(operator, "keepdims = 0", "[1]", dtype, 18)
    fixed = fix(made, lacking(operator))
    assert not fixed.changes or fixed.comparison.ok, fixed.comparison.summary()
    rounded = dtype.startswith("int") and operator not in ("ReduceL1", "ReduceSumSquare")
    assert fixed.changes or (rounded and "of integers" in fixed.left[0].remedy)


@pytest.mark.parametrize("operator", REDUCTIONS)
def test_reductions_in_a_form_that_is_not_taken(lacking, operator):
    target = lacking(facts=FORM.format(operator))
    assert operator not in operators(repaired(_reduction(operator, "", "[1]", "float", 18), target, "unsupported-form"))
    assert not fix(_reduction(operator, "", "[1, 2]", "float", 18), target).changes
    assert not fix(_reduction(operator, "", "", "float", 18), target).changes


@pytest.mark.parametrize("operator", REDUCTIONS)
def test_reductions_of_infinite_missing_and_large_numbers(lacking, operator):
    made = _reduction(operator, "keepdims = 0", "[2]", "float", 18)
    fixed = repaired(made, lacking(operator))
    x = np.abs(np.random.default_rng(0).standard_normal((5, 3, 4))).astype("f")
    x[0, 0], x[0, 1, 1], x[1, 0, 0], x[1, 1, 2], x[2, 0], x[2, 1, :2] = -np.inf, -np.inf, np.inf, np.nan, 1000, 1000
    before, after = (
        open_session(each, False).run(None, {"x": x})[0] for each in (made.SerializeToString(), fixed.content)
    )
    np.testing.assert_allclose(after, before, rtol=1e-5)


@pytest.mark.parametrize("operator", REDUCTIONS)
def test_the_reduction_of_no_elements(lacking, operator):
    text = f"(float[0, 3] x) => (float[3] y) {{ y = {operator} <keepdims = 0> (x, axes) }}"
    repaired(model(text, axes=np.array([0])), lacking(operator))


_LINES = FORM.replace("axes has length 1", "X has rank 3")
_CONVOLUTIONS = [
    ("Conv", "strides = [2], dilations = [2], pads = [1, 2], kernel_shape = [3]", (6, 4, 3)),
    ("Conv", 'auto_pad = "SAME_UPPER", group = 2', (6, 2, 3)),
    ("ConvTranspose", "strides = [2], pads = [1, 0], output_padding = [1]", (4, 5, 3)),
]


@pytest.mark.parametrize("opset", [11, 18])
@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize(("operator", "settings", "shape"), _CONVOLUTIONS)
def test_convolutions_over_one_dimension(lacking, operator, settings, shape, stored, opset):
    weights = np.random.default_rng(0).standard_normal(shape).astype("f")
    given = "" if stored else f", float[{', '.join(map(str, shape))}] w"
    made = model(
        f"(float[n, 4, m] x{given}) => (float[n, a, b] y) {{ y = {operator} <{settings}> (x, w) }}",
        opset,
        **({"w": weights} if stored else {}),
    )
    target = lacking(facts=_LINES.format(operator))
    assert len({"Squeeze", operator} & operators(repaired(made, target, "unsupported-form"))) == 2


def test_convolutions_over_two_dimensions_stay(lacking):
    text = "(float[n, 4, 5, 6] x, float[6, 4, 3, 3] w) => (float[n, 6, a, b] y) { y = Conv (x, w) }"
    assert not fix(model(text), lacking(facts=_LINES.format("Conv"))).changes


_LESS = '[[fact]]\nkind = "form"\noperators = ["Less"]\nform = ["{}", "{}"]\nsource = "published: x"\n'


@pytest.mark.parametrize(
    ("body", "is_found"),
    [
        ("y = Less (x, z)", True),
        ("y = Less (x, none)", False),
        ("a = Abs (x) y = Less (a, z)", False),
        ("n = Neg (none) y = Less (n, z)", True),
        ("c = CastLike (none, x) y = Less (x, c)", False),
        ("i = Cast <to = 6> (x) j = Cast <to = 6> (z) y = Less (i, j)", False),
    ],
)
def test_less_of_what_may_be_negative(lacking, body, is_found):
    target = lacking(facts=_LESS.format("A may be negative", "B may be negative"))
    made = model(f"(float[n, 3] x, float[3] z) => (bool[n, 3] y) {{ {body} }}", none=np.float32(0))
    assert ("unsupported-form" in {each.rule for each in lint(made.SerializeToString(), target)}) == is_found
    if is_found:
        assert "Less" not in operators(repaired(made, target, "unsupported-form"))


def test_the_value_of_a_constant_of_a_shape_is_said(lacking):
    fact = FORM.format("ConstantOfShape").replace("axes has length 1", "no attribute value")
    made = model("(float[n, 3] x) => (float[n, 3] y) { s = Shape (x) c = ConstantOfShape (s) y = Add (x, c) }")
    repaired(made, lacking(facts=fact), "unsupported-form")


@pytest.mark.parametrize("opset", [13, 18])
def test_rows_that_are_masked_as_a_whole(opset):
    text = MASK if opset == 18 else MASK.replace("keepdims = 1> (b, last)", "keepdims = 1, axes = [-1]> (b)")
    made = model(text, opset, **CONSTANTS)
    fixed = repaired(made, "openvino:2026.4", "masked-rows")
    assert "ReduceMax" not in operators(fixed)
    mask = np.eye(4, dtype=bool)
    mask[1] = False
    feeds = {"m": mask, "s": np.ones((4, 4), "f")}
    before, after = (
        open_session(each, False).run(None, feeds)[0] for each in (made.SerializeToString(), fixed.content)
    )
    assert np.array_equal(before, after) and not np.isnan(before).any()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Equal (r, lowest)", "Equal (r, none)"),  # not -inf
        ("f = Squeeze (e, zero)", "f = Greater (s, none)"),  # no mask of the model's
        ("r = ReduceMax <keepdims = 1> (b, last)", "r = ReduceMax <keepdims = 1> (s, last)"),  # not of the mask
    ],
)
def test_other_comparisons_find_no_masked_rows(before, after):
    made = model(MASK.replace(before, after), **CONSTANTS)
    rules = {each.rule for each in lint(made.SerializeToString(), "openvino:2026.4")}
    assert "masked-rows" not in rules


GATHER = "(float[2, 3, 4] x, int64[2, 2, 3] i) => (float[2, 2, 3] y) {{ y = GatherElements <axis = {}> (x, i) }}"


@pytest.mark.parametrize("axis", [1, 2, -1])
def test_indices_that_are_smaller_than_the_data(axis):
    fixed = repaired(model(GATHER.format(axis)), "openvino:2026.4", "smaller-indices")
    assert "Slice" in operators(fixed)


@pytest.mark.parametrize("sizes", ["2, 5, 4", "2, 1, 4", "a, b, c"])
def test_indices_of_the_other_sizes_of_the_data(sizes):
    made = model(GATHER.format(1).replace("2, 2, 3", sizes))
    assert "smaller-indices" not in {each.rule for each in lint(made.SerializeToString(), "openvino:2026.4")}


@pytest.mark.parametrize(("size", "is_found"), [(2, True), (3, False), ("n", False)])
def test_more_parts_than_elements(size, is_found):
    text = f"(bool c, float[{size}] x) => (float[n] y) {{ y = If (c) <then_branch = t () => (float[n] d) {{"
    text += " p, q, d = Split <num_outputs = 3> (x) }, else_branch = e () => (float[m] f) { f = Neg (x) }> }"
    rules = {each.rule for each in lint(model(text).SerializeToString(), "openvino:2026.4")}
    assert ("too-many-parts" in rules) == is_found
