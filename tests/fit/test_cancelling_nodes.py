"""Pairs of Casts and of Transposes: which of them go, and that the rest computes the same bits."""

from __future__ import annotations

import itertools

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from onnx_ir.passes import common as passes

from opbridge.fit.cancelling_nodes import cancel

_KINDS = {
    "float": np.float32,
    "double": np.float64,
    "float16": np.float16,
    **{f"{sign}int{bits}": np.dtype(f"{sign}int{bits}").type for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "bool": np.bool_,
}


_EXACT = {
    *(("bool", kind) for kind in _KINDS),
    *(("float16", kind) for kind in ("float", "double")),
    ("float", "double"),
    *((kind, wider) for kind in ("int8", "uint8") for wider in ("float16", "float", "double")),
    *((kind, wider) for kind in ("int16", "uint16") for wider in ("float", "double")),
    *((kind, "double") for kind in ("int32", "uint32")),
    *(
        (f"{sign}int{one}", f"{sign}int{two}")
        for sign in ("", "u")
        for one in (8, 16, 32, 64)
        for two in (8, 16, 32, 64)
        if two > one
    ),
    *((f"uint{one}", f"int{two}") for one in (8, 16, 32, 64) for two in (8, 16, 32, 64) if two > one),
}
"""Which types have all values of which."""


def parsed(text: str) -> ir.Model:
    model = ir.from_onnx_text(f'<ir_version: 10, opset_import: ["" : 20]>\n{text}')
    passes.ShapeInferencePass()(model)
    return model


def after(text: str) -> tuple[ir.Model, list[str]]:
    model = parsed(text)
    if cancel(model):
        passes.RemoveUnusedNodesPass()(model)
    return model, [node.op_type for node in model.graph]


def values(kind: str) -> np.ndarray:
    """Extremes, neighbours of them and of powers of two, and what is not a number."""
    dtype = _KINDS[kind]
    if dtype == np.bool_:
        return np.array([False, True])
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        powers = [2**power + near for power in range(limits.bits) for near in (-1, 0, 1)]
        found = {*powers, *(-each for each in powers), limits.min, limits.max}
        return np.array([each for each in found if limits.min <= each <= limits.max], dtype)
    limits = np.finfo(dtype)
    found = [0.0, -0.0, limits.max, limits.min, limits.tiny, limits.smallest_subnormal, np.inf, -np.inf, np.nan]
    return np.array([*found, 1 + limits.eps, 1 / 3], dtype)


@pytest.mark.parametrize(
    ("kind", "between"), [pair for pair in itertools.product(_KINDS, repeat=2) if len({*pair}) > 1]
)
def test_a_pair_goes_only_where_it_changes_nothing(kind, between):
    names = {each: ir.DataType.from_numpy(np.dtype(dtype)).value for each, dtype in _KINDS.items()}
    text = f"""g ({kind}[n] x) => ({kind}[n] y) {{
        a = Cast <to = {names[between]}> (x)
        b = Cast <to = {names[kind]}> (a)
        y = Identity (b)
    }}"""
    _, operators = after(text)
    assert operators in (["Identity"], ["Cast", "Cast", "Identity"])
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(ir.to_proto(parsed(text)).SerializeToString(), options)
    given = values(kind)
    (result,) = session.run(None, {"x": given})
    is_same = np.array_equal(result, given, equal_nan=kind in ("float", "double", "float16"))
    assert is_same or operators != ["Identity"]
    assert (operators == ["Identity"]) == ((kind, between) in _EXACT)


def test_bfloat16():
    text = "g (bfloat16[n] x) => (bfloat16[n] y) { a = Cast <to = %d> (x) b = Cast <to = 16> (a) y = Neg (b) }"
    assert after(text % ir.DataType.FLOAT)[1] == ["Neg"]
    assert after(text % ir.DataType.FLOAT16)[1] == ["Cast", "Cast", "Neg"]


def test_a_cast_to_the_same_type_goes_and_outputs_stay():
    text = "g (float[n] x) => (float[n] y, float[n] z) { a = Cast <to = 1> (x) y = Neg (a) z = Cast <to = 1> (x) }"
    assert after(text)[1] == ["Neg", "Cast"]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([1, 0, 2], [1, 0, 2], None),
        ([2, 0, 1], [1, 2, 0], None),
        ([2, 0, 1], [2, 0, 1], [1, 2, 0]),
        ([0, 2, 1], [2, 1, 0], [1, 2, 0]),
        (None, None, None),
        (None, [1, 0, 2], [1, 2, 0]),
    ],
)
def test_transposes(first, second, expected):
    given = ["" if order is None else f"<perm = {order}>" for order in (first, second)]
    text = f"""g (float[2, 3, 4] x) => (float[a, b, c] y) {{
        p = Transpose {given[0]} (x)
        q = Transpose {given[1]} (p)
        y = Neg (q)
    }}"""
    model, operators = after(text)
    assert operators == (["Neg"] if expected is None else ["Transpose", "Neg"])
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    composed = x.transpose(first).transpose(second)
    session = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString())
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], -composed)
    if expected is not None:
        np.testing.assert_array_equal(x.transpose(expected), composed)


def test_what_else_reads_the_first_transpose_keeps_it():
    text = """g (float[2, 3] x) => (float[3, 2] y, float[2, 3] z) {
        p = Transpose (x)
        y = Neg (p)
        q = Transpose (p)
        z = Neg (q)
    }"""
    model, operators = after(text)
    assert operators == ["Transpose", "Neg", "Neg"]
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    y, z = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString()).run(None, {"x": x})
    np.testing.assert_array_equal(y, -x.T)
    np.testing.assert_array_equal(z, -x)
