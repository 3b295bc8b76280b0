"""What rounds, and that it does: ONNX Runtime takes pairs of Casts away where it may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from precision.conftest import operators, ran

import opbridge
from opbridge.precision.emulating import emulated
from opbridge.precision.formats import BFLOAT16, FLOAT16, Format, narrowed
from opbridge.precision.measuring import measure
from opbridge.precision.simulating import Simulation

HEAD = '<ir_version: 9, opset_import: ["" : 19]>\n'

CHAIN = """g (float[3] x) => (float[3] y) <float[3] w = {1.0001, 1.0001, 1.0001}> {
    a = Mul (x, w)  b = Sub (a, x)  y = Neg (b)
}"""

X = np.array([1.0, 0.1, 3001.0], np.float32)


def rounded(array: np.ndarray, to: Format) -> np.ndarray:
    """The numbers in a format, as float32."""
    return narrowed(array, to).astype(np.float32)


def in_steps(to: Format) -> np.ndarray:
    """What the chain gives where each step rounds."""
    x, w = rounded(X, to), rounded(np.full(3, 1.0001, np.float32), to)
    return -rounded(rounded(x * w, to) - x, to)


@pytest.mark.parametrize("to", [FLOAT16, BFLOAT16], ids=lambda each: each.name)
def test_each_node_rounds_what_it_reads_and_gives(ready: Callable[..., Any], to: Format) -> None:
    prepared, form = ready(HEAD + CHAIN, to)
    nodes = list(prepared.model.graph)
    simulation = Simulation(prepared.model, to, prepared.floats, form, nodes)
    (exact,) = ran(simulation.model, x=X, **{simulation.choice: np.zeros(3, np.bool_)})
    (all_rounded,) = ran(simulation.model, x=X, **{simulation.choice: np.ones(3, np.bool_)})
    (last,) = ran(simulation.model, x=X, **{simulation.choice: np.array([False, False, True])})
    assert exact.tolist() == ran(ir.from_onnx_text(HEAD + CHAIN), x=X)[0].tolist()
    assert all_rounded.tolist() == in_steps(to).tolist()
    assert last.tolist() == rounded(exact, to).tolist() != exact.tolist()


def test_nodes_of_bodies_round_as_they_are_told(ready: Callable[..., Any]) -> None:
    text = """g (float[2] x, int64 n, bool b) => (float[2] y) {
        y = Loop (n, b, x) <body = t (int64 i, bool c, float[2] s) => (bool d, float[2] a) {
            k = Constant <value_float = 0.333333> ()  d = Identity (c)  a = Mul (s, k)
        }>
    }"""
    prepared, form = ready(HEAD + text, FLOAT16)
    loop = next(iter(prepared.model.graph))
    inner = next(node for node in prepared.model.graph.all_nodes() if node.op_type == "Mul")
    simulation = Simulation(prepared.model, FLOAT16, prepared.floats, form, [loop, inner])
    x = np.array([0.1, 0.2], np.float32)
    feeds = {"x": x, "n": np.asarray(2, np.int64), "b": np.asarray(True)}

    def given(outer: bool, body: bool) -> list[float]:
        return ran(simulation.model, **feeds, **{simulation.choice: np.array([outer, body])})[0].tolist()

    third = np.float32(0.333333)
    assert given(False, False) == (x * third * third).tolist()
    once = rounded(rounded(rounded(x, FLOAT16) * third, FLOAT16) * third, FLOAT16)
    assert given(True, False) == once.tolist() != given(False, False)


def test_a_cast_model_is_emulated_with_every_rounding(cast: Callable[..., opbridge.Narrowed]) -> None:
    for to in (FLOAT16, BFLOAT16):
        model = cast(HEAD + CHAIN, to.name, tolerance=10.0).model
        narrow = {each for node in model.graph for each in node.outputs} | set(model.graph.inputs)
        narrow |= set(model.graph.initializers.values())
        (found,) = ran(emulated(model, to, narrow), x=rounded(X, to))
        assert found.dtype == np.float32 and found.tolist() == in_steps(to).tolist()


def test_what_is_measured(ready: Callable[..., Any]) -> None:
    text = """g (float[3] x) => (float[3] y) <float k = {1000}> { a = Add (x, k)  b = Sub (a, k)  y = Exp (b) }"""
    prepared, form = ready(HEAD + text, FLOAT16)
    x = np.array([1, -2, 3], np.float32) + np.float32(0.2)
    found = measure(prepared.model, FLOAT16, prepared.floats, form, [{"x": x}, {"x": -2 * x}], prepared.weights)
    by_name = {value.name: largest for value, largest in found.largest.items()}
    assert by_name["a"] == pytest.approx(1003.6, rel=1e-3) and by_name["x"] == pytest.approx(6.4, rel=1e-2)
    errors = {node.op_type: error for node, error in found.errors.items()}
    assert errors["Sub"] > 1e-2 > errors["Add"]  # what is rounded is the sum


def test_infinities_and_empty_tensors_are_measured(ready: Callable[..., Any]) -> None:
    text = """g (float[3] x, float[0] e) => (float[3] y) { a = Neg (x)  f = Neg (e)  y = Concat <axis = 0> (a, f) }"""
    prepared, form = ready(HEAD + text, FLOAT16)
    x = np.array([np.inf, -np.nan, 3], np.float32)
    found = measure(
        prepared.model, FLOAT16, prepared.floats, form, [{"x": x, "e": np.zeros(0, np.float32)}], prepared.weights
    )
    assert {value.name: largest for value, largest in found.largest.items()} == {"x": 3, "a": 3, "f": 0, "y": 3, "e": 0}
    assert all(error == 0 for error in found.errors.values())


def test_overflow_is_measured(ready: Callable[..., Any]) -> None:
    text = """g (float[3] x) => (float[3] y) { a = Mul (x, x)  y = Sqrt (a) }"""
    prepared, form = ready(HEAD + text, FLOAT16)
    found = measure(
        prepared.model, FLOAT16, prepared.floats, form, [{"x": np.full(3, 300, np.float32)}], prepared.weights
    )
    assert {node.op_type: error for node, error in found.errors.items()} == {
        "Mul": np.inf,
        "Sqrt": np.inf,
    }
    assert operators(prepared.model) == ["Mul", "Sqrt"]  # the model itself is as it was
