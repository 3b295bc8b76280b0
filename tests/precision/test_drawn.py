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
from opbridge.precision.drawn import drawn_outputs, is_alike

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


def test_the_other_outputs_are_compared(cast: Callable[..., Any]) -> None:
    found = cast(HEAD + TEXT)
    assert [each.name for each in found.outputs] == ["z"] and 0 < found.error < 1e-2
    assert "Random numbers determine y: of these outputs, the rank was compared" in found.summary()
    assert found.cast == 4 and not found.kept


def test_nothing_but_random_numbers(cast: Callable[..., Any]) -> None:
    found = cast(HEAD + "g (float[4] x) => (float[4] y) <float r = {0.5}, bool t = {1}> { y = Dropout (x, r, t) }")
    assert found.error is None and found.ok
    assert "Not compared. Random numbers determine y: of these outputs, the rank was compared" in found.summary()


def test_random_numbers_that_overflow(cast: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "measure", lambda *_: None)
    text = "g (float[4] x) => (float[4] y) { r = RandomNormalLike <scale = 30000.0> (x)  y = Mul (r, r) }"
    with pytest.raises(PrecisionError, match="output: inf"):
        cast(HEAD + text)
