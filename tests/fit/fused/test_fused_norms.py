"""RMS norms of synthetic graphs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from opbridge.fit.fused.fusing import Fusing, fuse
from opbridge.fit.fused.norms import fuse_norms

_NORM = """
    <ir_version: 10, opset_import: ["" : {opset}]>
    agraph (float[b, s, 4] a, float[b, s, 4] c, float[4] w) => (float[b, s, 4] y, float[b, s, 4] after)
    <int64[1] axis = {{{axis}}}, float epsilon = {{0.5}}, float two = {{2.0}}, float three = {{3.0}}>
    {{
        x = Add (a, c)
        square = {square}
        mean = ReduceMean <keepdims = 1> (square, axis)
        total = Add (mean, epsilon)
        root = Sqrt (total)
        {scaled}
        y = Mul ({weighted})
        after = Add (x, y)
    }}
"""
_SCALED = "one_by = Reciprocal (root) n = Mul (x, one_by)"


def _model(opset=21, axis=-1, square="Mul (x, x)", scaled=_SCALED, weighted="w, n"):
    text = _NORM.format(opset=opset, axis=axis, square=square, scaled=scaled, weighted=weighted)
    model = ir.from_onnx_text(text)
    for node in model.graph:
        for each in node.outputs:
            rest = 1 if each.name in ("mean", "total", "root", "one_by") else 4
            each.shape, each.type = ir.Shape(["b", "s", rest]), ir.TensorType(ir.DataType.FLOAT)
    return model


def _results(model):
    session = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString())
    draw = np.random.default_rng(0).standard_normal
    shapes = {"a": (2, 3, 4), "c": (2, 3, 4), "w": (4,)}
    given = {each.name: draw(shapes[each.name], np.float32) for each in session.get_inputs()}
    return session.run(None, given)


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"weighted": "n, w"},
        {"square": "Pow (x, two)"},
        {"axis": 2},
        {"scaled": "n = Div (x, root)"},
    ],
)
def test_a_norm_after_a_sum(form):
    model = _model(**form)
    wanted = _results(model)
    assert "1 SkipSimplifiedLayerNormalization" in fuse(model, Fusing(), 21)
    assert [node.op_type for node in model.graph] == ["SkipSimplifiedLayerNormalization", "Add"]
    for one, other in zip(_results(model), wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "form",
    [
        {"square": "Mul (x, a)"},
        {"square": "Pow (x, three)"},
        {"axis": 1},
        {"weighted": "n, n"},
        {"scaled": "n = Div (root, x)"},
    ],
)
def test_what_is_no_norm_stays(form):
    model = _model(**form)
    before = [node.op_type for node in model.graph]
    assert fuse(model, Fusing(), 21) == ""
    assert [node.op_type for node in model.graph] == before


def test_a_norm_of_an_input():
    for opset, made in (
        (17, "SimplifiedLayerNormalization"),
        (21, "SimplifiedLayerNormalization"),
        (23, "RMSNormalization"),
    ):
        model = _model(opset)
        if opset < 18:
            mean = next(node for node in model.graph if node.op_type == "ReduceMean")
            mean.resize_inputs(1)
            mean.attributes.add(ir.AttrInt64s("axes", [-1]))
        add = next(iter(model.graph))
        add.outputs[0].replace_all_uses_with(model.graph.inputs[0])
        wanted = _results(model)
        assert f"1 {made}" in fuse(model, Fusing(), opset)
        for one, other in zip(_results(model), wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_the_nodes_of_a_norm_are_those_that_onnxruntime_fuses(tmp_path):
    model = _model()
    next(iter(model.graph)).outputs[0].replace_all_uses_with(model.graph.inputs[0])
    fuse(model, Fusing(), 21)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "loaded.onnx")
    onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString(), options)
    assert "SimplifiedLayerNormalization" in [node.op_type for node in ir.load(tmp_path / "loaded.onnx").graph]


def test_a_sum_of_other_sizes_is_added_before():
    model = _model()
    model.graph.inputs[1].shape = ir.Shape([1, "s", 4])
    assert fuse_norms(model.graph, 21) == Counter({"SimplifiedLayerNormalization when it is loaded": 1})
