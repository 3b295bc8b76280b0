"""Arithmetic over sizes as text, and back."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from opbridge.kernels.triton.expressions import evaluated, text_of


@pytest.fixture(scope="module")
def sizes():
    """The sizes of a tensor whose dimensions vary, in a capture."""
    found = {}

    class Model(torch.nn.Module):
        def forward(self, x):
            found["x"] = x.shape
            return x + 1

    dims = {"x": {0: Dim("a", min=2, max=2**20), 1: Dim("b", min=2, max=2**20)}}
    torch.export.export(Model(), (torch.zeros(5, 7),), dynamic_shapes=dims)
    return found["x"]


@pytest.mark.parametrize(
    ("compute", "expected"),
    [
        (lambda a, b: a, "x[0]"),
        (lambda a, b: a * b + 3, "x[0] * x[1] + 3"),
        (lambda a, b: (a * b + 63) // 64, "(x[0] * x[1] + 63) // 64"),
        (lambda a, b: (a + 1) * b, "(x[0] + 1) * x[1]"),
        (lambda a, b: a % 4, "x[0] % 4"),
        (lambda a, b: a * a, "x[0] * x[0]"),
        (lambda a, b: 12, "12"),
    ],
)
def test_numbers_of_sizes_are_text(sizes, compute, expected):
    a, b = sizes
    text = text_of(compute(a, b), [("x[0]", a), ("x[1]", b)])
    assert text == expected
    for given in ((5, 7), (64, 1), (9, 100)):
        assert evaluated(text, {"x": given}) == (compute(*given),)


def test_differences_and_negative_numbers_keep_their_values(sizes):
    a, b = sizes
    for compute in (lambda a, b: a - b, lambda a, b: 3 - a, lambda a, b: (a - 1) // 2 - 5, lambda a, b: -a * 2):
        text = text_of(compute(a, b), [("x[0]", a), ("x[1]", b)])
        assert evaluated(text, {"x": (5, 7)}) == (compute(5, 7),), text


def test_a_size_of_another_tensor_has_no_text(sizes):
    a, b = sizes
    assert text_of(a + b, [("x[0]", a)]) is None


def test_a_size_that_is_computed_stands_for_itself(sizes):
    a, _ = sizes
    assert text_of((a * 2 + 15) // 16, [("y[0]", a * 2)]) == "(y[0] + 15) // 16"


def test_functions_and_lists():
    assert evaluated("min(x[0], 4), max(x[1], 4), (1 + 2) * 3", {"x": (5, 3)}) == (4, 4, 9)
    assert evaluated("", {}) == ()


@pytest.mark.parametrize(
    "text", ["x[2]", "y[0]", "x", "__import__('os')", "x[0] / 2", "(1", "x.shape", "1.5", "x[0] ** 2"]
)
def test_other_text_is_refused(text):
    with pytest.raises(ValueError, match="arithmetic"):
        evaluated(text, {"x": (1, 2)})
