"""Inputs that differ in type, of any operator: cast as PyTorch promotes, and the results beside PyTorch's."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from helpers.repairs import fix, kept, model

from opbridge.fixing.evaluator import compare_with_evaluator
from opbridge.runtimes.onnxruntime import open_session

X = np.float32([[1.5, -2.25], [0.5, 3.0]])
N = np.int64([[2, 3], [1, -4]])
SHORT = np.int32([2, 3])


def _run(fixed, *arrays):
    session = open_session(fixed.content, False)
    return session.run(None, dict(zip((each.name for each in session.get_inputs()), arrays, strict=True)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operator", "function"),
    [
        ("Add", torch.add),
        ("Sub", torch.sub),
        ("Mul", torch.mul),
        ("Div", torch.div),
        ("Max", torch.maximum),
        ("Min", torch.minimum),
        ("Equal", torch.eq),
        ("Less", torch.lt),
        ("Sum", torch.add),
        ("Concat <axis = 0>", lambda x, n: torch.cat([x, n])),
        ("MatMul", lambda x, n: x @ n.to(x.dtype)),
        ("PRelu", lambda x, n: torch.where(x < 0, x * n, x)),
    ],
)
def test_two_inputs(operator, function):
    name = operator.split()[0]
    gives = "bool" if name in ("Equal", "Less") else "float"
    made = model(f"(float[2, 2] x, int64[2, 2] n) => ({gives}[k, 2] y) {{ y = {operator} (x, n) }}")
    fixed = fix(made)
    assert [each.done for each in fixed.changes] == [f"cast the inputs of {name} to float32"] and not fixed.left
    expected = function(torch.from_numpy(X), torch.from_numpy(N)).numpy()
    found = _run(fixed, X, N)[0]
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert compare_with_evaluator(made.SerializeToString(), fixed.content).ok


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(bool[2] c, float[2] a, double[2] b) => (double[2] y) { y = Where (c, a, b) }", ["Cast", "Where"]),
        ("(float[2, 2] a, float[2, 2] b, int32[2] c) => (float[2, 2] y) { y = Gemm (a, b, c) }", ["Cast", "Gemm"]),
        ("(int32[2] a, float m) => (float[2] y) { y = Clip (a, m) }", ["Cast", "Clip"]),
        ("(float16[2] a, float16[2] b, float[2] c) => (float[2] y) { y = Sum (a, b, c) }", ["Cast", "Cast", "Sum"]),
    ],
)
def test_three_inputs(text, expected):
    fixed = fix(model(text))
    assert [each.op_type for each in fixed.model.graph] == expected and not fixed.left
    open_session(fixed.content, False)


def test_a_scalar_takes_the_type_of_the_tensor():
    fixed = fix(model("(float16[2] x, double s) => (float16[2] y) { y = Mul (x, s) }"))
    assert [each.done for each in fixed.changes] == ["cast the inputs of Mul to float16"]


@pytest.mark.slow
def test_what_follows_is_promoted_and_the_outputs_keep_their_types():
    made = model(
        "(float16[2] x, float[2] p) => (float16[2] y, float16[2] z)"
        " { a = Add (x, p) b = Relu (a) y = Mul (b, x) c = Cast <to = 10> (b) z = Neg (c) }"
    )
    fixed = fix(made)
    assert not fixed.left
    assert [each.op_type for each in fixed.model.graph] == ["Cast", "Add", "Relu", "Cast", "Mul", "Cast", "Cast", "Neg"]
    x, p = np.float16([0.1, -300.0]), np.float32([1e-4, 70000.0])
    wide = torch.relu(torch.from_numpy(x) + torch.from_numpy(p))
    found = _run(fixed, x, p)
    assert [each.dtype for each in found] == [np.float16, np.float16]
    np.testing.assert_array_equal(found[0], (wide * torch.from_numpy(x)).half().numpy())
    np.testing.assert_array_equal(found[1], -wide.half().numpy())
    assert compare_with_evaluator(made.SerializeToString(), fixed.content).ok


def test_what_an_operator_does_not_support_is_cast_back():
    made = model("(float[3] x, int64[2] i, float[2] f) => (float[2] y) { a = Add (i, f) y = Gather (x, a) }")
    made.graph.value_info.append(onnx.helper.make_tensor_value_info("a", onnx.TensorProto.INT64, [2]))
    fixed = fix(made)
    assert [each.op_type for each in fixed.model.graph] == ["Cast", "Add", "Cast", "Gather"] and not fixed.left
    assert _run(fixed, np.float32([5, 6, 7]), np.int64([0, 1]), np.float32([0.5, 1]))[0].tolist() == [5, 7]


def test_types_that_pytorch_does_not_promote_are_kept():
    kept(
        model("(uint32[2] x, int32[2] n) => (uint32[2] y) { y = Add (x, n) }"),
        "",
        "mixed-types",
        "There is no repair for Add of int32 and uint32, which PyTorch does not promote.",
    )
    kept(
        model("(int32[2] x, float[2] n) => (int32[2] y) { y = BitwiseAnd (x, n) }"),
        "",
        "mixed-types",
        "which are float32 in PyTorch, at opset 18",
    )


def test_nodes_that_a_repair_leaves_unread_are_removed_and_others_are_kept():
    made = model(
        "(float[4] x, float[2] u) => (float[4] y) { d = Constant <value_ints = [7]> () o = Constant <value_int = 1> ()"
        " i = Unsqueeze (o, z) j = Unsqueeze (i, z) v = ScatterND (x, j, u) y = Relu (v) }",
        z=np.int64([0]),
    )
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.float32([1]), "w"))
    changed = ir.from_proto(made)
    from opbridge.fixing.site import Around

    around = Around(changed, [])
    node = next(each for each in changed.graph if each.op_type == "Relu")
    node.replace_input_with(0, changed.graph.inputs[0])
    around.look()
    assert [each.op_type for each in changed.graph] == ["Constant", "Relu"]
    assert list(changed.graph.initializers) == ["w"]
