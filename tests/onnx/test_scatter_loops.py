"""Scatters with a reduction at opsets that have none, against ONNX Runtime's own at opset 18."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from helpers.rows import slow_but_first
from onnx import TensorProto, helper

from opbridge.conversion.converting import converted
from opbridge.errors import ConversionError

REDUCTIONS = ("add", "mul", "max", "min")
DTYPES = ("float32", "float64", "int32", "int64", "int8", "int16", "uint8", "uint16", "uint32", "uint64")
_OF_TRUTH = {"add": np.logical_or, "max": np.logical_or, "mul": np.logical_and, "min": np.logical_and}
_OF_NUMBERS = {"add": np.add, "max": np.maximum, "mul": np.multiply, "min": np.minimum}


def _node(op: str, reduction: str, dtype: Any, ranks: tuple[int, int, int], **attributes: Any) -> bytes:
    """A model of one node of opset 18, all of whose sizes are dynamic."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    types = (kind, TensorProto.INT64, kind)
    given = [
        helper.make_tensor_value_info(name, type_, [f"{name}{at}" for at in range(rank)])
        for name, type_, rank in zip("xiu", types, ranks, strict=True)
    ]
    node = helper.make_node(op, ["x", "i", "u"], ["y"], name="node", reduction=reduction, **attributes)
    result = helper.make_tensor_value_info("y", kind, [f"x{at}" for at in range(ranks[0])])
    graph = helper.make_graph([node], "g", given, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 8
    return model.SerializeToString()


def _assert_same(content: bytes, target: int, *runs: tuple[np.ndarray, ...]) -> None:
    lowered = converted(content, "model", target, isolated=False).to_bytes()
    onnx.checker.check_model(onnx.ModelProto.FromString(lowered), full_check=True)
    first, second = (onnxruntime.InferenceSession(each) for each in (content, lowered))
    for arrays in runs:
        feeds = dict(zip("xiu", arrays, strict=True))
        (want,), (got,) = first.run(None, feeds), second.run(None, feeds)
        assert want.dtype == got.dtype
        np.testing.assert_array_equal(got, want)


def _random(dtype: str, *shape: int) -> np.ndarray:
    """Numbers of all sizes, so that sums and products of integers wrap around."""
    rng = np.random.default_rng(sum(shape))
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_of_each_type(dtype, reduction):
    x, updates = _random(dtype, 3, 4), _random(dtype, 3, 5)
    index = np.random.default_rng(0).integers(-4, 4, (3, 5))
    runs = [(x, index[:, :count], updates[:, :count]) for count in (0, 1, 5)]
    _assert_same(_node("ScatterElements", reduction, dtype, (2, 2, 2), axis=-1), 11, *runs)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(
    ("dtype", "target"), [(np.bool_, 11), (np.float16, 11), (ml_dtypes.bfloat16, 13), (ml_dtypes.bfloat16, 15)]
)
def test_types_that_onnxruntime_does_not_reduce(dtype, target, reduction):
    x, updates = (_random("float32", 3, each).astype(dtype) for each in (4, 5))
    if dtype == np.bool_:
        x[:, ::2] = updates[:, ::2] = False
    index = np.random.default_rng(0).integers(-4, 4, (3, 5))
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18]> g (float[a, b] x, int64[a, c] i, float[a, c] u) => (float[a, b] y) {'
        f" v = Cast <to = {kind}> (x)"
        f" w = Cast <to = {kind}> (u)"
        f' r = ScatterElements <axis = 1, reduction = "{reduction}"> (v, i, w)'
        " y = Cast <to = 1> (r) }"
    )
    content = converted(model.SerializeToString(), "model", target, isolated=False).to_bytes()
    feeds = {"x": x.astype(np.float32), "i": index, "u": updates.astype(np.float32)}
    (got,) = onnxruntime.InferenceSession(content).run(None, feeds)
    of = (_OF_TRUTH if dtype == np.bool_ else _OF_NUMBERS)[reduction]
    want = x.copy()
    for row, column in np.ndindex(3, 5):
        place = row, index[row, column]
        want[place] = of(want[place], updates[row, column])
    np.testing.assert_allclose(got, want.astype(np.float32), rtol=1e-2 if dtype == np.float16 else 0)


@pytest.mark.parametrize("target", [11, 13, 15])
@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8"])
@pytest.mark.parametrize("reduction", ["add", "min"])
@pytest.mark.parametrize("lead", [(), (5,), (2, 3), (2, 1, 3), (0,), (2, 0), (1, 1)])
@pytest.mark.parametrize("depth", slow_but_first([1, 2, 3]))
def test_slices(lead, depth, reduction, dtype, target):
    x = _random(dtype, 2, 3, 4)
    updates = _random(dtype, *lead, *x.shape[depth:])
    index = np.random.default_rng(0).integers(-2, 2, (*lead, depth))
    nothing = (x[..., :0], index, updates[..., :0]) if depth < 3 else (x, index, updates)
    ranks = (3, len(lead) + 1, updates.ndim)
    _assert_same(_node("ScatterND", reduction, dtype, ranks), target, (x, index, updates), nothing)


def test_the_largest_is_a_loop_where_the_sum_is_one_node():
    made = onnx.ModelProto.FromString(
        converted(_node("ScatterElements", "max", "float32", (1, 1, 1)), "model", 17, isolated=False).to_bytes()
    )
    assert "Loop" in {each.op_type for each in made.graph.node}
    content = converted(_node("ScatterElements", "add", "float32", (1, 1, 1)), "model", 17, isolated=False).to_bytes()
    assert [each.op_type for each in onnx.ModelProto.FromString(content).graph.node] == ["ScatterElements"]


def test_text_is_refused():
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18]> g (string[n] x, int64[m] i, string[m] u) => (string[n] y)'
        ' { y = ScatterElements <reduction = "add"> (x, i, u) }'
    )
    with pytest.raises(ConversionError, match="reduction=add of string"):
        converted(model.SerializeToString(), "model", 11, isolated=False)
