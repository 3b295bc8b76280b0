"""Models of random numbers: which outputs depend on them, and casts that are compared all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from opbridge.errors import PrecisionError
from opbridge.precision import steps
from opbridge.precision.drawn import drawn_outputs, give_seeds, is_alike
from opbridge.side_by_side import draws

HEAD = '<ir_version: 9, opset_import: ["" : 19]>\n'

TEXT = """g (float[4] x) => (float[4] y, float[4] z) {
    r = RandomNormalLike (x)  s = Add (x, r)  y = Tanh (s)  z = Exp (x)
}"""


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        (TEXT, {"y"}),
        ("g (float[4] x) => (float[4] y) { y = Tanh (x) }", set()),
        ("g (float[4] x) => (float[4] y) <float r = {0.5}, bool t = {1}> { y = Dropout (x, r, t) }", {"y"}),
        ("g (float[4] x) => (float[4] y) <float r = {0.5}, bool t = {0}> { y = Dropout (x, r, t) }", set()),
        ("g (float[4] x, bool t) => (float[4] y) <float r = {0.5}> { y = Dropout (x, r, t) }", {"y"}),
        ("g (float[4] x) => (float[4] y) { y = Dropout (x) }", set()),
        (
            """g (float[4] x, bool c) => (float[4] y) {
                y = If (c) <then_branch = t () => (float[4] a) { a = RandomNormalLike (x) },
                            else_branch = e () => (float[4] b) { b = Identity (x) }>
            }""",
            {"y"},
        ),
        (
            """g (float[4] x, bool c) => (float[4] y) {
                r = RandomNormalLike (x)
                y = If (c) <then_branch = t () => (float[4] a) { a = Identity (r) },
                            else_branch = e () => (float[4] b) { b = Identity (x) }>
            }""",
            {"y"},
        ),
    ],
)
def test_the_outputs_that_depend_on_random_numbers(text: str, drawn: set[str]) -> None:
    model = ir.from_proto(onnx.parser.parse_model(HEAD + text))
    assert drawn_outputs(model) == drawn


def test_numbers_that_may_be_of_the_same_model() -> None:
    one = np.ones(3, np.float32)
    assert is_alike(one, np.zeros(2, np.float16))
    assert not is_alike(one, np.ones((1, 3), np.float16))
    assert not is_alike(one, np.array([np.inf], np.float16))
    assert is_alike(np.array([np.nan], np.float32), np.array([np.inf], np.float16))
    assert not is_alike(one, [one])


def test_random_numbers_are_compared_with_fixed_seeds(cast: Callable[..., Any]) -> None:
    found = cast(HEAD + TEXT)
    assert [each.name for each in found.outputs] == ["z", "y"] and 0 < found.error < 1e-2
    assert all(each.error for each in found.outputs)
    assert "Random numbers determine y, compared with fixed seeds." in found.summary()
    assert found.cast == 4 and not found.kept
    assert not any("seed" in node.attributes for node in found.model.graph)


DROPOUT = "g (float[4] x) => (float[4] y) <float r = {0.5}, bool t = {1}> { y = Dropout (x, r, t) }"


def test_nothing_but_random_numbers(cast: Callable[..., Any]) -> None:
    found = cast(HEAD + DROPOUT)
    assert [each.name for each in found.outputs] == ["y"] and found.ok
    assert "compared with fixed seeds" in found.summary()


def test_seeds_are_the_same_in_each_branch_and_copy() -> None:
    text = """g (float[4] x, bool c) => (float[4] y) <float r = {0.5}, bool t = {1}> {
        d = Dropout (x, r, t)
        y = If (c) <then_branch = t () => (float[4] a) { a = RandomNormalLike (d) },
                    else_branch = e () => (float[4] b) { b = RandomUniform <shape = [4]> () }>
    }"""
    models = [ir.from_proto(onnx.parser.parse_model(HEAD + text)) for _ in range(2)]
    for each in models:
        give_seeds(each)
    seeds = [[node.attributes["seed"].value for node in each.graph.all_nodes() if draws(node)] for each in models]
    assert seeds[0] == seeds[1] and len(set(seeds[0])) == 3
    onnx.checker.check_model(ir.to_proto(models[0]))


def test_what_a_rounded_number_draws_does_not_count(cast: Callable[..., Any]) -> None:
    # A number that is 0 or 1 where the rounded probability is below or above what is drawn: most are far apart.
    text = """g (float[4000] x) => (float[4000] y, float[4000] w) <float k = {0.001}, float o = {0.5}> {
        s = Mul (x, k)  p = Add (s, o)  y = Bernoulli (p)  w = Tanh (x)
    }"""
    found = cast(HEAD + text)
    assert found.ok and [each.name for each in found.outputs] == ["w"]
    assert "With fixed seeds, their error is" in found.summary() and "does not count" in found.summary()


def test_random_numbers_that_overflow(cast: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "measure", lambda *_: None)
    text = "g (float[4] x) => (float[4] y) { r = RandomNormalLike <scale = 30000.0> (x)  y = Mul (r, r) }"
    with pytest.raises(PrecisionError, match="output: inf"):
        cast(HEAD + text)
