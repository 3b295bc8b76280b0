"""Each adapter on a tiny model, in both directions, against the original in ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from opbridge.conversion.converting import converted
from opbridge.conversion.types import Types
from opbridge.errors import ConversionError
from opbridge.side_by_side import compare, difference

F, INT64, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def model(op: str, opset: int, inputs: list[Any], outputs: int = 1, **attributes: Any) -> onnx.ModelProto:
    """A model of one node: an input is a shape of float32, a (dtype, shape), an array as a constant, or None."""
    names, given, stored = [], [], []
    for at, each in enumerate(inputs):
        name = "" if each is None else f"i{at}"
        names.append(name)
        if isinstance(each, np.ndarray):
            stored.append(numpy_helper.from_array(each, name))
        elif each is not None:
            dtype, shape = each if isinstance(each, tuple) else (F, each)
            given.append(helper.make_tensor_value_info(name, dtype, shape))
    made = [f"o{at}" for at in range(outputs)]
    node = helper.make_node(op, names, made, name="node", **attributes)
    results = [onnx.ValueInfoProto(name=name) for name in made]
    graph = helper.make_graph([node], "g", given, results, stored)
    found = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    found.ir_version = helper.find_min_ir_version_for(found.opset_import)
    found = onnx.shape_inference.infer_shapes(found)
    for value in found.graph.output:
        if not value.type.WhichOneof("value"):
            value.type.CopyFrom(helper.make_tensor_type_proto(F, [None] * 3))
    return found


def assert_same(original: bytes, other: bytes) -> None:
    """Both give the same: in ONNX Runtime, or by ONNX's reference where ONNX Runtime has no kernel for the original."""
    compared = compare(original, other, random=False, isolated=False)
    assert compared.ok, compared.summary()
    if compared.runs:
        return
    first, second = (onnx.ModelProto.FromString(each) for each in (original, other))
    rng = np.random.default_rng(0)
    feeds = {}
    for value in first.graph.input:
        shape = [dim.dim_value or 3 for dim in value.type.tensor_type.shape.dim]
        feeds[value.name] = rng.standard_normal(shape).astype(np.float32)
    results = [ReferenceEvaluator(each).run(None, feeds) for each in (first, second)]
    for want, have in zip(*results, strict=True):
        assert difference(want, have)[1]


def ints(*numbers: int) -> np.ndarray:
    return np.asarray(numbers, np.int64)


def floats(*numbers: float) -> np.ndarray:
    return np.asarray(numbers, np.float32)


def number(value: float) -> np.ndarray:
    return np.asarray(value, np.float32)


X = ["n", 4, 6]

# operator, its opset, the opset to go to, inputs, attributes
CASES: list[tuple[str, int, int, list[Any], dict[str, Any]]] = [
    ("Squeeze", 13, 11, [["n", 1, 3], ints(1)], {}),
    ("Squeeze", 13, 9, [["n", 1, 3], ints(-2)], {}),
    ("Squeeze", 11, 21, [["n", 1, 3]], {"axes": [1]}),
    ("Unsqueeze", 13, 9, [X, ints(-1, 0)], {}),
    ("Unsqueeze", 11, 13, [X], {"axes": [0, 3]}),
    ("ReduceMean", 18, 9, [X, ints(-1)], {"keepdims": 0}),
    ("ReduceMean", 18, 13, [X], {}),
    ("ReduceMax", 11, 20, [X], {"axes": [1]}),
    ("ReduceMax", 20, 11, [(B, [3, 4]), ints(1)], {}),
    ("ReduceSum", 13, 11, [X, ints(1, 2)], {}),
    ("ReduceSum", 13, 9, [X], {"noop_with_empty_axes": 1}),
    ("ReduceSum", 9, 18, [X], {"axes": [0]}),
    ("Split", 18, 13, [[7, 3]], {"num_outputs": 3, "axis": 0}),
    ("Split", 18, 13, [["n", 3]], {"num_outputs": 1, "axis": 0}),
    ("Split", 18, 11, [X, ints(1, 3)], {"axis": 1}),
    ("Split", 11, 18, [X], {"axis": 2, "split": [2, 4]}),
    ("Slice", 13, 9, [X, ints(1), ints(3), ints(-1)], {}),
    ("Slice", 9, 13, [X], {"starts": [1, 0], "ends": [3, 5], "axes": [1, 2]}),
    ("Pad", 18, 11, [X, ints(1, 2), number(3.0), ints(-1)], {}),
    ("Pad", 13, 9, [[2, 3], ints(1, 0, 0, 2)], {"mode": "edge"}),
    ("Pad", 9, 21, [[2, 3]], {"pads": [1, 0, 0, 2], "value": 2.5}),
    ("TopK", 11, 9, [[3, 5], ints(2)], {"largest": 0}),
    ("TopK", 9, 11, [[3, 5]], {"k": 2}),
    ("Clip", 13, 9, [X, number(-0.5), number(0.5)], {}),
    ("Clip", 13, 10, [X, (F, []), None], {}),
    ("Clip", 12, 11, [(INT64, ["n"]), np.asarray(1, np.int64), np.asarray(5, np.int64)], {}),
    ("Clip", 9, 13, [X], {"min": -0.5}),
    ("Softmax", 13, 11, [X], {"axis": 1}),
    ("Softmax", 13, 9, [X], {}),
    ("LogSoftmax", 11, 13, [X], {"axis": 1}),
    ("Hardmax", 13, 11, [X], {"axis": 0}),
    ("Dropout", 13, 9, [X, number(0.3)], {}),
    ("Dropout", 10, 22, [X], {"ratio": 0.3}),
    ("BatchNormalization", 15, 9, [["n", 3, 4], *[floats(0.5, 1, 2)] * 4], {}),
    ("BatchNormalization", 9, 15, [["n", 3, 4], *[floats(0.5, 1, 2)] * 4], {}),
    ("Upsample", 9, 13, [[1, 2, 3, 3], floats(1, 1, 2, 2)], {"mode": "nearest"}),
    ("Upsample", 7, 11, [[1, 2, 3, 3]], {"mode": "nearest", "scales": [1.0, 1.0, 2.0, 2.0]}),
    (
        "Resize",
        13,
        9,
        [[1, 2, 3, 3], None, floats(1, 1, 2, 3)],
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    ),
    ("Resize", 19, 11, [[1, 2, 4, 4], None, None, ints(1, 2, 7, 5)], {"mode": "linear"}),
    ("Resize", 18, 13, [[1, 2, 4, 4], None, floats(2, 3)], {"mode": "linear", "axes": [2, 3]}),
    ("Resize", 18, 13, [["n", 2, 4, 4], None, None, ints(7, 9)], {"mode": "cubic", "axes": [-2, -1]}),
    ("Pow", 12, 11, [X, (INT64, [6])], {}),
    ("Pow", 13, 9, [X, ints(2)], {}),
    ("Equal", 11, 9, [X, [6]], {}),
    ("Max", 12, 11, [(INT64, ["n", 3]), (INT64, [3])], {}),
    ("Add", 14, 13, [(TensorProto.INT8, ["n", 3]), (TensorProto.INT8, [3])], {}),
    ("Where", 16, 9, [(B, [4, 6]), X, X], {}),
    ("IsInf", 10, 9, [X], {}),
    ("Round", 11, 9, [X], {}),
    ("Mod", 13, 9, [(INT64, ["n"]), ints(3)], {}),
    ("Gelu", 20, 11, [X], {}),
    ("Gelu", 20, 11, [X], {"approximate": "tanh"}),
    ("HardSwish", 14, 9, [X], {}),
    ("Mish", 18, 9, [X], {}),
    ("Celu", 12, 11, [X], {"alpha": 1.5}),
    ("LayerNormalization", 17, 9, [X, floats(1, 2, 3, 4, 5, 6), floats(1, 2, 3, 4, 5, 6)], {}),
    ("LayerNormalization", 17, 13, [X, np.ones((4, 6), np.float32)], {"axis": 1}),
    ("GroupNormalization", 21, 17, [["n", 4, 5], floats(1, 2, 3, 4), floats(0, 1, 0, 1)], {"num_groups": 2}),
    ("RMSNormalization", 23, 13, [X, floats(1, 2, 3, 4, 5, 6)], {}),
    ("GridSample", 20, 16, [[1, 2, 4, 4], [1, 3, 3, 2]], {"mode": "linear"}),
    ("GridSample", 16, 20, [[1, 2, 4, 4], [1, 3, 3, 2]], {"mode": "bicubic"}),
    ("AveragePool", 19, 11, [["n", 2, 6, 6]], {"kernel_shape": [2, 2], "dilations": [1, 1]}),
    ("Reshape", 14, 13, [X, ints(-1, 24)], {"allowzero": 1}),
    ("Shape", 15, 13, [X], {"start": 1, "end": -1}),
    ("Trilu", 14, 11, [["n", 4, 4], np.asarray(1, np.int64)], {}),
    ("Trilu", 14, 11, [["n", "m"]], {"upper": 0}),
    ("Constant", 12, 9, [], {"value_ints": [1, 2]}),
    (
        "LSTM",
        14,
        13,
        [[2, 3, 4], np.ones((1, 8, 4), np.float32), np.ones((1, 8, 2), np.float32)],
        {"layout": 1, "hidden_size": 2},
    ),
    (
        "GRU",
        14,
        13,
        [[2, 3, 4], np.ones((1, 6, 4), np.float32), np.ones((1, 6, 2), np.float32)],
        {"layout": 1, "hidden_size": 2},
    ),
    ("DFT", 20, 17, [[2, 5, 4, 1], None, np.asarray(1, np.int64)], {}),
    ("DFT", 17, 20, [[2, 5, 1]], {"axis": 1}),
    ("Gather", 11, 9, [X, ints(-1, 0)], {"axis": -1}),
    ("GatherElements", 11, 9, [[3, 4], np.asarray([[0, -1, 2, 1]], np.int64)], {"axis": 0}),
    ("ScatterElements", 11, 9, [[3, 4], np.asarray([[0, 1, 2, 1]], np.int64), [1, 4]], {}),
    ("Scatter", 9, 11, [[3, 4], np.asarray([[0, 1, 2, 1]], np.int64), [1, 4]], {}),
    ("Col2Im", 18, 11, [["n", 8, 12], ints(4, 5), ints(2, 2)], {}),
    (
        "Col2Im",
        18,
        13,
        [["n", 12, 6], ints(7, 10), ints(2, 3)],
        {"dilations": [2, 1], "pads": [1, 0, 0, 1], "strides": [3, 3]},
    ),
    ("Col2Im", 18, 17, [[1, 3, 9], ints(10), ints(3)], {"pads": [0, 1]}),
    ("Col2Im", 18, 17, [[1, 8, 8], ints(3, 3, 3), ints(2, 2, 2)], {}),
    ("DepthToSpace", 11, 9, [[1, 8, 2, 2]], {"blocksize": 2, "mode": "CRD"}),
    ("Gemm", 11, 9, [[3, 4], [4, 2]], {}),
    ("CastLike", 19, 13, [X, (INT64, [1])], {}),
    ("MaxPool", 12, 8, [["n", 2, 6, 6]], {"kernel_shape": [2, 2], "ceil_mode": 0}),
    ("QuantizeLinear", 21, 13, [["n", 3], number(0.1)], {"output_dtype": TensorProto.INT8}),
    ("QuantizeLinear", 13, 11, [["n", 3], floats(0.1, 0.2, 0.3), np.zeros(3, np.int8)], {"axis": 1}),
    (
        "DequantizeLinear",
        13,
        11,
        [(TensorProto.INT8, ["n", 3]), floats(0.1, 0.2, 0.3), np.ones(3, np.int8)],
        {"axis": 1},
    ),
    ("Sum", 8, 7, [X, [6]], {}),
    ("ConstantOfShape", 9, 8, [ints(2, 3)], {}),
]


@pytest.mark.parametrize(
    ("op", "opset", "target", "inputs", "attributes"),
    [pytest.param(*each, id=f"{each[0]}-{each[1]}-{each[2]}-{at}") for at, each in enumerate(CASES)],
)
def test_adapter(op: str, opset: int, target: int, inputs: list[Any], attributes: dict[str, Any]) -> None:
    counts = {"TopK": 2, "Split": attributes.get("num_outputs", 2)}
    original = model(op, opset, inputs, counts.get(op, 1), **attributes)
    content = original.SerializeToString()
    found = converted(content, "model", target, isolated=False)
    again = onnx.ModelProto.FromString(found.to_bytes())
    onnx.checker.check_model(again, full_check=True)
    assert_same(content, found.to_bytes())
    back = converted(found.to_bytes(), "model", opset, isolated=False)  # the other direction
    assert_same(content, back.to_bytes())


@pytest.mark.parametrize(
    ("op", "opset", "target", "inputs", "attributes", "why"),
    [
        ("Slice", 13, 9, [X, (INT64, [1]), (INT64, [1])], {}, "starts computed at run time"),
        ("Slice", 13, 9, [X, ints(0), ints(4), ints(1), ints(2)], {}, "steps other than 1"),
        ("Pad", 19, 18, [[2, 3], ints(1, 0, 0, 1)], {"mode": "wrap"}, "mode=wrap"),
        (
            "Resize",
            18,
            17,
            [[1, 1, 4, 4], None, floats(1, 1, 0.5, 0.5)],
            {"mode": "linear", "antialias": 1},
            "antialias",
        ),
        ("GridSample", 20, 15, [[1, 2, 4, 4], [1, 3, 3, 2]], {}, "needs opset 16"),
        ("ScatterND", 18, 16, [[4], (INT64, None), [1]], {"reduction": "max"}, "of a tensor of unknown rank"),
        ("BitwiseAnd", 18, 17, [(INT64, [3]), (INT64, [3])], {}, "needs opset 18"),
        ("ArgMax", 12, 11, [X], {"select_last_index": 1}, "select_last_index=1"),
        ("Split", 18, 11, [["n", 3]], {"num_outputs": 2}, "parts computed at run time"),
        ("BatchNormalization", 7, 9, [["n", 3], *[floats(1, 1, 1)] * 4], {"spatial": 0}, "spatial=0"),
    ],
)
def test_refusal(op: str, opset: int, target: int, inputs: list[Any], attributes: dict[str, Any], why: str) -> None:
    original = model(op, opset, inputs, 2 if op == "Split" else 1, **attributes)
    with pytest.raises(ConversionError, match=why) as refused:
        converted(original.SerializeToString(), "model", target, isolated=False)
    (only,) = refused.value.refusals
    assert only.operator == op and only.node == "node"


def test_nothing_is_known_of_the_shape_of_nothing():
    damaged = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 4] x) => (int64[k] s) { s = Shape (x) }'
    )
    del damaged.graph.node[0].input[:]
    model = ir.from_proto(damaged)
    assert Types(model, None).constant(model.graph[0].outputs[0]) is None


SCAN = """<ir_version: 3, opset_import: ["" : 8]>
g (float[b,3] s, float[b,5,3] x, float[b,5,3] z) => (float[b,3] last, float[b,5,1] y) {
    last, y = Scan <num_scan_inputs = 2, directions = [0, 1], body = body (float[3] i, float[3] e, float[3] f)
        => (float[3] o, float[1] p) {
        t = Sub (i, e)  o = Add (t, f)  p = ReduceSum <axes = [0]> (o)
    }> (%s, s, x, z)
}"""


@pytest.mark.parametrize("target", [9, 13, 21])
def test_a_scan_over_a_batch(target: int) -> None:
    original = onnx.parser.parse_model(SCAN % "").SerializeToString()
    found = converted(original, "model", target, isolated=False)
    assert_same(original, found.to_bytes())
    compared = compare(original, found.to_bytes(), random=False, isolated=False)
    assert len(compared.runs) > 1


def test_a_scan_over_sequences_of_several_lengths() -> None:
    text = SCAN.replace("g (", "g (int64[b] lengths, ") % "lengths"
    with pytest.raises(ConversionError, match="Scan with sequence_lens"):
        converted(onnx.parser.parse_model(text).SerializeToString(), "model", 13, isolated=False)
