"""Each kind of fact, and each rule of patterns, finds what it is about in a tiny model, and nothing in another."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from helpers.problems import PROBLEMS
from helpers.tiny_models import IMAGE
from helpers.tiny_models import model_of as _model

import opbridge
from opbridge.rules import catalogue, of_empty, of_facts, of_patterns, of_reports
from opbridge.targets.facts import KINDS

I64 = np.int64

LOOP = (
    "body = b (int64 i, bool c, float[4] s) => (bool d, float[4] t, float[4] r)"
    " { d = Identity (c)  t = Neg (s)  r = Abs (s) }"
)


def _with_function(calls: str) -> onnx.ModelProto:
    """A model with a function of its own, mine.F."""
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 18, "mine": 1, "com.microsoft": 1, "theirs": 1]> g (float[4] x) =>'
        f' (float[4] y) {{ {calls} }} <domain: "mine", opset_import: ["" : 18]> F (a) => (b) {{ b = Relu (a) }}'
    )


LSTM = {"w": np.ones((1, 4, 2), np.float32), "r": np.ones((1, 4, 1), np.float32)}

GROWING = "body = b (int64 i, bool c, float[4] s) => (bool d, float[{size}] t) {{ d = Identity (c)  t = Neg (s) }}"

# By a name: the fact, the identifier of its rule, the model in which it is so, and the one in which it is not.
CASES = {
    "missing": (
        {"kind": "missing", "operators": ["Relu"]},
        "missing-operator",
        _model("y = Relu (x)"),
        _model("y = Sigmoid (x)"),
    ),
    "missing, of another domain": (
        {"kind": "missing", "operators": ["com.microsoft::Gelu"]},
        "missing-operator",
        _model("y = com.microsoft.Gelu (x)", domain="com.microsoft"),
        _model("y = Gelu (x)"),
    ),
    "only": (
        {"kind": "only", "operators": ["Relu"]},
        "missing-operator",
        _model("y = Sigmoid (x)"),
        _model("y = Relu (x)"),
    ),
    "partly": (
        {"kind": "partly", "operators": ["Relu"]},
        "partly-supported",
        _model("y = Relu (x)"),
        _model("y = Sigmoid (x)"),
    ),
    "form": (
        {"kind": "form", "operators": ["Softmax"], "form": ["axis = 0", "input is float32"]},
        "unsupported-form",
        _model("y = Softmax<axis = 0> (x)"),
        _model("y = Softmax<axis = -1> (x)"),
    ),
    "types of the first input": (
        {"kind": "types", "operators": ["Add"], "allowed": ["float32"]},
        "unsupported-type",
        _model("y = Add (x, x)", inputs="int64[4] x"),
        _model("y = Add (x, x)"),
    ),
    "types of an input by its name": (
        {"kind": "types", "operators": ["Pow"], "inputs": ["Y"], "allowed": ["float32"]},
        "unsupported-type",
        _model("y = Pow (x, e)", constants={"e": I64(2)}),
        _model("y = Pow (x, e)", constants={"e": np.float32(2)}),
    ),
    "constant, computed at run time": (
        {"kind": "constant", "operators": ["Expand"], "inputs": ["shape"]},
        "constant-input",
        _model("y = Expand (x, s)", inputs="float[N, 4] x, int64[2] s"),
        _model("y = Expand (x, s)", constants={"s": I64([2, 4])}),
    ),
    "constant, computed from constants": (
        {"kind": "constant", "operators": ["Expand"], "inputs": ["shape"], "stored": True},
        "constant-input",
        _model("t = Neg (s)  y = Expand (x, t)", constants={"s": I64([-2, -4])}),
        _model("s = Constant<value_ints = [2, 4]> ()  y = Expand (x, s)"),
    ),
    "constant, not stored, is fine where constants give it": (
        {"kind": "constant", "operators": ["Expand"], "inputs": ["shape"]},
        "constant-input",
        _model("t = Shape (x)  y = Expand (x, t)"),
        _model("t = Neg (s)  y = Expand (x, t)", constants={"s": I64([-2, -4])}),
    ),
    "constant, of a fixed shape, is fine": (
        {"kind": "constant", "operators": ["Expand"], "inputs": ["shape"]},
        "constant-input",
        _model("t = Shape (x)  y = Expand (x, t)", inputs="float[N, 4] x"),
        _model("t = Shape (x)  y = Expand (x, t)", inputs="float[2, 4] x"),
    ),
    "constant, left out": (
        {"kind": "constant", "operators": ["Conv"], "inputs": ["B"]},
        "constant-input",
        _model("y = Conv (x, w, b)", inputs=f"{IMAGE}, float[3, 3, 1, 1] w, float[3] b"),
        _model("y = Conv (x, w)", inputs=f"{IMAGE}, float[3, 3, 1, 1] w"),
    ),
    "constant, of another domain": (
        {"kind": "constant", "operators": ["com.microsoft::MatMulNBits"], "inputs": ["B"]},
        "constant-input",
        _model(
            "y = com.microsoft.MatMulNBits<K = 16, N = 1, block_size = 16> (x, b, s)",
            inputs="float[1, 16] x, uint8[1, 1, 8] b, float[1] s",
            domain="com.microsoft",
        ),
        _model(
            "y = com.microsoft.MatMulNBits<K = 16, N = 1, block_size = 16> (x, b, s)",
            inputs="float[1, 16] x, float[1] s",
            constants={"b": np.zeros((1, 1, 8), np.uint8)},
            domain="com.microsoft",
        ),
    ),
    "zero": (
        {"kind": "zero", "operators": ["DequantizeLinear"], "inputs": ["x_zero_point"]},
        "nonzero-input",
        _model(
            "y = DequantizeLinear (x, s, z)",
            inputs="uint8[4] x",
            constants={"s": np.float32(1), "z": np.uint8(128)},
        ),
        _model(
            "y = DequantizeLinear (x, s, z)", inputs="uint8[4] x", constants={"s": np.float32(1), "z": np.uint8(0)}
        ),
    ),
    "zero, not known": (
        {"kind": "zero", "operators": ["DequantizeLinear"], "inputs": ["x_zero_point"]},
        "nonzero-input",
        _model("y = DequantizeLinear (x, s, z)", inputs="uint8[4] x, uint8 z", constants={"s": np.float32(1)}),
        _model("y = DequantizeLinear (x, s)", inputs="uint8[4] x", constants={"s": np.float32(1)}),
    ),
    "below": (
        {"kind": "below", "operators": ["TopK"], "input": "K", "bound": 4},
        "too-large",
        _model("y, i = TopK (x, k)", constants={"k": I64([4])}),
        _model("y, i = TopK (x, k)", constants={"k": I64([3])}),
    ),
    "filled, one dimension of an input": (
        {"kind": "filled", "operators": ["LSTM"], "input": "X", "axes": [1]},
        "empty-dimension",
        _model("y = LSTM<hidden_size = 1> (x, w, r)", inputs="float[N, M, 2] x", constants=LSTM),
        _model("y = LSTM<hidden_size = 1> (x, w, r)", inputs="float[N, 3, 2] x", constants=LSTM),
    ),
    "filled, all dimensions, one of which is 0": (
        {"kind": "filled", "operators": ["GRU"], "input": "X"},
        "empty-dimension",
        _model("y = GRU<hidden_size = 1> (x, w, r)", inputs="float[0, 3, 2] x", constants=LSTM),
        _model("y = GRU<hidden_size = 1> (x, w, r)", inputs="float[5, 3, 2] x", constants=LSTM),
    ),
    "filled, the dimensions beside the one that an attribute names": (
        {"kind": "filled", "operators": ["Unique"], "input": "X", "beside": "axis"},
        "empty-dimension",
        _model("y = Unique<axis = -1> (x)"),
        _model("y = Unique<axis = 0> (x)"),
    ),
    "filled, beside the dimension that an attribute names, which is not given": (
        {"kind": "filled", "operators": ["Unique"], "beside": "axis"},
        "empty-dimension",
        _model("y = Unique<axis = 1> (x)"),
        _model("y = Unique (x)"),
    ),
    "filled, of some types": (
        {"kind": "filled", "operators": ["Relu"], "types": ["float16"]},
        "empty-dimension",
        _model("y = Relu (x)", inputs="float16[N] x"),
        _model("y = Relu (x)"),
    ),
    "filled, of some numbers of dimensions": (
        {"kind": "filled", "operators": ["Relu"], "ranks": [3]},
        "empty-dimension",
        _model("y = Relu (x)", inputs="float[N, 2, 3] x"),
        _model("y = Relu (x)"),
    ),
    "filled, an input that is computed from data": (
        {"kind": "filled", "operators": ["Relu"], "axes": [0]},
        "empty-dimension",
        _model("a = Compress<axis = 0> (x, k)  y = Relu (a)", inputs="float[4, 4] x, bool[4] k"),
        _model("a = Compress<axis = 0> (x, k)  y = Relu (x)", inputs="float[4, 4] x, bool[4] k"),
    ),
    "least": (
        {"kind": "least", "operators": ["Gather"], "input": "indices", "bound": 0},
        "too-small",
        _model("y = Gather (x, i)", constants={"i": I64([0, -1])}),
        _model("y = Gather (x, i)", constants={"i": I64([0, 1])}),
    ),
    "elements, of some": (
        {"kind": "elements", "operators": ["Slice"], "inputs": ["steps"], "allowed": [1]},
        "unsupported-number",
        _model("y = Slice (x, a, b, c, d)", constants=[(each, I64([2])) for each in "abcd"]),
        _model("y = Slice (x, a, b, c, d)", constants=[(each, I64([1])) for each in "abcd"]),
    ),
    "elements, of all but some": (
        {"kind": "elements", "operators": ["Reshape"], "inputs": ["shape"], "excluded": [0]},
        "unsupported-number",
        _model("y = Reshape (x, s)", constants={"s": I64([0, -1])}),
        _model("y = Reshape (x, s)", constants={"s": I64([4, -1])}),
    ),
    "absent input": (
        {"kind": "absent", "operators": ["Clip"], "inputs": ["max"]},
        "unsupported-argument",
        _model("y = Clip (x, , b)", constants={"b": np.float32(1)}),
        _model("y = Clip (x, b)", constants={"b": np.float32(1)}),
    ),
    "absent output": (
        {"kind": "absent", "operators": ["MaxPool"], "outputs": ["Indices"]},
        "unsupported-argument",
        _model("y, i = MaxPool<kernel_shape = [2, 2]> (x)", inputs=IMAGE, outputs="y i"),
        _model("y, i = MaxPool<kernel_shape = [2, 2]> (x)", inputs=IMAGE),
    ),
    "absent output that nothing reads": (
        {"kind": "absent", "operators": ["MaxPool"], "outputs": ["Indices"], "unread": True},
        "unsupported-argument",
        _model("y, i = MaxPool<kernel_shape = [2, 2]> (x)", inputs=IMAGE),
        _model("y = MaxPool<kernel_shape = [2, 2]> (x)", inputs=IMAGE),
    ),
    "attribute": (
        {"kind": "attribute", "operators": ["Elu"], "attribute": "alpha", "allowed": [1.0]},
        "unsupported-attribute",
        _model("y = Elu<alpha = 2.0> (x)"),
        _model("y = Elu<alpha = 1.0> (x)"),
    ),
    "attribute at its default": (
        {"kind": "attribute", "operators": ["Resize"], "attribute": "coordinate_transformation_mode",
         "allowed": ["asymmetric"]},
        "unsupported-attribute",
        _model("y = Resize (x, , s)", inputs=IMAGE, constants={"s": np.float32([1, 1, 2, 2])}),
        _model(
            'y = Resize<coordinate_transformation_mode = "asymmetric"> (x, , s)',
            inputs=IMAGE,
            constants={"s": np.float32([1, 1, 2, 2])},
        ),
    ),
    "attribute with a good default": (
        {"kind": "attribute", "operators": ["Elu"], "attribute": "alpha", "allowed": [1.0]},
        "unsupported-attribute",
        _model("y = Elu<alpha = 0.5> (x)"),
        _model("y = Elu (x)"),
    ),
    "attribute of several numbers": (
        {"kind": "attribute", "operators": ["MaxPool"], "attribute": "dilations", "allowed": [1]},
        "unsupported-attribute",
        _model("y = MaxPool<kernel_shape = [2, 2], dilations = [1, 2]> (x)", inputs=IMAGE),
        _model("y = MaxPool<kernel_shape = [2, 2], dilations = [1, 1]> (x)", inputs=IMAGE),
    ),
    "attribute left out": (
        {"kind": "attribute", "operators": ["LSTM"], "attribute": "clip"},
        "unsupported-attribute",
        _model("y = LSTM<hidden_size = 2, clip = 1.0> (x, w, r)", inputs="float[3, 1, 2] x, float w, float r"),
        _model("y = LSTM<hidden_size = 2> (x, w, r)", inputs="float[3, 1, 2] x, float w, float r"),
    ),
    "attribute, where another has a value": (
        {"kind": "attribute", "operators": ["Resize"], "attribute": "nearest_mode", "allowed": ["floor"],
         "when": ["mode=nearest"]},
        "unsupported-attribute",
        _model("y = Resize (x, , s)", inputs=IMAGE, constants={"s": np.float32([1, 1, 2, 2])}),
        _model('y = Resize<mode = "linear"> (x, , s)', inputs=IMAGE, constants={"s": np.float32([1, 1, 2, 2])}),
    ),
    "missing, where several have values": (
        {"kind": "missing", "operators": ["GridSample"], "when": ["mode=linear", "padding_mode=reflection"]},
        "missing-operator",
        _model('y = GridSample<padding_mode = "reflection"> (x, g)', inputs=f"{IMAGE}, float[1, 4, 4, 2] g"),
        _model("y = GridSample (x, g)", inputs=f"{IMAGE}, float[1, 4, 4, 2] g"),
    ),
    "revision, too new": (
        {"kind": "revision", "operators": ["GridSample"], "newest": 19},
        "unsupported-revision",
        _model("y = GridSample (x, g)", inputs=f"{IMAGE}, float[1, 4, 4, 2] g", opset=20),
        _model("y = GridSample (x, g)", inputs=f"{IMAGE}, float[1, 4, 4, 2] g", opset=19),
    ),
    "revision, too old": (
        {"kind": "revision", "operators": ["Resize"], "oldest": 11},
        "unsupported-revision",
        _model("y = Resize (x, s)", inputs=IMAGE, constants={"s": np.float32([1, 1, 2, 2])}, opset=10),
        _model("y = Resize (x, , s)", inputs=IMAGE, constants={"s": np.float32([1, 1, 2, 2])}, opset=11),
    ),
    "rank": (
        {"kind": "rank", "operators": ["GridSample"], "allowed": [4]},
        "unsupported-rank",
        _model("y = GridSample (x, g)", inputs="float[1, 3, 4, 4, 4] x, float[1, 4, 4, 4, 3] g"),
        _model("y = GridSample (x, g)", inputs=f"{IMAGE}, float[1, 4, 4, 2] g"),
    ),
    "rank of an input by its name": (
        {"kind": "rank", "operators": ["Gemm"], "input": "C", "allowed": [1]},
        "unsupported-rank",
        _model("y = Gemm (x, w, c)", inputs="float[N, 4] x, float[4, 4] w, float[1, 4] c"),
        _model("y = Gemm (x, w, c)", inputs="float[N, 4] x, float[4, 4] w, float[4] c"),
    ),
    "rank of an input that is left out": (
        {"kind": "rank", "operators": ["Gemm"], "input": "C", "allowed": [1]},
        "unsupported-rank",
        _model("y = Gemm (x, w, c)", inputs="float[N, 4] x, float[4, 4] w, float c"),
        _model("y = Gemm (x, w)", inputs="float[N, 4] x, float[4, 4] w"),
    ),
    "static, of an operator": (
        {"kind": "static", "operators": ["EyeLike"]},
        "dynamic-shape",
        _model("y = EyeLike (x)", inputs="float[N, 4] x"),
        _model("y = EyeLike (x)", inputs="float[2, 4] x"),
    ),
    "static, of the model": (
        {"kind": "static"},
        "dynamic-inputs",
        _model("y = Relu (x)", inputs="float[N, 4] x"),
        _model("y = Relu (x)", inputs="float[2, 4] x"),
    ),
    "ranges": (
        {"kind": "ranges", "severity": "warning"},
        "needs-ranges",
        _model("y = Relu (x)", inputs="float[N, 4] x"),
        _model("y = Relu (x)", inputs="float[2, 4] x"),
    ),
    "functions": (
        {"kind": "functions"},
        "local-function",
        _with_function("y = mine.F (x)"),
        _model("y = Relu (x)"),
    ),
    "domains": (
        {"kind": "domains", "domains": ["com.microsoft"]},
        "missing-operator",
        _with_function("y = theirs.F (x)"),
        _with_function("a = mine.F (x)  y = com.microsoft.Gelu (a)"),
    ),
    "plugins": (
        {"kind": "plugins", "severity": "warning"},
        "needs-plugin",
        _with_function('y = theirs.F <plugin_namespace = "theirs"> (x)'),
        _with_function("a = mine.F (x)  y = com.microsoft.Gelu (a)"),
    ),
    "unstored": (
        {"kind": "unstored", "types": ["float64"]},
        "value-type",
        _model("y = Cast<to = 11> (x)"),
        _model("y = Cast<to = 10> (x)"),
    ),
    "unstored, but at the ends": (
        {"kind": "unstored", "types": ["uint8"], "at_ends": True},
        "value-type",
        _model("a = Cast<to = 2> (x)  y = Identity (a)"),
        _model("y = Cast<to = 2> (x)"),
    ),
    "branch-ranks": (
        {"kind": "pattern", "rule": "branch-ranks"},
        "branch-ranks",
        _model(
            "y = If (c) <then_branch = t () => (float[] a) { a = Identity (x) },"
            " else_branch = e () => (float[] b) { b = Flatten (z) }>",
            inputs="bool c, float[4] x, float[4] z",
        ),
        _model(
            "y = If (c) <then_branch = t () => (float[] a) { a = Identity (x) },"
            " else_branch = e () => (float[] b) { b = Neg (z) }>",
            inputs="bool c, float[4] x, float[4] z",
        ),
    ),
    "branch-names": (
        {"kind": "pattern", "rule": "branch-names"},
        "branch-names",
        _model(
            "y = If (c) <then_branch = t () => (float[4] a) { a = Identity (x) },"
            " else_branch = e () => (float[4] a) { a = Neg (x) }>",
            inputs="bool c, float[4] x",
        ),
        _model(
            "y = If (c) <then_branch = t () => (float[4] a) { a = Identity (x) },"
            " else_branch = e () => (float[4] b) { b = Neg (x) }>",
            inputs="bool c, float[4] x",
        ),
    ),
    "unmade-body-output": (
        {"kind": "pattern", "rule": "unmade-body-output"},
        "unmade-body-output",
        _model(
            "y = If (c) <then_branch = t () => (float[4] a) <float[4] a = {1, 2, 3, 4}> { },"
            " else_branch = e () => (float[4] b) { b = Neg (x) }>",
            inputs="bool c, float[4] x",
        ),
        _model(
            "y = If (c) <then_branch = t () => (float[4] a) { a = Abs (x) },"
            " else_branch = e () => (float[4] b) { b = Neg (x) }>",
            inputs="bool c, float[4] x",
        ),
    ),
    "loop-shapes": (
        {"kind": "pattern", "rule": "loop-shapes"},
        "loop-shapes",
        _model(f"a, y = Loop (n, , x) <{LOOP}>", inputs="int64 n, float[4] x"),
        _model(f"n = Constant<value_int = 3> ()  a, y = Loop (n, , x) <{LOOP}>", inputs="float[4] x"),
    ),
    "loop-shapes, of what is carried": (
        {"kind": "pattern", "rule": "loop-shapes"},
        "loop-shapes",
        _model(f"y = Loop (n, , x) <{GROWING.format(size=8)}>", inputs="int64 n, float[4] x"),
        _model(f"y = Loop (n, , x) <{GROWING.format(size=4)}>", inputs="int64 n, float[4] x"),
    ),
    "constant-condition": (
        {"kind": "pattern", "rule": "constant-condition"},
        "constant-condition",
        _model(
            "y = If (c) <then_branch = t () => (float[4] a) { a = Identity (x) },"
            " else_branch = e () => (float[4] b) { b = Neg (x) }>",
            inputs="float[4] x",
            constants={"c": np.bool_(True)},
        ),
        _model(
            "y = If (c) <then_branch = t () => (float[4] a) { a = Identity (x) },"
            " else_branch = e () => (float[4] b) { b = Neg (x) }>",
            inputs="bool c, float[4] x",
        ),
    ),
    "mixed-pow": (
        {"kind": "pattern", "rule": "mixed-pow"},
        "mixed-pow",
        _model("y = Pow (x, b)", constants={"b": I64([2])}),
        _model("y = Pow (x, b)", constants={"b": np.float32([2])}),
    ),
    "data-dependent-shape": (
        {"kind": "pattern", "rule": "data-dependent-shape"},
        "data-dependent-shape",
        _model("y = NonZero (x)"),
        _model("y = Relu (x)"),
    ),
    "size-of-data": (
        {"kind": "pattern", "rule": "size-of-data"},
        "size-of-data",
        _model(
            "n = ArgMax<axis = 0, keepdims = 0> (x)  y = Range (a, n, b)",
            inputs="float[4] x",
            constants={"a": I64(0), "b": I64(1)},
        ),
        _model(
            "m = ArgMax<axis = 0, keepdims = 0> (x)  n = Size (x)  y = Range (a, n, b)",
            inputs="float[N] x",
            constants={"a": I64(0), "b": I64(1)},
        ),
    ),
    "int64-range": (
        {"kind": "pattern", "rule": "int64-range"},
        "int64-range",
        _model("y = Add (x, b)", inputs="int64[4] x", constants={"b": I64([1 << 40])}),
        _model(
            "y = Slice (x, a, b)", inputs="int64[4] x", constants={"a": I64([0]), "b": I64([np.iinfo(np.int64).max])}
        ),
    ),
    "same-activations": (
        {"kind": "pattern", "rule": "same-activations"},
        "same-activations",
        _model(
            'y = RNN<hidden_size = 2, direction = "bidirectional", activations = ["Tanh", "Relu"]> (x, w, r)',
            inputs="float[3, 1, 2] x, float w, float r",
        ),
        _model(
            'y = RNN<hidden_size = 2, direction = "bidirectional", activations = ["Tanh", "tanh"]> (x, w, r)',
            inputs="float[3, 1, 2] x, float w, float r",
        ),
    ),
    "same-activations, one way": (
        {"kind": "pattern", "rule": "same-activations"},
        "same-activations",
        _model(
            'y = LSTM<hidden_size = 2, direction = "bidirectional",'
            ' activations = ["Sigmoid", "Tanh", "Tanh", "Sigmoid", "Relu", "Tanh"]> (x, w, r)',
            inputs="float[3, 1, 2] x, float w, float r",
        ),
        _model(
            'y = LSTM<hidden_size = 2, activations = ["Sigmoid", "Tanh", "Relu"]> (x, w, r)',
            inputs="float[3, 1, 2] x, float w, float r",
        ),
    ),
    "chain": (
        {"kind": "chain", "operators": ["Neg"], "after": ["Abs", "Relu"]},
        "faulty-chain",
        _model("a = Relu (x)  b = Abs (a)  y = Neg (b)"),
        _model("a = Abs (x)  b = Relu (a)  y = Neg (b)"),
    ),
    "chain, of an input": (
        {"kind": "chain", "operators": ["Neg"], "after": ["input"]},
        "faulty-chain",
        _model("y = Neg (x)"),
        _model("a = Relu (x)  y = Neg (a)"),
    ),
}  # fmt: skip
PATTERNS = [each.identifier for each in (*of_patterns.RULES, *of_reports.RULES)]
CASES |= {
    f"{each.rule}, {each.identifier}": ({"kind": "pattern", "rule": each.rule}, each.rule, each.model, each.clean[0])
    for each in PROBLEMS
    if each.rule in {rule.identifier for rule in of_reports.RULES}
}


@pytest.mark.parametrize("case", CASES)
def test_a_fact_is_found_where_it_is_so(found, case):
    fact, rule, model, _ = CASES[case]
    rules, messages = found(model, fact, rule)
    assert [each for each, _ in rules] == [rule], messages


@pytest.mark.parametrize("case", CASES)
def test_a_fact_is_not_found_where_it_is_not_so(found, case):
    fact, _, _, model = CASES[case]
    assert found(model, fact) == ([], [])


def test_each_kind_of_fact_and_each_pattern_has_a_case():
    # What a target computes in is nothing that a rule finds: tests/fit/test_widening.py.
    assert {fact["kind"] for fact, *_ in CASES.values()} == KINDS.keys() - {"narrow"}
    assert {fact["rule"] for fact, *_ in CASES.values() if "rule" in fact} == set(PATTERNS)
    assert {rule for _, rule, *_ in CASES.values()} >= {each.identifier for each in (*of_facts.RULES, *of_empty.RULES)}


def test_a_dimension_that_may_be_0_is_named_and_one_that_is_0_is_an_error():
    dynamic = _model("y = GRU<hidden_size = 1> (x, w, r)", inputs="float[length, batch, 2] x", constants=LSTM)
    [finding] = opbridge.lint(dynamic.SerializeToString(), "onnxruntime", select=["empty-dimension"])
    assert finding.severity == "warning" and "aborts the process" in finding.message
    said = "Dimension 0 (length) and dimension 1 (batch) of the input 'X' of GRU may be 0."
    assert finding.message.startswith(said) and "min=1" in finding.remedy
    empty = _model("y = GRU<hidden_size = 1> (x, w, r)", inputs="float[length, 0, 2] x", constants=LSTM)
    [finding] = opbridge.lint(empty.SerializeToString(), "onnxruntime", select=["empty-dimension"])
    assert finding.severity == "error" and finding.message.startswith("Dimension 1 of the input 'X' of GRU is 0.")


def test_rules_have_one_identifier_each():
    identifiers = [each.identifier for each in catalogue()]
    assert len(identifiers) == len(set(identifiers))
    assert all(each.title and each.why and each.remedy for each in catalogue())
