"""What is found in a model for a target, with what is known of the model's values, and how it is said."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tiny_models import IMAGE
from helpers.tiny_models import model_of as _model
from onnx import helper

from opbridge.errors import UsageError
from opbridge.rules import lint

I64 = np.int64
TWO_WAYS = _model(
    'y = RNN<hidden_size = 2, direction = "bidirectional", activations = ["Tanh", "Relu"]> (x, w, r)',
    inputs="float[3, 1, 2] x, float w, float r",
)
EXECUTION_PROVIDERS = [
    "coreml-mlprogram", "coreml-neuralnetwork", "cuda", "directml", "qnn", "webgpu", "webgpu-native", "webnn"
]  # fmt: skip

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


def test_a_function_has_an_opset_of_its_own(found):
    model = _model("y = mine.Sample (x, g)", inputs=f"{IMAGE}, float[1, 4, 4, 2] g", domain="mine")
    body = [helper.make_node("GridSample", ["a", "b"], ["c"])]
    model.functions.add().CopyFrom(
        helper.make_function("mine", "Sample", ["a", "b"], ["c"], body, [helper.make_opsetid("", 16)])
    )
    fact = {"kind": "revision", "operators": ["GridSample"]}
    assert found(model, {**fact, "newest": 19}) == ([], [])
    assert found(model, {**fact, "oldest": 20})[0] == [("unsupported-revision", "GridSample")]


def test_a_finding_has_the_severity_and_the_note_of_its_fact(tmp_path):
    path = tmp_path / "chip.toml"
    path.write_text(
        'versions = ["1.0"]\n[[fact]]\nkind = "missing"\noperators = ["Relu"]\nsource = "asked: here"\n'
        'severity = "warning"\nnote = "It runs on the CPU."\n'
    )
    findings = lint(_model("y = Relu (x)").SerializeToString(), str(path), select=["missing-operator"])
    (one,) = findings
    assert (one.severity, one.source, one.operator) == ("warning", "asked: here", "Relu")
    assert one.message == "The target does not support the operator Relu. It runs on the CPU."
    assert findings.ok


def test_a_fact_that_names_no_rule_is_refused(found):
    with pytest.raises(UsageError, match=r"unknown rule 'branch-rank' .* Did you mean 'branch-ranks'\?"):
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
        ("webgpu", _model("y = ConvTranspose (x, w)", inputs="float[1, 3, 4, 4, 4] x, float[3, 3, 1, 1, 1] w"),
         ["unsupported-rank"]),
        ("webgpu", _model("y = Conv (x, w)", inputs="float[1, 3, 4, 4, 4] x, float[3, 3, 1, 1, 1] w"), []),
        ("webgpu", _model("y = Conv (x, w)", inputs="float16[1, 3, 4, 4, 4] x, float16[3, 3, 1, 1, 1] w"),
         ["unsupported-form"]),
        ("webgpu-native", _model("y = Sin (x)", opset=21), []),
        ("webgpu-native", _model("n = Shape (x)  m = Add (n, n)  y = Expand (x, m)", opset=21), []),
        ("webgpu-native", _model("y = Cast <to = 1> (n)", inputs="int64[4] n", opset=21), ["unsupported-type"]),
        ("webgpu-native", _model("m = Shape (x)  k = Add (m, n)  y = Expand (x, k)", inputs="float[4] x, int64[1] n",
                                 opset=21), ["unsupported-type"]),
        ("webgpu-native", _model("y = Sin (x)", opset=22), ["unsupported-revision"]),
        ("cuda", _model("y = Acos (x)"), ["missing-operator"]),
        ("cuda", _model("y = Sin (x)"), []),
        ("cuda:1.20", _model("y = GroupNormalization <num_groups = 2> (x, s, s)", opset=21,
                             inputs="float[2, 4, 3] x, float[4] s"), []),
        ("directml", _model("y = Relu (x)", inputs="double[4] x"), ["unsupported-type"]),
        ("directml", _model("y = Conv (x, w)", inputs=f"{IMAGE}, float[3, 3, 1, 1] w", opset=22),
         ["unsupported-revision"]),
        ("qnn", _model("y = Relu (x)"), ["dynamic-inputs"]),
        ("qnn:1.20", _model("y = CumSum (x, a)", inputs="float[4] x", constants={"a": I64(0)}), ["missing-operator"]),
        ("openvino", _model("y = Det (x)"), ["missing-operator"]),
        ("mnn", _model("y = Mish (x)"), ["missing-operator"]),
        ("mnn:3.5", _model("y = Det (x)"), []),
        ("openvino", _model("y = Elu (c)", inputs="float[4] c"), []),
        ("tensorrt:10.1", TWO_WAYS, ["same-activations"]),
    ],
)  # fmt: skip
def test_what_is_found_for_the_targets_that_are_known(target, model, wanted):
    findings = lint(model.SerializeToString(), target)
    assert [each.rule for each in findings if each.source] == wanted, [each.message for each in findings]


@pytest.mark.parametrize("target", EXECUTION_PROVIDERS)
def test_what_the_cpu_takes_over_is_no_error(target):
    findings = lint(_model("y = Det (x)", inputs="float[4, 4] x").SerializeToString(), target)
    assert [(each.rule, each.severity) for each in findings if each.source] == [("missing-operator", "warning")]
    assert "on the CPU" in findings[0].message
