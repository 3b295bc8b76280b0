"""The nodes that stay in float32, and why."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import opbridge
from opbridge.errors import UsageError

HEAD = '<ir_version: 9, opset_import: ["" : 19]>\n'

Cast = Callable[..., opbridge.Narrowed]


def kinds(found: opbridge.Narrowed) -> dict[str, str]:
    """The operators that stay, with the kinds of reasons."""
    return {each.operator: each.kind for each in found.kept}


def test_a_mask_beyond_the_format(cast: Cast) -> None:
    text = """g (float[2,4] x, bool[2,4] m) => (float[2,4] y) <float z = {0}, float n = {-3.4e38}> {
        w = Where (m, z, n)  a = Add (x, w)  s = Softmax (a)  y = Relu (s)
    }"""
    found = cast(HEAD + text)
    assert kinds(found) == {"Where": "constant", "Add": "range", "Softmax": "range"}
    assert "has 3.4e+38, which is beyond float16" in found.kept[0].why
    assert not cast(HEAD + text, "bfloat16").kept


def test_bounds_beyond_the_format_are_its_largest(cast: Cast) -> None:
    text = """g (float[4] x) => (float[4] y) <float l = {-1e30}, float h = {1e30}> { y = Clip (x, l, h) }"""
    found = cast(HEAD + text)
    assert not found.kept
    assert found.model.graph.initializers["h"].const_value.numpy() == 65504


def test_values_beyond_the_format(cast: Cast) -> None:
    text = """g (float[64] x) => (float[64] y) <float k = {30000}> {
        b = Mul (x, k)  r = Relu (b)  d = Div (r, k)  y = Neg (d)
    }"""
    found = cast(HEAD + text)  # on other inputs, they may be larger
    assert kinds(found) == {"Mul": "range", "Relu": "range", "Div": "range"}
    assert not cast(HEAD + text, inputs=[np.ones(64, np.float32)]).kept
    assert kinds(cast(HEAD + text, inputs=[np.full(64, 3, np.float32)])) == {
        "Mul": "range",
        "Relu": "range",
        "Div": "range",
    }


def test_an_output_beyond_the_format_keeps_float32(cast: Cast) -> None:
    text = """g (float[4] x) => (float[4] y, float[4] z) <float k = {60000}> { y = Mul (x, k)  z = Neg (x) }"""
    found = cast(HEAD + text)
    assert found.wide == ["y"] and [each.dtype.name for each in found.model.graph.outputs] == ["FLOAT", "FLOAT16"]
    assert "float16 cannot represent the values: y" in found.summary()


def test_values_in_bodies_are_measured(cast: Cast) -> None:
    text = """g (float[2] x, int64 n, bool b) => (float[2] y) {
        s = Loop (n, b, x) <body = t (int64 i, bool c, float[2] s) => (bool d, float[2] a) {
            k = Constant <value_float = 60000.0> ()
            d = Identity (c)  g = Mul (s, k)  q = Div (g, k)  a = Neg (q)
        }>
        y = If (b) <
            then_branch = t () => (float[2] o) {
                k = Constant <value_float = 60000.0> ()  m = Mul (s, k)  o = Div (m, k)
            },
            else_branch = e () => (float[2] p) { p = Neg (s) }
        >
    }"""
    inputs = {"x": np.ones(2, np.float32) * 3, "n": np.asarray(2, np.int64), "b": np.asarray(True)}
    found = cast(HEAD + text, inputs=inputs)
    assert sorted(each.operator for each in found.kept) == ["Div", "Div", "Mul", "Mul"]


def test_a_small_number_that_keeps_a_divisor_from_zero(cast: Cast) -> None:
    text = """g (float[2,4] x) => (float[2,4] y) <float e = {1e-12}, int64[1] a = {1}> {
        s = Mul (x, x)  m = ReduceMean (s, a)  p = Add (m, e)  r = Sqrt (p)  y = Div (x, r)
    }"""
    assert kinds(cast(HEAD + text)) == {"Add": "constant", "Sqrt": "constant", "Div": "constant"}
    zeros = [np.zeros((2, 4), np.float32)]
    assert cast(HEAD + text, inputs=zeros).error == 0.0  # and not NaN


def test_a_difference_of_large_numbers_keeps_what_gives_them(cast: Cast) -> None:
    text = """g (float[64] x) => (float[64] y) <float k = {1000}> { a = Add (x, k)  s = Sub (a, k)  y = Relu (s) }"""
    assert kinds(cast(HEAD + text)) == {"Sub": "error", "Add": "error"}


def test_squares_of_a_normalisation(cast: Cast) -> None:
    text = """g (float[2,4] x) => (float[2,4] y) <float[4] w = {1, 1, 1, 1}> { y = LayerNormalization (x, w) }"""
    inputs = np.array([[1, 2, 3, 4]] * 2, np.float32)
    assert not cast(HEAD + text, inputs=[inputs]).kept
    found = cast(HEAD + text, inputs=[inputs * 100])
    assert kinds(found) == {"LayerNormalization": "range"} and "squares numbers of up to 400" in found.kept[0].why


def test_numbers_that_become_indices(cast: Cast) -> None:
    text = """g (int64[2] i) => (float[2,4] y) <float k = {700.7}, float[4] w = {1, 2, 3, 4}, int64[1] z = {1}> {
        f = Cast <to = 1> (i)  m = Mul (f, k)  o = Floor (m)  c = Cast <to = 7> (o)
        s = Unsqueeze (c, z)  e = Cast <to = 1> (s)  n = Constant <value_float = 10000.0> ()
        d = Div (e, n)  y = Mul (d, w)
    }"""
    found = cast(HEAD + text)
    assert {each.operator for each in found.kept if each.kind == "index"} == {"Cast", "Mul", "Floor"}


def test_what_the_user_names(cast: Cast) -> None:
    text = """g (float[4] x) => (float[4] y) { a = Relu (x)  b = Neg (a)  y = Relu (b) }"""
    assert kinds(cast(HEAD + text, keep=["Ne?"])) == {"Neg": "asked"}
    assert len(cast(HEAD + text, keep=["Relu"]).kept) == 2
    assert len(cast(HEAD + text, keep=["a"]).kept) == 1
    with pytest.raises(UsageError, match="No node or operator of the model matches 'Gelu'"):
        cast(HEAD + text, keep=["Gelu"])


def test_moves_between_nodes_that_stay(cast: Cast) -> None:
    text = """g (float[2,3] x) => (float[3,2] y) { a = Neg (x)  b = Transpose (a)  c = Neg (b)  y = Relu (c) }"""
    assert kinds(cast(HEAD + text, keep=["Neg"])) == {"Neg": "asked", "Transpose": "between"}


def test_without_a_run_operators_decide(cast: Cast) -> None:
    text = """g (float[2,3] x) => (float[2,3] y) { a = Neg (x)  b = Softmax (a)  y = Relu (b) }"""
    assert kinds(cast(HEAD + text, verify=False)) == {"Softmax": "operator"} and not cast(HEAD + text).kept


def test_an_output_too_small_for_the_format_keeps_float32(cast: Cast) -> None:
    text = """g (float[64] x) => (float[64] y) <float k = {1e-8}> { r = Relu (x)  y = Mul (r, k) }"""
    assert cast(HEAD + text).wide == ["y"] and cast(HEAD + text, "bfloat16").wide == []


def test_an_operator_that_onnxruntime_does_not_run_in_the_format(cast: Cast) -> None:
    text = """g (float[4] x, float[2] u) => (float[4] y) <int64[2,1] i = {1, 2}> {
        r = Relu (x)  s = ScatterND <reduction = "min"> (r, i, u)  y = Neg (s)
    }"""
    found = cast(HEAD.replace("19", "18") + text)
    assert kinds(found) == {"ScatterND": "operator"} and "MLFloat16 data type is not supported" in found.kept[0].why


def test_an_output_beyond_bfloat16_keeps_float32(cast: Cast) -> None:
    text = """g (float[8] x) => (float[8] y, float[8] z) <float k = {3.4028234e38}> {
        h = Mul (x, k)  s = Sign (x)  y = Mul (s, k)  z = Neg (x)
    }"""
    found = cast(HEAD + text, "bfloat16", inputs=[np.linspace(-0.5, 0.5, 8, dtype=np.float32)], keep=["Mul"])
    assert found.wide == ["y"] and found.ok
