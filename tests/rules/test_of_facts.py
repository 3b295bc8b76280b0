"""Each kind of fact, and each rule of patterns, finds what it is about in a tiny model, and nothing in another."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from opbridge.errors import UsageError
from opbridge.rules import catalogue, lint, of_facts, of_patterns
from opbridge.targets.facts import KINDS

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def _model(body, *, opset=20, constants=(), inputs="float[N, 4] x", outputs="y", domain=""):
    """A model of a body in ONNX's own syntax, with initializers by their names.

    Args:
        body: The nodes.
        opset: The opset of ONNX's operators.
        constants: Names and what they hold.
        inputs: The inputs, as in "float[2, 3] x, int64[1] k".
        outputs: The names of the outputs, whose types are not said.
        domain: A further domain to import.
    """
    imports = f'"" : {opset}' + (f', "{domain}" : 1' if domain else "")
    ends = ", ".join(f"float {each}" for each in outputs.split())
    model = onnx.parser.parse_model(f"<ir_version: 9, opset_import: [{imports}]> g ({inputs}) => ({ends}) {{ {body} }}")
    for value in model.graph.output:
        value.type.Clear()
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(found), name) for name, found in dict(constants).items()
    )
    return model


@pytest.fixture
def found(tmp_path):
    """Gives a function that says what is found in a model for a target of one fact: the rules, the messages apart."""

    def run(model, fact, select="*"):
        lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in fact.items())
        path = tmp_path / "chip.toml"
        path.write_text(f'versions = ["1.0"]\n[[fact]]\nsource = "asked: here"\n{lines}\n')
        findings = lint(model.SerializeToString(), str(path), select=[select])
        of_target = [each for each in findings if each.source == "asked: here"]
        return [(each.rule, each.operator) for each in of_target], [each.message for each in of_target]

    return run


I64 = np.int64
IMAGE = "float[1, 3, 8, 8] x"

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
    "mixed-types": (
        {"kind": "pattern", "rule": "mixed-types"},
        "mixed-types",
        _model("y = Add (x, b)", constants={"b": I64([1])}),
        _model("y = Pow (x, b)", constants={"b": I64([1])}),
    ),
    "mixed-types of three": (
        {"kind": "pattern", "rule": "mixed-types"},
        "mixed-types",
        _model("y = Concat<axis = 0> (x, x, b)", constants={"b": I64([[1, 2, 3, 4]])}),
        _model("y = Where (c, x, x)", inputs="float[N, 4] x, bool[4] c"),
    ),
    "mixed-types of a scatter": (
        {"kind": "pattern", "rule": "mixed-types"},
        "mixed-types",
        _model("y = ScatterND (x, i, u)", inputs="float[4] x, int64[1, 1] i, int64[1] u"),
        _model("y = ScatterND (x, i, u)", inputs="float[4] x, int64[1, 1] i, float[1] u"),
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
}  # fmt: skip


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
    assert {fact["kind"] for fact, *_ in CASES.values()} == set(KINDS)
    assert {fact["rule"] for fact, *_ in CASES.values() if "rule" in fact} == {
        each.identifier for each in of_patterns.RULES
    }
    assert {rule for _, rule, *_ in CASES.values()} >= {each.identifier for each in of_facts.RULES}


def test_rules_have_one_identifier_each():
    identifiers = [each.identifier for each in catalogue()]
    assert len(identifiers) == len(set(identifiers))
    assert all(each.title and each.why and each.remedy for each in catalogue())


BODIES = {
    "If": _model(
        "y = If (c) <then_branch = t () => (float[4] a) { a = Elu<alpha = 2.0> (x) },"
        " else_branch = e () => (float[4] b) { b = Neg (x) }>",
        inputs="bool c, float[4] x",
    ),
    "Loop": _model(
        "y = Loop (n, c, x) <body = b (int64 i, bool more, float[4] v) => (bool more_too, float[4] w)"
        " { more_too = Identity (more)  w = Elu<alpha = 2.0> (v) }>",
        inputs="int64 n, bool c, float[4] x",
    ),
    "a Loop in an If": _model(
        "y = If (c) <then_branch = t () => (float[4] a) { a = Loop (n, c, x)"
        " <body = b (int64 i, bool more, float[4] v) => (bool more_too, float[4] w)"
        " { more_too = Identity (more)  w = Elu<alpha = 2.0> (v) }> },"
        " else_branch = e () => (float[4] b) { b = Neg (x) }>",
        inputs="bool c, int64 n, float[4] x",
    ),
}


@pytest.mark.parametrize("case", BODIES)
def test_facts_hold_in_bodies(found, case):
    fact = {"kind": "attribute", "operators": ["Elu"], "attribute": "alpha", "allowed": [1.0]}
    rules, _ = found(BODIES[case], fact)
    assert rules == [("unsupported-attribute", "Elu")]


def test_a_body_reads_constants_from_outside(found):
    model = _model(
        "y = If (c) <then_branch = t () => (float[] a) { a = Expand (x, s) },"
        " else_branch = e () => (float[] b) { b = Expand (x, r) }>",
        inputs="bool c, float[4] x, int64[2] r",
        constants={"s": I64([2, 4])},
    )
    rules, messages = found(model, {"kind": "constant", "operators": ["Expand"], "inputs": ["shape"]})
    assert rules == [("constant-input", "Expand")], messages


def test_what_an_iteration_carries_is_no_constant(found):
    model = _model(
        "y = Loop (n, c, s) <body = b (int64 i, bool more, int64[2] v) => (bool more_too, int64[2] v_too)"
        " { more_too = Identity (more)  z = Expand (x, v)  v_too = Identity (v) }>",
        inputs="int64 n, bool c, float[4] x",
        constants={"s": I64([2, 4])},
    )
    rules, _ = found(model, {"kind": "constant", "operators": ["Expand"], "inputs": ["shape"]})
    assert rules == [("constant-input", "Expand")]


def _sequences():
    """A model that collects the turns of a Loop in a sequence, and joins them in a branch."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["more"], ["more_too"]),
            helper.make_node("SequenceInsert", ["s", "x"], ["s_too"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", INT64, []),
            helper.make_tensor_value_info("more", BOOL, []),
            helper.make_tensor_sequence_value_info("s", FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("more_too", BOOL, []),
            helper.make_tensor_sequence_value_info("s_too", FLOAT, None),
        ],
    )
    branches = [
        helper.make_graph(
            [
                helper.make_node("SequenceInsert", ["all", "x"], [f"{name}_more"]),
                helper.make_node("ConcatFromSequence", [f"{name}_more"], [f"{name}_out"], axis=axis),
            ],
            name,
            [],
            [helper.make_tensor_value_info(f"{name}_out", FLOAT, None)],
        )
        for name, axis in (("then", 0), ("else", 1))
    ]
    graph = helper.make_graph(
        [
            helper.make_node("SequenceEmpty", [], ["none"]),
            helper.make_node("Loop", ["n", "", "none"], ["all"], body=body),
            helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1]),
        ],
        "g",
        [
            helper.make_tensor_value_info("x", FLOAT, [2, "N"]),
            helper.make_tensor_value_info("n", INT64, []),
            helper.make_tensor_value_info("c", BOOL, []),
        ],
        [helper.make_tensor_value_info("y", FLOAT, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.mark.parametrize(
    ("fact", "wanted"),
    [
        ({"kind": "missing", "operators": ["SequenceInsert"]}, [("missing-operator", "SequenceInsert")] * 3),
        ({"kind": "rank", "operators": ["SequenceInsert"], "allowed": [4]}, []),
        ({"kind": "rank", "operators": ["SequenceInsert"], "input": "tensor", "allowed": [2]}, []),
        (
            {"kind": "attribute", "operators": ["ConcatFromSequence"], "attribute": "axis", "allowed": [0]},
            [("unsupported-attribute", "ConcatFromSequence")],
        ),
        (
            {"kind": "static", "operators": ["SequenceInsert"], "inputs": ["tensor"]},
            [("dynamic-shape", "SequenceInsert")] * 3,
        ),
        ({"kind": "types", "operators": ["SequenceInsert"], "inputs": ["tensor"], "allowed": ["float32"]}, []),
        ({"kind": "pattern", "rule": "branch-ranks"}, []),
    ],
)
def test_sequences_in_bodies(found, fact, wanted):
    rules, messages = found(_sequences(), fact)
    assert rules == wanted, messages


def test_a_sequence_of_a_type_that_the_target_has_not_is_found(found):
    rules, _ = found(_sequences(), {"kind": "unstored", "types": ["float32"]})
    assert {operator for _, operator in rules} >= {"SequenceInsert"}


# Nodes whose outputs have types that no file says, and what they are of.
TYPED = {
    "of an input": ("y = Relu (x)", "float32"),
    "of an attribute": ("y = Cast<to = 7> (x)", "int64"),
    "of the schema": ("y = Shape (x)", "int64"),
    "of a constant": ("y = Constant<value_ints = [1, 2]> ()", "int64"),
    "of another constant": ("y = ConstantOfShape (s)", "float32"),
    "of no input": ("y = RandomNormal<shape = [2]> ()", "float32"),
    "of a part": ("a, y = Split<axis = 1, num_outputs = 2> (x)", "float32"),
    "of a branch": (
        "y = If (c) <then_branch = t () => (int64[] a) { a = Shape (x) },"
        " else_branch = e () => (int64[] b) { b = Shape<end = 1> (x) }>",
        "int64",
    ),
}


@pytest.mark.parametrize("case", TYPED)
def test_types_that_a_file_does_not_say_are_found_out(found, case):
    body, wanted = TYPED[case]
    model = _model(f"{body}  z = Neg (y)", inputs="float[N, 4] x, bool c", constants={"s": I64([2])}, outputs="z")
    others = [each for each in ("float32", "int64", "bool") if each != wanted]
    assert found(model, {"kind": "types", "operators": ["Neg"], "allowed": [wanted]}) == ([], [])
    assert found(model, {"kind": "types", "operators": ["Neg"], "allowed": others})[0] == [("unsupported-type", "Neg")]


def test_a_node_without_a_name_is_named_by_its_output(tmp_path):
    path = tmp_path / "chip.toml"
    path.write_text('versions = ["1.0"]\n[[fact]]\nkind = "missing"\noperators = ["Relu"]\nsource = "asked: here"\n')
    model = _model("a = Relu (x)  y = Relu (a)")
    assert [each.node for each in lint(model.SerializeToString(), str(path))] == ["a", "y"]


def test_a_function_of_the_model_is_no_missing_operator(found):
    model = _model("y = mine.Twice (x)", domain="mine")
    model.functions.add().CopyFrom(
        helper.make_function(
            "mine", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 20)]
        )
    )
    assert found(model, {"kind": "only", "operators": ["Add"]}) == ([], [])
    assert found(model, {"kind": "only", "operators": ["Mul"]})[0] == [("missing-operator", "Add")]


def test_a_finding_has_the_severity_and_the_note_of_its_fact(tmp_path):
    path = tmp_path / "chip.toml"
    path.write_text(
        'versions = ["1.0"]\n[[fact]]\nkind = "missing"\noperators = ["Relu"]\nsource = "asked: here"\n'
        'severity = "warning"\nnote = "It runs on the CPU."\n'
    )
    findings = lint(_model("y = Relu (x)").SerializeToString(), str(path), select=["missing-operator"])
    (one,) = findings
    assert (one.severity, one.source, one.operator) == ("warning", "asked: here", "Relu")
    assert one.message == "The target has no operator Relu. It runs on the CPU."
    assert findings.ok


def test_a_fact_that_names_no_rule_is_refused(found):
    with pytest.raises(UsageError, match=r"there is no rule 'branch-rank' .* Did you mean 'branch-ranks'\?"):
        found(_model("y = Relu (x)"), {"kind": "pattern", "rule": "branch-rank"})


@pytest.mark.parametrize(
    ("target", "model", "wanted"),
    [
        ("coreml-mlprogram", _model("y = Gemm<alpha = 0.5> (x, w)", constants={"w": np.float32(np.eye(4))}),
         ["unsupported-attribute"]),
        ("coreml-mlprogram:1.20", _model("y = Erf (x)"), ["missing-operator"]),
        ("coreml-mlprogram:1.21", _model("y = Erf (x)"), []),
        ("coreml-neuralnetwork", _model("y = MatMul (x, w)", inputs="float[2, 4] x, float[4, 4] w"),
         ["constant-input"]),
        ("webnn", _model("y = Reshape (x, s)", constants={"s": I64([0, 4])}), ["unsupported-number"]),
        ("webnn:1.23", _model("y = DepthToSpace<blocksize = 1> (x)", inputs=IMAGE), ["missing-operator"]),
        ("webgpu", _model("y = Conv (x, w)", inputs="float[1, 3, 4, 4, 4] x, float[3, 3, 1, 1, 1] w"),
         ["unsupported-rank"]),
        ("qnn", _model("y = Relu (x)"), ["dynamic-inputs"]),
        ("qnn:1.20", _model("y = CumSum (x, a)", inputs="float[4] x", constants={"a": I64(0)}), ["missing-operator"]),
        ("openvino", _model("y = Det (x)"), ["missing-operator"]),
        ("openvino", _model("y = Elu (c)", inputs="float[4] c"), []),
        ("tensorrt:10.1", CASES["same-activations"][2], ["same-activations"]),
    ],
)  # fmt: skip
def test_what_is_found_for_the_targets_that_are_known(target, model, wanted):
    findings = lint(model.SerializeToString(), target)
    assert [each.rule for each in findings if each.source] == wanted, [each.message for each in findings]


@pytest.mark.parametrize("target", ["coreml-mlprogram", "coreml-neuralnetwork", "qnn", "webgpu", "webnn"])
def test_what_the_cpu_takes_over_is_no_error(target):
    findings = lint(_model("y = Det (x)", inputs="float[4, 4] x").SerializeToString(), target)
    assert [(each.rule, each.severity) for each in findings if each.source] == [("missing-operator", "warning")]
    assert "on the CPU" in findings[0].message
