"""What is computed while the graph is built is what onnxruntime computes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from opbridge.onnx.builder import Builder

OPSET = 20


def _by_onnxruntime(op_type, arrays, attributes):
    builder = Builder(OPSET)
    inputs = [builder.value(f"x{i}", ir.DataType.from_numpy(array.dtype), None) for i, array in enumerate(arrays)]
    names = iter(inputs)
    outputs = builder.call(op_type, [next(names) for _ in arrays], attributes)
    graph = builder.graph(inputs, outputs)
    for output in outputs:
        output.name = output.name or "y"
    model = ir.to_proto(ir.Model(graph, ir_version=9)).SerializeToString()
    session = onnxruntime.InferenceSession(model)
    return session.run(None, {f"x{i}": array for i, array in enumerate(arrays)})[0]


def _int(*values):
    return np.array(values if len(values) != 1 else values[0], dtype=np.int64)


CASES = [
    ("Add", [_int(1, 2), _int(3, 4)], {}),
    ("Sub", [_int(1, 2), _int(3, -4)], {}),
    ("Mul", [_int(-3, 2), _int(3, 4)], {}),
    ("Div", [_int(-7, 7, -7, 7), _int(2, -2, -2, 2)], {}),
    ("Neg", [_int(-7, 7)], {}),
    ("Max", [_int(1, 9), _int(5)], {}),
    ("Min", [_int(1, 9), _int(5)], {}),
    ("Equal", [_int(1, 2), _int(1, 3)], {}),
    ("Greater", [_int(1, 2), _int(1, 0)], {}),
    ("Less", [_int(1, 2), _int(1, 3)], {}),
    ("Not", [np.array([True, False])], {}),
    ("Where", [np.array([True, False]), _int(1, 2), _int(3, 4)], {}),
    ("Concat", [_int(1, 2), _int(3, 4)], {"axis": 0}),
    ("Gather", [_int(5, 6, 7), _int(2, -1)], {}),
    ("Gather", [np.arange(6).reshape(2, 3), _int(1)], {"axis": 1}),
    ("Range", [np.array(2), np.array(9), np.array(3)], {}),
    ("Range", [np.array(9), np.array(2), np.array(-3)], {}),
    ("Squeeze", [np.arange(3).reshape(1, 3, 1)], {}),
    ("Squeeze", [np.arange(3).reshape(1, 3, 1), np.array([2])], {}),
    ("Unsqueeze", [np.arange(3), np.array([0, 2])], {}),
    ("Reshape", [np.arange(6), np.array([2, -1])], {}),
    ("Slice", [np.arange(9), np.array([1]), np.array([7]), np.array([0]), np.array([2])], {}),
    ("Slice", [np.arange(9), np.array([-1]), np.array([-99]), np.array([0]), np.array([-2])], {}),
    ("Slice", [np.arange(9), np.array([3]), np.array([2**62])], {}),
    ("Slice", [np.arange(12).reshape(3, 4), np.array([0]), np.array([2]), np.array([-1])], {}),
    ("Cast", [_int(1, 2)], {"to": ir.DataType.FLOAT}),
    ("Cast", [np.array([1.0, 0.0], dtype=np.float32)], {"to": ir.DataType.BOOL}),
    ("Cast", [np.array([0.1], dtype=np.float64)], {"to": ir.DataType.FLOAT}),
]


@pytest.mark.parametrize(("op_type", "arrays", "attributes"), CASES, ids=lambda value: str(value)[:30])
def test_constants_are_computed_as_onnxruntime_does(op_type, arrays, attributes):
    builder = Builder(OPSET)
    (folded,) = builder.call(op_type, [builder.constant(array) for array in arrays], attributes)
    assert not builder.nodes, "a node was built for what is known"
    expected = _by_onnxruntime(op_type, arrays, attributes)
    np.testing.assert_array_equal(folded.const_value.numpy(), expected)
    assert folded.const_value.numpy().dtype == expected.dtype


@pytest.mark.parametrize(
    ("op_type", "arrays", "attributes"),
    [
        ("Add", [np.array([0.1], np.float32), np.array([0.2], np.float32)], {}),
        ("Div", [_int(1), _int(0)], {}),
        ("Cast", [np.array([1.5, 3e9], np.float32)], {"to": ir.DataType.INT32}),
        ("Mul", [np.zeros(5000, np.int64), _int(1)], {}),
    ],
    ids=["rounding", "division by zero", "inexact cast", "too large"],
)
def test_what_the_runtime_decides_is_left_to_it(op_type, arrays, attributes):
    builder = Builder(OPSET)
    builder.call(op_type, [builder.constant(array) for array in arrays], attributes)
    assert [node.op_type for node in builder.nodes] == [op_type]


def _value(builder, shape, dtype=ir.DataType.FLOAT):
    return builder.value("x", dtype, shape)


def test_known_dimensions_need_no_shape():
    builder = Builder(OPSET)
    x = _value(builder, [2, "batch", 3])
    shape = builder.emit("Shape", (x,))
    assert [node.op_type for node in builder.nodes] == ["Shape"]
    assert builder.emit("Gather", (shape, 2)).const_value.numpy().tolist() == 3
    assert builder.emit("Gather", (shape, 1)).const_value is None
    assert builder.emit("Shape", (_value(builder, [2, 3]),)).const_value.numpy().tolist() == [2, 3]
    assert builder.emit("Shape", (x,), {"start": 2}).const_value.numpy().tolist() == [3]
    assert builder.emit("Size", (_value(builder, [2, 3]),)).const_value.numpy().tolist() == 6


@pytest.mark.parametrize(
    ("op_type", "others", "attributes"),
    [
        ("Identity", [], {}),
        ("Cast", [], {"to": ir.DataType.FLOAT}),
        ("Reshape", [[2, 3]], {}),
        ("Expand", [[1, 3]], {}),
        ("Expand", [[3]], {}),
        ("Transpose", [], {"perm": [0, 1]}),
    ],
)
def test_what_changes_nothing_is_left_out(op_type, others, attributes):
    builder = Builder(OPSET)
    x = _value(builder, [2, 3])
    assert builder.emit(op_type, (x, *others), attributes) is x


@pytest.mark.parametrize(
    ("op_type", "others", "attributes"),
    [
        ("Cast", [], {"to": ir.DataType.DOUBLE}),
        ("Reshape", [[3, 2]], {}),
        ("Expand", [[4, 2, 3]], {}),
        ("Expand", [[4, 1, 1]], {}),
        ("Transpose", [], {}),
        ("Transpose", [], {"perm": [1, 0]}),
    ],
)
def test_what_changes_something_is_built(op_type, others, attributes):
    builder = Builder(OPSET)
    assert builder.emit(op_type, (_value(builder, [2, 3]), *others), attributes).producer().op_type == op_type
