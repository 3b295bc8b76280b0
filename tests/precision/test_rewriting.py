"""Models in their new types: valid, with strict types, whatever they are made of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from precision.conftest import node_of, operators, ran

import opbridge

HEAD = '<ir_version: 9, opset_import: ["" : 19]>\n'

Cast = Callable[..., opbridge.Narrowed]

MODELS = {
    "a Cast to float in the middle": """g (float[2] x, int64[2] i) => (float[2] y) {
        r = Relu (x)  c = Cast <to = 1> (r)  e = Cast <to = 1> (i)  y = Add (c, e)
    }""",
    "CastLike, ConstantOfShape, EyeLike": """g (float[2,2] x, int64[2,2] i) => (float[2,2] y) {
        c = CastLike (i, x)  s = Shape (x)  k = ConstantOfShape <value = float[1] {0.5}> (s)
        e = EyeLike <dtype = 1> (i)  y = Sum (c, k, e, x)
    }""",
    "a default ConstantOfShape and EyeLike": """g (float[2,2] x) => (float[2,2] y) {
        s = Shape (x)  k = ConstantOfShape (s)  e = EyeLike (x)  y = Sum (k, e, x)
    }""",
    "Constant nodes": """g (float[2] x) => (float[2] y) {
        a = Constant <value = float[2] {1, 2}> ()  b = Constant <value_float = 3.0> ()
        c = Constant <value_floats = [4.0, 5.0]> ()  y = Sum (a, b, c, x)
    }""",
    "scales of a Resize": """g (float[1,1,2,2] x) => (float[1,1,4,4] y) <float[4] s = {1, 1, 2, 2}> {
        y = Resize <mode = "linear"> (x, , s)
    }""",
    "quantised numbers": """g (float[2] x) => (float[2] y) <float s = {0.02}, int8 z = {0}> {
        q = QuantizeLinear (x, s, z)  y = DequantizeLinear (q, s, z)
    }""",
    "an If with a value of outside": """g (float[2] x, bool b) => (float[2] y) {
        r = Relu (x)
        y = If (b) <
            then_branch = t () => (float[2] o) { two = Constant <value_float = 2.0> ()  o = Mul (r, two) },
            else_branch = e () => (float[2] p) { p = Neg (r) }
        >
    }""",
    "a Loop with a state and what it collects": """g (float[2] x, int64 n, bool b) => (float[2] y, float[k,2] z) {
        y, z = Loop (n, b, x) <body = t (int64 i, bool c, float[2] s) => (bool d, float[2] a, float[2] o) {
            d = Identity (c)  a = Add (s, x)  o = Tanh (a)
        }>
    }""",
    "a Scan": """g (float[2] h, float[3,2] x) => (float[2] y, float[3,2] z) {
        y, z = Scan <num_scan_inputs = 1, body = t (float[2] s, float[2] e) => (float[2] a, float[2] o) {
            a = Add (s, e)  o = Tanh (a)
        }> (h, x)
    }""",
    "sequences": """g (float[2] x) => (float[4] y) {
        r = Relu (x)  s = SequenceConstruct (r, x)  c = ConcatFromSequence <axis = 0> (s)  y = Neg (c)
    }""",
    "outputs that are an input and a weight": """g (float[2] x) => (float[2] y, float[2] x, float[2] w)
        <float[2] w = {1, 2}> { y = Add (x, w) }""",
    "a value that is an output twice used": """g (float[2] x) => (float[2] a, float[2] y) {
        a = Relu (x)  y = Neg (a)
    }""",
    "a statistic that LayerNormalization gives in float32": """g (float[2,4] x) => (float[2,4] y, float[2,1] m)
        <float[4] w = {1, 2, 3, 4}> { y, m = LayerNormalization (x, w) }""",
    "a float that is compared": """g (float[2] x) => (bool[2] y) <float k = {0.5}> { y = Less (x, k) }""",
    "numbers that are of float16 already": """g (float[2] x, float16[2] h) => (float[2] y) <float16[2] k = {1, 2}> {
        a = Mul (h, k)  c = Cast <to = 1> (a)  s = Cast <to = 10> (x)  p = Add (s, a)  q = Cast <to = 1> (p)
        y = Sum (x, c, q)
    }""",
    "an operator of ONNX Runtime": """g (float[2] x) => (float[2] y) {
        r = Relu (x)  q = com.microsoft.QuickGelu (r)  y = Neg (q)
    }""",
}


@pytest.mark.parametrize("keep_io", [False, True])
@pytest.mark.parametrize("to", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", MODELS)
def test_models(cast: Cast, name: str, to: str, keep_io: bool) -> None:
    head = HEAD.replace("]", ', "com.microsoft" : 1]') if "microsoft" in MODELS[name] else HEAD
    before = onnx.parser.parse_model(head + MODELS[name])
    found = cast(head + MODELS[name], to, keep_io=keep_io)
    assert found.runs and found.ok and found.cast
    after = found.model.graph
    assert [each.name for each in (*after.inputs, *after.outputs)] == [
        each.name for each in (*before.graph.input, *before.graph.output)
    ]
    types = {int(each.dtype or 0) for each in (*after.inputs, *after.outputs)}
    assert (onnx.TensorProto.FLOAT in types) == keep_io


def test_a_cast_that_is_there_gives_the_format(cast: Cast) -> None:
    model = cast(HEAD + MODELS["a Cast to float in the middle"]).model
    assert operators(model) == ["Relu", "Cast", "Add"]  # the one of a float changed nothing any more
    assert node_of(model, "Cast").attributes["to"].value == onnx.TensorProto.FLOAT16


def test_a_weight_of_both_types_is_stored_in_both(cast: Cast) -> None:
    text = """g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = Add (x, w)  y = Mul (a, w) }"""
    model = cast(HEAD + text, keep=["Mul"]).model
    assert {name: each.dtype for name, each in model.graph.initializers.items()} == {
        "w": ir.DataType.FLOAT,
        "w_float16": ir.DataType.FLOAT16,
    }


def test_a_weight_keeps_its_name(cast: Cast) -> None:
    text = """g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add (x, w) }"""
    assert [*cast(HEAD + text).model.graph.initializers] == ["w"]


def test_initializers_that_are_inputs_may_be_replaced(cast: Cast) -> None:
    text = """<ir_version: 9, opset_import: ["" : 19]>
    g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Add (x, w) }"""
    model = cast(text).model
    assert ran(model, x=np.zeros(2, np.float16))[0].tolist() == [1, 2]
    assert ran(model, x=np.zeros(2, np.float16), w=np.array([5, 6], np.float16))[0].tolist() == [5, 6]


def test_random_numbers(cast: Cast) -> None:
    text = """g (float[4] x) => (float[4] y) {
        r = RandomNormal <shape = [4]> ()  l = RandomNormalLike <dtype = 1> (x)  y = Sum (x, r, l)
    }"""
    found = cast(HEAD + text)
    assert found.runs and found.note == "Random numbers determine y, compared with fixed seeds."
    assert node_of(found.model, "RandomNormal").outputs[0].dtype != ir.DataType.FLOAT16  # without a kernel
    assert node_of(found.model, "RandomNormalLike").attributes["dtype"].value == onnx.TensorProto.FLOAT16
    assert ran(found.model, x=np.zeros(4, np.float16))[0].dtype == np.float16


def test_unknown_operators_keep_float32(cast: Cast) -> None:
    text = """<ir_version: 9, opset_import: ["" : 19, "my" : 1]>
    g (float[2] x) => (float[2] y) <float[2] k> { r = Relu (x)  f = my.Foo (r, x)  y = Neg (f) }"""
    found = cast(text)
    foo = node_of(found.model, "Foo")
    assert [each.producer().op_type for each in foo.inputs if each and each.producer()] == ["Cast", "Cast"]
    assert found.note.startswith("ONNX Runtime cannot run the float32 model") and not found.runs
    assert found.model.graph.outputs[0].dtype == ir.DataType.FLOAT16


def test_an_old_opset_is_raised(cast: Cast) -> None:
    text = """<ir_version: 3, opset_import: ["" : 8]>
    g (float[2,3] x, float[3] w) => (float[2,3] y) <float[3] w = {1, 2, 3}> { y = Mul (x, w) }"""
    found = cast(text)
    assert found.opsets == (8, 13) and [each.name for each in found.model.graph.inputs] == ["x"]


def test_bfloat16_is_raised_to_the_opset_of_its_operators(cast: Cast) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1,1,4,4] x) => (float[1,1,4,4] y) <float[1,1,1,1] w = {2}> { y = Conv (x, w) }"""
    found = cast(text, "bfloat16")
    assert found.opsets == (17, 22) and found.cast == 1


def test_large_weights_of_a_node_that_stays_for_its_values_are_stored_in_the_format(cast: Cast) -> None:
    text = """g (float[4,64] x) => (float[4,64] y) <float[64,64] w, float k = {60000}> {
        s = Mul (x, k)  m = MatMul (s, w)  y = Div (m, k)
    }"""
    proto = onnx.parser.parse_model(HEAD + text)
    del proto.graph.input[1:]
    weight = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    found = cast(proto.SerializeToString())
    product = node_of(found.model, "MatMul")
    assert found.model.graph.initializers["w"].dtype == ir.DataType.FLOAT16
    assert product.inputs[1].producer().op_type == "Cast" and product.inputs[1].dtype == ir.DataType.FLOAT
    asked = cast(proto.SerializeToString(), keep=["MatMul"])
    assert asked.model.graph.initializers["w"].dtype == ir.DataType.FLOAT


def test_batch_normalization_in_training(cast: Cast) -> None:
    text = """g (float[2,3,4,5] x, float[3] s, float[3] bias, float[3] mean, float[3] var)
        => (float[2,3,4,5] y, float[3] output_mean, float[3] output_var) {
        y, output_mean, output_var = BatchNormalization <training_mode = 1> (x, s, bias, mean, var)
    }"""
    for to in ("float16", "bfloat16"):
        found = cast('<ir_version: 9, opset_import: ["" : 15]>\n' + text, to)
        assert len(found.outputs) == 3 and found.error < 5e-3 and not found.kept


@pytest.mark.parametrize("to", ["float16", "bfloat16"])
def test_a_scan_of_opset_8(cast: Cast, to: str) -> None:
    text = """g (float[2,3] s, float[2,5,3] x) => (float[2,3] last, float[2,5,3] y) {
        last, y = Scan <num_scan_inputs = 1, body = body (float[3] i, float[3] e) => (float[3] o, float[3] p) {
            o = Add (i, e)  p = Identity (o)
        }> (, s, x)
    }"""
    found = cast('<ir_version: 3, opset_import: ["" : 8]>\n' + text, to)
    assert found.error is not None and found.error < 1e-2


def test_values_of_bodies_with_the_names_of_others(cast: Cast) -> None:
    text = """g (float[4] x, bool b) => (float[4] y) <float k = {2}> {
        r = Relu (x)
        y = If (b) <
            then_branch = t () => (float[4] o) <float k = {70000}> { m = Mul (r, k)  o = Div (m, k) },
            else_branch = e () => (float[4] p) { p = Add (r, k) }
        >
    }"""
    found = cast(HEAD + text)
    x = np.array([1, 2, 3, 4], np.float16)
    assert ran(found.model, x=x, b=np.array(True))[0].tolist() == [1, 2, 3, 4]
    assert ran(found.model, x=x, b=np.array(False))[0].tolist() == [3, 4, 5, 6]
