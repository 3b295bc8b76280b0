"""Capture: sizes of one and zero are sizes like others, or what the model asks of them is told."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
import torch
from helpers.captures import X, assert_same, line_of, shapes
from helpers.matching import assert_matches
from torch import nn

import opbridge
from opbridge.capture import capture
from opbridge.errors import CaptureError

BATCH = ({0: "batch"},)


class Harmless(nn.Module):
    """Asks whether there is more than one row, and does the same in any case."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.runs = 0
        self.seen: list[Any] = []

    def forward(self, x):
        self.runs += 1
        self.seen.append(x)
        x = x * 3 if x.shape[0] > 1 else x * 3  # noqa: RUF034
        return self.layer(x)


@pytest.mark.slow
def test_a_question_that_does_not_matter_is_dropped():
    taken = capture(lambda x: x * 2 if x.shape[0] > 1 else x * 2, X, dynamic_shapes=BATCH)  # noqa: RUF034
    assert taken.notes == () and taken.graph.conditions == ()
    assert list(taken.graph.ranges.values()) == [(0, None)]
    for size in (1, 3):
        assert_same(taken, torch.ones(size, 4))


def test_a_second_capture_leaves_no_trace():
    model = Harmless()
    state = random.getstate()
    taken = capture(model, X, dynamic_shapes=BATCH)
    assert model.runs == 0 and model.seen == [] and random.getstate() == state
    assert not any("valid only for" in note for note in taken.notes)


@pytest.mark.parametrize(
    "model",
    [
        lambda x: x * 2 if x.shape[0] > 1 else x,  # an operator less
        lambda x: x * (2 if x.shape[0] > 1 else 3),  # another number
        lambda x: x + (X[:1] if x.shape[0] > 1 else X[1:]),  # another slice
        lambda x: x.sum(0) if x.shape[0] != 1 else x[0],
    ],
)
@pytest.mark.usefixtures("one_branch")
def test_a_question_that_matters_is_told(model):
    taken = capture(model, X, dynamic_shapes=BATCH)
    (note,) = taken.notes
    assert re.search(
        rf"only for batch >= 2 \(\S*test_zero_one_specialization\.py:{model.__code__.co_firstlineno}\);", note
    )
    assert list(taken.graph.ranges.values()) == [(2, None)]


def test_a_question_whose_answer_raises_is_told():
    def model(x):
        if x.shape[0] == 1:
            raise ValueError("one row")
        return x * 2

    assert "batch >= 2" in capture(model, X, dynamic_shapes=BATCH).notes[0]


@pytest.mark.usefixtures("one_branch")
def test_of_several_dimensions_those_are_told_that_matter():
    def model(x, y):
        x = x * 2 if x.shape[0] > 1 else x * 2  # noqa: RUF034
        return x, y * 2 if y.shape[0] > 1 else y

    taken = capture(model, (X, torch.ones(3, 4)), dynamic_shapes=({0: "a"}, {0: "b"}))
    (note,) = taken.notes
    assert "only for b >= 2 (" in note and "a >= 2" not in note


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.usefixtures("one_branch")
def test_questions_that_matter_only_together(same):
    def model(x, y):
        one, other = x.shape[0] == 1, y.shape[0] == 1
        if (one & torch.sym_not(other)) | (torch.sym_not(one) & other):
            return x.sum() + y.sum() * (2 if same else 3)
        return x.sum() + y.sum() * 2

    taken = capture(model, (X, torch.ones(3, 4)), dynamic_shapes=({0: "a"}, {0: "b"}))
    assert (taken.notes == ()) is same


@pytest.mark.usefixtures("one_branch")
def test_a_question_about_another_size_behind_the_first():
    def model(x, y):
        if x.shape[0] == 1 and y.shape[0] > 5:
            return x.sum() + y.sum() * 3
        return x.sum() + y.sum()

    taken = capture(model, (X, torch.ones(3, 4)), dynamic_shapes=({0: "a"}, {0: "b"}))
    assert "only for a >= 2 (" in taken.notes[0]


def test_random_numbers_of_python_are_drawn_once():
    def model(x):
        factor = random.random()
        return x * factor if x.shape[0] > 1 else x * factor  # noqa: RUF034

    random.seed(3)
    taken = capture(model, X, dynamic_shapes=BATCH)
    assert any("batch >= 2" in note for note in taken.notes) and any("random numbers" in note for note in taken.notes)


def test_attention_that_asks_whether_it_is_causal():
    class Attention(nn.Module):
        is_causal = False

        def forward(self, x):
            is_causal = x.shape[1] > 1 and self.is_causal
            return nn.functional.scaled_dot_product_attention(x, x, x, is_causal=is_causal)

    others = [[torch.randn(1, 1, 4)], [torch.randn(3, 1, 4)], [torch.randn(1, 6, 4)]]
    program = assert_matches(
        Attention(), torch.randn(2, 3, 4), others=others, dynamic_shapes=({0: "batch", 1: "seq"},), rtol=1e-4, atol=1e-5
    )
    assert not any("valid only for" in note for note in program.plan.notes)


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_an_example_of_any_size_gives_the_same_graph(rows):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()
    taken = capture(model, torch.randn(rows, 3, 8, 8), dynamic_shapes=BATCH)
    assert taken.notes == () and shapes(taken)[0][0] == "batch"
    assert_same(taken, torch.randn(5, 3, 8, 8))


@pytest.mark.slow
def test_an_empty_example_of_a_model_that_asks_for_it():
    def model(x, p):
        return x * 3 if p.size(0) == 0 else x * 4  # fails: empty

    with pytest.raises(CaptureError, match="it requires n == 0") as raised:
        capture(model, (X, torch.ones(0)), dynamic_shapes={"x": None, "p": {0: "n"}})
    assert f"test_zero_one_specialization.py:{line_of(__file__, 'empty')}" in str(raised.value)


@pytest.mark.parametrize(
    "model",
    [lambda x: x * 3 if x.shape[0] == 1 else x * 4, lambda x: x.squeeze(0) * 2, lambda x: x.squeeze() * 2],
    ids=["branch", "squeeze", "squeeze all"],
)
@pytest.mark.usefixtures("one_branch")
def test_an_example_of_one_row_of_a_model_that_asks_for_it(model):
    with pytest.raises(CaptureError, match=r"it requires batch == 1 \(\S*test_zero_one_specialization\.py:\d+\)"):
        capture(model, X[:1], dynamic_shapes=BATCH)
    assert "x.shape[0] == 1" in capture(model, X[:1], dynamic_shapes="auto").notes[0]


@pytest.mark.slow
def test_broadcasting_against_a_dimension_of_one():
    with pytest.raises(CaptureError, match="size 1 in the example inputs is dynamic and is broadcast"):
        capture(lambda x, y: x + y, (X[:1], torch.ones(3, 4)), dynamic_shapes=({0: "a"}, None))


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.usefixtures("one_branch")
def test_the_file_takes_one_row(rows):
    model = lambda x: (x.unsqueeze(1) @ x.unsqueeze(2)).flatten() if x.shape[0] != 1 else x.square().sum(1)  # noqa: E731
    program = opbridge.export(
        lambda x: (x.unsqueeze(1) @ x.unsqueeze(2)).flatten(), (torch.randn(rows, 4),), dynamic_shapes=BATCH
    )
    assert program.verification is not None and program.verification.ok and program.capture.notes == ()
    if rows > 1:
        assert "batch >= 2" in capture(model, torch.randn(rows, 4), dynamic_shapes=BATCH).notes[0]
