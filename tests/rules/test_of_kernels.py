"""Forms that kernels of targets compute wrongly, by reports: found, told from near ones, and repaired."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.repairs import fix, model

import opbridge

F32 = np.float32

_LINE = "(float[1, 1, 9] x) => (float[1, 1, k] y)"
_SAME = "(float[1, 2, 9, 8] x) => (float[1, 2, 5, 4] y) { y = Conv <strides = [2, 2], auto_pad"
_WIDE = "(float16[1, 1, 1, {n}] x) => (float16[1, 1, 1, {m}] y) {{ y = ConvTranspose <strides = [1, 2]> (x, w) }}"
_LOOP = (
    "(int64 n, float[2] x) => (float[2] y, float[2] z) {{ y, z = Loop (n, , x, x) <body = b (int64 i, bool c,"
    " float[2] s, float[2] k) => (bool d, float[2] p, float[2] {passed})"
    " {{ d = Identity (c) p = Add (s, k) {more} }}> }}"
)
_WEIGHTS = {"w": np.ones((2, 2, 3, 3), F32)}
_HALVES = {"w": np.ones((1, 1, 1, 2), np.float16)}
_AXES = {"zero": np.array(0), "one": np.array(1)}

# rule: (target, model with it, its constants, model without it)
FOUND = {
    "dilated-max-pool": (
        "cuda:1.27",
        _LINE + " { y = MaxPool <kernel_shape = [2], pads = [1, 1], dilations = [2]> (x) }",
        {},
        _LINE + " { y = MaxPool <kernel_shape = [2], pads = [0, 1], dilations = [2]> (x) }",
    ),
    "several-sums": (
        "tensorrt:11.2",
        "(float[3, 4] x) => (float[3, 4] y) { a = CumSum (x, zero) b = CumSum (x, one) y = Add (a, b) }",
        _AXES,
        "(float[3, 4] x) => (float[3, 4] y) { a = CumSum (x, one) b = CumSum (a, one) y = Add (a, b) }",
    ),
    "same-upper-strides": (
        "webgpu-native:1.24",
        _SAME + ' = "SAME_UPPER"> (x, w) }',
        _WEIGHTS,
        "(float[1, 2, 9, 8] x) => (float[1, 2, 9, 8] y)"
        ' { y = Conv <strides = [1, 1], auto_pad = "SAME_UPPER"> (x, w) }',
    ),
    "wide-conv-transpose": ("webgpu-native:1.28", _WIDE.format(n=1100, m=2200), _HALVES, _WIDE.format(n=1000, m=2000)),
    "low-rank-broadcast": (
        "webgpu-native:1.27",
        "(float[3, 4] a, float[2, 1, 3, 4] b) => (float[2, 1, 3, 4] y) { y = Add (a, b) }",
        {},
        "(float[3, 4] a, float[2, 5, 3, 4] b) => (float[2, 5, 3, 4] y) { y = Add (a, b) }",
    ),
    "unmade-body-output": (
        "openvino:2026.1",
        _LOOP.format(passed="k", more=""),
        {},
        _LOOP.format(passed="q", more="q = Neg (k)"),
    ),
}


def _rules(text: str, target: str, constants: dict, opset: int = 18) -> set[str]:
    return {each.rule for each in opbridge.lint(model(text, opset, **constants).SerializeToString(), target)}


@pytest.mark.parametrize("rule", FOUND)
def test_what_is_found_is_repaired(rule):
    target, text, constants, near = FOUND[rule]
    assert rule in _rules(text, target, constants)
    assert rule not in _rules(near, target, constants)
    fixed = fix(model(text, **constants), target)
    assert rule in {each.finding.rule for each in fixed.changes}
    assert rule not in {each.rule for each in fixed.left}
    assert fixed.comparison.runs and fixed.comparison.ok, fixed.comparison.summary()


def test_a_sum_backwards_is_another_one():
    text = (
        "(float[3, 4] x) => (float[3, 4] y) { a = CumSum (x, one) b = CumSum <reverse = 1> (x, minus) y = Add (a, b) }"
    )
    axes = {"one": np.array(1), "minus": np.array(-1)}
    assert "several-sums" in _rules(text, "tensorrt:11.0", axes)
    assert "several-sums" not in _rules(text.replace("reverse = 1", "reverse = 0"), "tensorrt:11.0", axes)
    assert "several-sums" not in _rules(text, "tensorrt:10.1", axes)


@pytest.mark.parametrize("scale", [np.ones((1, 1, 4), F32), np.ones((1, 4), F32)])
def test_leading_dimensions_of_a_scale_are_left_out(scale):
    made = model("(float[2, 3, 4] x) => (float[2, 3, 4] y) { y = LayerNormalization (x, s) }", s=scale)
    assert "broadcast-scale" in {each.rule for each in opbridge.lint(made.SerializeToString(), "onnxruntime:1.24")}
    fixed = fix(made, "onnxruntime:1.24")
    assert not fixed.left and fixed.comparison.ok
    (stored,) = fixed.model.graph.initializers.values()
    assert list(stored.shape) == [4]


def test_a_skip_connection_that_broadcasts():
    text = (
        "(float[2, 3, 4] x, float[{sizes}] s) => (float[2, 3, 4] y)"
        " {{ y = com.microsoft.SkipLayerNormalization (x, s, g) }}"
    )
    for sizes, found in (("1, 3, 4", True), ("3, 4", True), ("2, 3, 4", False)):
        made = model(text.format(sizes=sizes), g=np.ones(4, F32))
        made.opset_import.add(domain="com.microsoft", version=1)
        said = opbridge.lint(made.SerializeToString(), "webgpu-native:1.23", select=["broadcast-skip"])
        assert bool(said) == found
        fixed = fix(made, "webgpu-native:1.23")
        assert [each.finding.rule for each in fixed.changes] == ["broadcast-skip"] * found
        assert fixed.comparison.ok and not fixed.left


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ("pads = [0, 3]", "pads=[0]"),
        ('auto_pad = "SAME_LOWER"', "auto_pad=SAME_LOWER"),
        ("dilations = [2]", "dilations=[2]"),
        ("ceil_mode = 1", "ceil_mode=1"),
        ("pads = [1, 1]", ""),
    ],
)
def test_windows_of_an_average(attributes, said):
    content = model(f"{_LINE} {{ y = AveragePool <kernel_shape = [3], {attributes}> (x) }}", 19).SerializeToString()
    found = opbridge.lint(content, "cuda:1.27", select=["uneven-average-pool"])
    assert [said in each.message for each in found] == [True] * bool(said)


@pytest.mark.parametrize(
    "attributes",
    [
        "pads = [0, 3]",
        "pads = [0, 2], count_include_pad = 1",
        'auto_pad = "SAME_LOWER", strides = [2]',
        'auto_pad = "SAME_UPPER", strides = [2]',
    ],
)
def test_an_average_is_padded_before(attributes):
    made = model(
        f"(float[2, 3, 8] x) => (float[2, 3, k] y) {{ y = AveragePool <kernel_shape = [5], {attributes}> (x) }}"
    )
    fixed = fix(made, "cuda:1.27")
    assert [each.finding.rule for each in fixed.changes] == ["uneven-average-pool"]
    assert not fixed.left and fixed.comparison.runs and fixed.comparison.ok


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_padding_is_gathered(mode):
    pads = np.array([0, 2, 1, 0, 0, 3])
    made = model(f'(float[2, 3, 4] x) => (float[2, k, m] y) {{ y = Pad <mode = "{mode}"> (x, p) }}', 19, p=pads)
    fixed = fix(made, "coreml-mlprogram:1.25")
    assert [each.finding.rule for each in fixed.changes] == ["unsupported-attribute"] and not fixed.left
    assert fixed.comparison.runs and fixed.comparison.largest == 0


@pytest.mark.parametrize("places", [{}, {"i": np.array(2)}])
def test_a_scalar_index_is_a_list(places):
    inputs = "float[2, 3, 4] x" if places else "float[2, 3, 4] x, int64 i"
    made = model(f"({inputs}) => (float[2, 4] y) {{ y = Gather <axis = 1> (x, i) }}", **places)
    fixed = fix(made, "coreml-mlprogram:1.25")
    assert [each.finding.rule for each in fixed.changes] == ["unsupported-rank"] and not fixed.left
    assert [each.op_type for each in fixed.model.graph if each.op_type != "Constant"][-2:] == ["Gather", "Squeeze"]
    assert fixed.comparison.runs and fixed.comparison.largest == 0


def test_a_single_query():
    text = (
        "(float[1, 2, {q}, 8] q, float[1, 2, 4, 8] k) => (float[1, 2, {q}, 8] y)"
        " {{ y = Attention <is_causal = 1> (q, k, k) }}"
    )
    assert "single-causal-query" in _rules(text.format(q=1), "onnxruntime:1.26", {}, 23)
    assert "single-causal-query" not in _rules(text.format(q=4), "onnxruntime:1.26", {}, 23)
    assert "single-causal-query" not in _rules(text.format(q=1), "onnxruntime", {}, 23)
