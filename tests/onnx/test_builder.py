"""Nodes from operator calls."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnxscript import opset18, opset20, opset23

from opbridge.errors import TranslationError
from opbridge.onnx.builder import Builder


@pytest.fixture
def builder():
    return Builder(20)


def _x(builder, dtype=ir.DataType.FLOAT, shape=(2, 3)):
    return builder.value(builder.unique("x"), dtype, list(shape))


def test_numbers_take_the_type_of_the_tensor_beside_them(builder):
    with builder.translating():
        total = opset18.Add(_x(builder, ir.DataType.FLOAT16), 2.5)
    assert total.dtype == ir.DataType.FLOAT16
    constant = total.producer().inputs[1].const_value
    assert constant.dtype == ir.DataType.FLOAT16
    assert constant.numpy() == 2.5


def test_a_fraction_does_not_become_an_integer(builder):
    with builder.translating(), pytest.raises(TranslationError, match=r"2\.5.*INT64"):
        opset18.Add(_x(builder, ir.DataType.INT64), 2.5)


def test_inputs_of_two_types_are_refused(builder):
    with builder.translating(), pytest.raises(TranslationError, match="same type.*FLOAT and INT64"):
        opset18.Add(_x(builder), _x(builder, ir.DataType.INT64))


def test_lists_of_numbers_and_values_become_one_tensor(builder):
    size = builder.value("n", ir.DataType.INT64, [])
    with builder.translating():
        reshaped = opset18.Reshape(_x(builder), [2, size, -1])
    stacked = reshaped.producer().inputs[1]
    assert stacked.dtype == ir.DataType.INT64
    assert stacked.producer().op_type == "Concat"


def test_equal_constants_are_one(builder):
    assert builder.constant([1, 2]) is builder.constant([1, 2])
    assert builder.constant([1, 2]) is not builder.constant([[1, 2]])
    assert builder.constant(1) is not builder.constant(1.0)
    assert builder.constant(0.0) is not builder.constant(-0.0)


def test_python_operators(builder):
    x, mask = _x(builder), _x(builder, ir.DataType.BOOL)
    with builder.translating():
        made = [x + 1, 1 + x, x - 1, 1 - x, x * 2, x / 2, x @ x, x**2, x % 2, -x, x < 1, x <= 1, x > 1, x >= 1]
        made += [mask & mask, mask | mask, mask ^ mask, ~mask]
    types = [value.producer().op_type for value in made]
    assert types == [
        *("Add", "Add", "Sub", "Sub", "Mul", "Div", "MatMul", "Pow", "Mod", "Neg"),
        *("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor", "Not"),
    ]
    assert made[8].producer().attributes["fmod"].value == 1


def test_equality_is_identity_inside_translations_and_outside(builder):
    x, y = _x(builder), _x(builder)

    def check():
        assert x == x
        assert x != y
        assert (x == y) is False
        assert (x != x) is False
        assert x not in [None, "x", y]
        assert [x, y].index(y) == 1
        assert {x: 1, y: 2}[y] == 2

    check()
    with builder.translating():
        check()
    assert not builder.nodes


@pytest.mark.parametrize("compare", [lambda x: x == 0, lambda x: x != 0.5, lambda x: 2 in [x]])
def test_a_value_is_not_compared_with_a_number_by_equality(builder, compare):
    with pytest.raises(TranslationError, match="op.Equal"):
        compare(_x(builder))


def test_a_value_has_no_truth(builder):
    with builder.translating(), pytest.raises(TranslationError, match="Where or If"):
        bool(_x(builder) > 0)


@pytest.mark.parametrize(
    ("call", "count"),
    [
        (lambda x: opset18.MaxPool(x, kernel_shape=[2]), 2),
        (lambda x: opset18.Split(x, None, axis=0, num_outputs=2), 2),
        (lambda x: opset18.TopK(x, [1]), 2),
        (lambda x: opset18.Relu(x), 1),
    ],
)
def test_the_number_of_outputs_is_the_schemas(builder, call, count):
    with builder.translating():
        outputs = call(_x(builder))
    assert (len(outputs) if isinstance(outputs, tuple) else 1) == count


def test_an_operator_newer_than_the_model_is_refused():
    builder = Builder(18)
    with builder.translating(), pytest.raises(TranslationError, match="opset 20.*opset_version=20"):
        opset20.Gelu(_x(builder))
    with builder.translating(), pytest.raises(TranslationError, match="opset_version=23"):
        opset23.RMSNormalization(_x(builder), _x(builder), axis=-1)


def test_operators_that_changed_are_put_in_their_new_form():
    builder = Builder(20)
    x = _x(builder, shape=(1, 8, 1))
    with builder.translating():
        spectrum = opset18.DFT(x, axis=1)
        sampled = opset18.GridSample(_x(builder, shape=(1, 1, 4, 4)), _x(builder, shape=(1, 2, 2, 2)), mode="bicubic")
    dft = spectrum.producer()
    assert "axis" not in dft.attributes
    assert dft.inputs[2].const_value.numpy() == 1
    assert sampled.producer().attributes["mode"].value == "cubic"


def test_an_unknown_attribute_is_refused(builder):
    with builder.translating(), pytest.raises(TranslationError, match="unknown attribute 'axes'"):
        builder.call("Softmax", [_x(builder)], {"axes": 1})


def test_attributes_at_their_default_are_left_out(builder):
    node = builder.emit("Softmax", (_x(builder),), {"axis": -1}).producer()
    assert not node.attributes
    assert builder.emit("Softmax", (_x(builder),), {"axis": 1}).producer().attributes["axis"].value == 1


def test_names_are_readable_and_unique(builder):
    with builder.labelled("layer1.0/relu", {"opbridge.operator": "aten::relu"}):
        first, second = (builder.emit("Relu", (_x(builder),)).producer() for _ in range(2))
    assert [first.name, second.name] == ["layer1.0/relu/Relu", "layer1.0/relu/Relu_1"]
    assert first.metadata_props["opbridge.operator"] == "aten::relu"


def test_small_arrays_keep_their_bits(builder):
    array = np.array([np.nan, -0.0, np.inf], dtype=np.float32)
    assert builder.constant(array).const_value.numpy().tobytes() == array.tobytes()


def test_numbers_cast_like_a_double_keep_its_digits(builder):
    with builder.translating():
        tenth = opset18.CastLike(0.1, _x(builder, ir.DataType.DOUBLE))
    assert tenth.const_value.numpy() == np.float64(0.1)


def test_operators_with_bodies_have_their_bodies_outputs(builder):
    x, condition = _x(builder), builder.value("c", ir.DataType.BOOL, [])
    with builder.translating():
        body = builder.body("then", [], lambda: [opset18.Relu(x), opset18.Shape(builder.value("n", None, None))])
        outputs = builder.call("If", [condition], {"then_branch": body, "else_branch": body})
    assert [output.dtype for output in outputs] == [ir.DataType.FLOAT, ir.DataType.INT64]
