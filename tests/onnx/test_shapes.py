"""The shapes that values have by their inputs are those that ONNX infers and the runtime gives."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from opbridge.onnx import shapes
from opbridge.onnx.builder import Builder

F, I, B = ir.DataType.FLOAT, ir.DataType.INT64, ir.DataType.BOOL  # noqa: E741


def _ints(*values):
    return np.array(values, dtype=np.int64)


# Operator, inputs (a shape stands for a value of float32, an array for a constant), attributes, shapes of the outputs.
CASES = [
    ("Relu", [["n", 3]], {}, [["n", 3]]),
    ("Cast", [[2, "n"]], {"to": I}, [[2, "n"]]),
    ("Add", [["n", 3], [3]], {}, [["n", 3]]),
    ("Add", [["n", 1], [4, 1, 3]], {}, [[4, "n", 3]]),
    ("Add", [["n", 3], ["m", 1]], {}, [[None, 3]]),
    ("Add", [["n", 3], [5, 1]], {}, [[5, 3]]),
    ("Max", [[2, 1], [1, 3], [1]], {}, [[2, 3]]),
    ("Transpose", [["n", 3, 4]], {}, [[4, 3, "n"]]),
    ("Transpose", [["n", 3, 4]], {"perm": [0, 2, 1]}, [["n", 4, 3]]),
    ("Reshape", [["n", 3, 4], _ints(0, 12)], {}, [["n", 12]]),
    ("Reshape", [["n", 3, 4], _ints(-1, 12)], {}, [["n", 12]]),
    ("Reshape", [["n", 3, 4], _ints(-1, 6)], {}, [[None, 6]]),
    ("Reshape", [[2, 3, 4], _ints(4, -1)], {}, [[4, 6]]),
    ("Reshape", [[0, 3], _ints(3, 0)], {"allowzero": 1}, [[3, 0]]),
    ("Flatten", [[2, 3, "n"]], {"axis": 2}, [[6, None]]),
    ("Unsqueeze", [["n", 3], _ints(0, -1)], {}, [[1, "n", 3, 1]]),
    ("Squeeze", [[1, "n", 1, 3], _ints(-2)], {}, [[1, "n", 3]]),
    ("Squeeze", [[1, 2, 1, 3]], {}, [[2, 3]]),
    ("Concat", [["n", 3], ["n", 4]], {"axis": -1}, [["n", 7]]),
    ("Concat", [["n", 3], [2, 3]], {"axis": 0}, [[None, 3]]),
    ("Split", [["n", 7]], {"axis": 1, "num_outputs": 3}, [["n", 3], ["n", 3], ["n", 1]]),
    ("Split", [["n", 7], _ints(2, 5)], {"axis": 1}, [["n", 2], ["n", 5]]),
    ("Split", [["n", 7]], {"axis": 0, "num_outputs": 2}, [[None, 7], [None, 7]]),
    ("Slice", [["n", 7], _ints(1), _ints(-1), _ints(1), _ints(2)], {}, [["n", 3]]),
    ("Slice", [[9], _ints(-1), _ints(-99), _ints(0), _ints(-2)], {}, [[5]]),
    ("Slice", [["n", 7], _ints(0, 5), _ints(1 << 62, 99)], {}, [["n", 2]]),
    ("Slice", [["n", 7], _ints(1), _ints(3), _ints(0)], {}, [[None, 7]]),
    ("Gather", [["n", 7], ["m", 2]], {"axis": 1}, [["n", "m", 2]]),
    ("Gather", [["n", 7], np.array(1)], {"axis": -1}, [["n"]]),
    ("GatherElements", [["n", 7], ["m", 2]], {"axis": 1}, [["m", 2]]),
    ("GatherND", [[5, "n", 7], ["m", 2]], {}, [["m", 7]]),
    ("ScatterND", [["n", 7], ["m", 1], ["m", 7]], {}, [["n", 7]]),
    ("Expand", [["n", 1], _ints(4, 1, 3)], {}, [[4, "n", 3]]),
    ("Tile", [["n", 2, 3], _ints(1, 1, 2)], {}, [["n", 2, 6]]),
    ("Pad", [["n", 3], _ints(0, 1, 0, 2)], {}, [["n", 6]]),
    ("Pad", [["n", 3], _ints(1, 2), None, _ints(-1)], {}, [["n", 6]]),
    ("ReduceSum", [["n", 3, 4], _ints(-1)], {}, [["n", 3, 1]]),
    ("ReduceSum", [["n", 3, 4], _ints(-1)], {"keepdims": 0}, [["n", 3]]),
    ("ReduceMax", [["n", 3, 4]], {"keepdims": 0}, [[]]),
    ("ReduceSum", [["n", 3]], {"noop_with_empty_axes": 1}, [["n", 3]]),
    ("ArgMax", [["n", 3, 4]], {"axis": 1, "keepdims": 0}, [["n", 4]]),
    ("MatMul", [["n", 2, 3], [3, 4]], {}, [["n", 2, 4]]),
    ("MatMul", [[3], ["n", 3, 4]], {}, [["n", 4]]),
    ("MatMul", [["n", 2, 3], [3]], {}, [["n", 2]]),
    ("MatMul", [[3], [3]], {}, [[]]),
    ("Gemm", [["n", 3], [4, 3]], {"transB": 1}, [["n", 4]]),
    ("TopK", [["n", 7], _ints(2)], {}, [["n", 2], ["n", 2]]),
    ("Shape", [["n", 7]], {}, [[2]]),
    ("Shape", [["n", 7, 2]], {"start": 1, "end": -1}, [[1]]),
    ("Size", [["n", 7]], {}, [[]]),
    ("Softmax", [["n", 7]], {}, [["n", 7]]),
    ("LayerNormalization", [["n", 7], [7]], {}, [["n", 7]]),
    ("ConstantOfShape", [_ints(2, 3)], {}, [[2, 3]]),
    # By ONNX's own inference
    ("Conv", [["n", 3, 8, 8], [4, 3, 3, 3]], {}, [["n", 4, 6, 6]]),
    ("MaxPool", [["n", 3, 8, 8]], {"kernel_shape": [2, 2], "strides": [2, 2]}, [["n", 3, 4, 4]]),
    ("NonZero", [["n", 7]], {}, [[2, None]]),
]


def _given(builder, index, given, dtype):
    if given is None:
        return None
    if isinstance(given, list):
        return builder.value(f"x{index}", dtype, given)
    return builder.constant(given)


def _built(op_type, inputs, attributes):
    builder = Builder(18)
    integers = op_type.startswith(("Gather", "ScatterND"))
    values = [_given(builder, at, given, I if integers and at == 1 else F) for at, given in enumerate(inputs)]
    return builder, builder.call(op_type, values, attributes)


@pytest.mark.parametrize(("op_type", "inputs", "attributes", "expected"), CASES, ids=lambda value: str(value)[:30])
def test_the_shapes_of_what_is_built(op_type, inputs, attributes, expected):
    _, outputs = _built(op_type, inputs, attributes)
    assert [shapes.sizes(output) for output in outputs][: len(expected)] == expected


@pytest.mark.parametrize(("op_type", "inputs", "attributes", "expected"), CASES, ids=lambda value: str(value)[:30])
def test_a_file_says_what_it_said_before(op_type, inputs, attributes, expected):
    """Inferred shapes are for translations; where ONNX infers sizes as well, they are the same."""
    builder, outputs = _built(op_type, inputs, attributes)
    if outputs[0].const_value is not None:
        return
    named = [value for value in outputs[0].producer().inputs if value is not None and value.const_value is None]
    ours = [shapes.sizes(output) for output in outputs]
    graph = builder.graph(list(dict.fromkeys(named)), outputs)
    assert all(output.shape is None for output in outputs)
    proto = onnx.shape_inference.infer_shapes(ir.to_proto(ir.Model(graph, ir_version=9)), strict_mode=True)
    for mine, output in zip(ours, proto.graph.output, strict=True):
        theirs = [dim.dim_value if dim.HasField("dim_value") else None for dim in output.type.tensor_type.shape.dim]
        assert mine is None or len(mine) == len(theirs)
        for left, right in zip(mine or (), theirs, strict=False):
            assert left == right or not (isinstance(left, int) and isinstance(right, int))


def test_sizes_pass_through_tensors_of_sizes():
    builder = Builder(18)
    x = builder.value("x", F, ["n", 3, "m"])
    shape = builder.emit("Shape", (x,))
    rows = builder.emit("Gather", (shape, 0))
    reshaped = builder.emit("Reshape", (x, [rows, -1, 3]))
    assert shapes.sizes(reshaped) == ["n", "m", 3]
    batch = builder.emit("Shape", (x,), {"start": 0, "end": 1})
    blank = builder.emit("ConstantOfShape", (builder.emit("Concat", (batch, [2]), {"axis": 0}),))
    assert shapes.sizes(blank) == ["n", 2]
    computed = builder.emit("Add", (rows, 1))
    assert shapes.sizes(builder.emit("Reshape", (x, [computed, 3]))) == [None, 3]


@pytest.mark.parametrize("opset", [9, 12, 18])
def test_forms_of_older_opsets(opset):
    builder = Builder(opset)
    x = builder.value("x", F, ["n", 3, 4])
    made = [
        builder.emit("Unsqueeze", (x, [1])),
        builder.emit("Squeeze", (builder.emit("Unsqueeze", (x, [1])), [1])),
        builder.emit("Slice", (x, [1], [3], [2])),
        builder.emit("ReduceSum", (x, [-1]), {"keepdims": 0}),
        builder.emit("Pad", (x, [0, 0, 1, 0, 0, 1])),
        builder.emit("TopK", (x, [2])),
        *builder.call("Split", (x, [1, 2]), {"axis": 1}),
    ]
    expected = [["n", 1, 3, 4], ["n", 3, 4], ["n", 3, 2], ["n", 3], ["n", 3, 6], ["n", 3, 2], ["n", 1, 4], ["n", 2, 4]]
    assert [shapes.sizes(value) for value in made] == expected


@pytest.mark.slow
def test_long_chains_have_shapes():
    builder = Builder(18)
    value = builder.value("x", F, ["n", 3])
    for _ in range(5000):
        value = builder.emit("Relu", (value,))
    assert shapes.sizes(value) == ["n", 3]
    assert value.rank == 2


def test_shapes_that_are_set_win():
    builder = Builder(18)
    value = builder.emit("Relu", (builder.value("x", F, [None, 3]),))
    assert shapes.sizes(value) == [None, 3]
    value.shape = ir.Shape(["rows", 3])
    assert shapes.sizes(value) == ["rows", 3]
    assert shapes.sizes(builder.emit("Neg", (value,))) == ["rows", 3]


def test_nodes_that_are_not_valid_have_no_shapes():
    builder = Builder(18)
    x = builder.value("x", F, [2, 3])
    assert builder.emit("Gather", (builder.value("y", F, []), x), {"axis": 0}).shape is None
    assert builder.emit("Transpose", (x,), {"perm": [0, 5]}).shape is None
