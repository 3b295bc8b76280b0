"""Sizes that a capture leaves out, and the bounds of a Dim."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn
from torch.export import Dim

import opbridge
from opbridge.errors import VerificationError

X = torch.randn(3, 4)


class Table(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(16, 4))

    def forward(self, x):
        return x + self.table[: x.shape[0]]


_FACTORS = {7: 2.0}


class OfSizes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factors = {7: 2.0}

    def forward(self, x):
        return x * self.factors.get(x.shape[0], 3.0)


@pytest.mark.parametrize(
    ("model", "condition", "size"),
    [
        (lambda x: x * 2 if x.shape[0] <= 9 else x * 3, r"n <= 9 \(\S+:\d+\)", "n=10"),
        (lambda x: x * 2 if x.shape[0] >= 3 else x * 3, r"n >= 3 \(\S+:\d+\)", "n=2"),
        (lambda x: x * 2 if x.shape[0] % 2 else x * 3, r"n % 2 != 0 \(\S+:\d+\)", "n=4"),
        (lambda x: x * 2 if x.shape[0] in (7, 9) else x * 3, r"n != 7 \(\S+:\d+\)", "n=7"),
        (lambda x: x * 2 if x.shape[0] in {7, 9} else x * 3, r"n != \d \(\S+:\d+\)", "n="),
        (lambda x: x * _FACTORS.get(x.shape[0], 3.0), r"n != 7 \(\S+:\d+\)", "n=7"),
        (OfSizes(), r"n != 7 \(\S+:\d+\)", "n=7"),
    ],
    ids=["largest", "smallest", "odd", "list", "set", "dict", "dict of a module"],
)
@pytest.mark.usefixtures("one_branch")
def test_a_branch_that_the_example_decided_is_refused(model, condition, size):
    wanted = rf"only for {condition}, but the model also accepts {size}"
    with pytest.raises(VerificationError, match=wanted) as raised:
        opbridge.export(model, (X,), dynamic_shapes={"x": {0: "n"}})
    assert re.match(r'State "x": \{0: (Dim\("n", m(ax|in)=\d\)|"2\*n")\} in dynamic_shapes: ', str(raised.value)) or (
        "State the condition in dynamic_shapes" in str(raised.value) and "!=" in condition
    )


@pytest.mark.slow
@pytest.mark.usefixtures("one_branch")
def test_the_error_names_the_dim_that_would_do():
    def model(x):
        return x * 2 if x.shape[0] % 2 == 0 else x * 3

    with pytest.raises(VerificationError, match=r'^State "x": \{0: "2\*n"\} in dynamic_shapes: '):
        opbridge.export(model, (X[:2],), dynamic_shapes={"x": {0: "n"}})
    opbridge.export(model, (X[:2],), dynamic_shapes={"x": {0: "2*n"}})
    opbridge.export(model, (X[:2],), dynamic_shapes={"x": {0: 2 * Dim("n")}})


@pytest.mark.slow
@pytest.mark.usefixtures("one_branch")
def test_the_error_names_the_dims_of_one_line_together():
    def model(x):
        return x * 2 if all(size % 2 == 0 for size in x.shape) else x * 3

    wanted = r'^State "x": \{0: "2\*h", 1: "2\*w"\} in dynamic_shapes: .*only for h % 2 == 0 and w % 2 == 0'
    with pytest.raises(VerificationError, match=wanted):
        opbridge.export(model, (X[:2],), dynamic_shapes={"x": {0: "h", 1: "w"}})
    opbridge.export(model, (X[:2],), dynamic_shapes={"x": {0: "2*h", 1: "2*w"}})
    opbridge.export(model, (X[:2],), dynamic_shapes={"x": {0: 2 * Dim("h"), 1: 2 * Dim("w")}})


def test_a_limit_of_the_model_itself_is_a_note():
    program = opbridge.export(Table().eval(), (X,), dynamic_shapes={"x": {0: "n"}})
    assert any("n <= 16" in note for note in program.plan.notes)
    assert any(run.label == "n=17" and "fails" in str(run.left_out) for run in program.verification.runs)


def test_a_branch_that_makes_no_difference_is_a_note():
    program = opbridge.export(lambda x: x * 2 if x.shape[0] < 9 else x + x, (X,), dynamic_shapes={"x": {0: "n"}})
    assert any("n <= 8" in note for note in program.plan.notes)
    assert "n=9" in [run.label for run in program.verification.runs]


@pytest.mark.usefixtures("one_branch")
def test_a_size_far_beyond_a_limit_that_makes_no_difference_is_tried_too():
    def model(x):
        x = x * 2 if x.shape[0] <= 7 else x + x
        return x if x.shape[0] <= 16 else x * 3

    with pytest.raises(VerificationError, match=r"only for n <= 7 \(\S+:\d+\), but the model also accepts n=128"):
        opbridge.export(model, (X,), dynamic_shapes={"x": {0: "n"}})


@pytest.mark.usefixtures("one_branch")
def test_sizes_are_tried_that_the_other_conditions_allow():
    def model(x):
        patches = x.reshape(x.shape[0] // 4, 4, x.shape[1] // 4, 4)  # no other sizes than multiples
        return patches * 2 if x.shape[0] >= x.shape[1] else patches * 3

    with pytest.raises(VerificationError, match=r"only for .*rows.*, but the model also accepts rows=8, columns=12"):
        opbridge.export(model, (torch.randn(8, 8),), dynamic_shapes={"x": {0: "rows", 1: "columns"}})


def test_sizes_that_the_user_left_to_torch_are_not_tried():
    program = opbridge.export(lambda x: x * 2 if x.shape[0] < 9 else x * 3, (X,), dynamic_shapes={"x": {0: Dim.AUTO}})
    assert program.verification.ok


def test_the_bounds_of_a_dim_are_tried():
    program = opbridge.export(lambda x: x * 2, (X,), dynamic_shapes={"x": {0: Dim("n", min=2, max=64)}})
    assert [run.label for run in program.verification.runs][3:] == ["n=2", "n=4", "n=64"]


def test_a_branch_that_a_trace_froze_is_found_at_the_bound():
    def model(x):
        return x * 2 if x.shape[0] < 20 else x * 3

    shapes = {"x": {0: Dim("n", max=64)}}
    with pytest.raises(VerificationError, match="n=64"):
        opbridge.export(model, (X,), dynamic_shapes=shapes, capture="trace")


def test_a_size_at_which_results_are_too_large_is_not_tried():
    """A mask of all pairs has as many elements as the square of the length; 16 times the limit would take 6 GB."""

    class Masked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.rand(2500, 4))

        def forward(self, x):
            mask = torch.ones(x.shape[0], x.shape[0]).tril()
            assert x.shape[0] < 30000, "too large to be tried"
            return mask @ (x + self.table[: x.shape[0]])

    found = opbridge.export(Masked(), torch.rand(9, 4), dynamic_shapes={"x": {0: "n"}}).verification
    sizes = [run.label for run in found.runs]
    assert any("2501" in each for each in sizes) and not any("40016" in each for each in sizes)
