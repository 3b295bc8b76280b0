"""Every output of a model is an output of the file, and every name that the user gives is kept."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.running import run

import opbridge

X = torch.randn(2, 3)
CAPTURES = ("export", "torch.export", "trace")


def _outputs(program):
    return [(value.name, value.dtype.name) for value in program.model.graph.outputs]


@pytest.mark.parametrize("capture", CAPTURES)
def test_numbers_that_are_constants(capture):
    def model(x, flag):
        return {"doubled": x * 2, "flag": flag, "none": None, "third": 0.1, "many": 2**40, "rest": [x.shape[0], True]}

    program = opbridge.export(model, (X, False), capture=capture)
    assert _outputs(program) == [
        ("doubled", "FLOAT"),
        ("flag", "BOOL"),
        ("third", "DOUBLE"),
        ("many", "INT64"),
        ("rest.0", "INT64"),
        ("rest.1", "BOOL"),
    ]
    values = run(program, (X,))[1:]
    assert [value.shape for value in values] == [()] * 5
    assert [value.item() for value in values] == [False, 0.1, 2**40, 2, True]
    assert program.verification.ok and len(program.verification.outputs) == 6
    assert not any("'flag'" in note or "'third'" in note for note in program.verification.notes)


@pytest.mark.parametrize("capture", CAPTURES)
def test_numbers_that_follow_from_a_size(capture):
    def model(x):
        return x.shape[1], x.shape[1] / 2, x.shape[1] > 3, x.shape[0] * x.shape[1]

    program = opbridge.export(model, (X,), dynamic_shapes={"x": {1: "n"}}, capture=capture)
    assert [value.item() for value in run(program, (torch.randn(2, 5),))] == [5, 2.5, True, 10]
    assert {run.kind for run in program.verification.runs} >= {"example", "sizes"}


@pytest.mark.parametrize("capture", CAPTURES)
def test_a_model_of_numbers_alone(capture):
    program = opbridge.export(lambda x: x.shape[1] / 2, (X,), capture=capture)
    (value,) = run(program, (X,))
    assert value.shape == () and value == 1.5


def test_a_complex_number_is_a_pair():
    program = opbridge.export(lambda x: (x, 1 + 2j), (X,))
    assert run(program, (X,))[1].tolist() == [1.0, 2.0]


def test_a_number_of_a_tensor_is_computed():
    program = opbridge.export(lambda x: (x, x.sum().item()), (X,))
    np.testing.assert_allclose(run(program, (X + 1,))[1], (X + 1).sum().item(), rtol=1e-6)


def test_a_number_that_a_trace_froze_is_wrong_for_other_inputs():
    with pytest.raises(opbridge.VerificationError, match="constant in the trace"):
        opbridge.export(lambda x: (x, x.sum().item()), (X,), capture="trace")


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("model", [lambda x: None, lambda x: (), lambda x: {"a": None}], ids=["None", "()", "dict"])
def test_a_model_without_outputs(model, capture):
    with pytest.raises(opbridge.UsageError, match="returns no tensor and no number"):
        opbridge.export(model, (X,), capture=capture)


@pytest.mark.parametrize("capture", CAPTURES)
def test_an_output_that_is_text(capture):
    with pytest.raises(opbridge.UsageError, match="returns a str as 'name' \\('net'\\).*Leave it out"):
        opbridge.export(lambda x: {"value": x * 2, "name": "net"}, (X,), capture=capture)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x, y):
        return self.layer(x) + y


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize(
    "inputs, outputs",
    [(["layer.weight"], ["layer.bias"]), (["layer/linear"], ["layer"]), (["a", "b"], ["layer/addmm"])],
    ids=["weights", "nodes", "node"],
)
def test_names_that_other_values_have_are_kept(inputs, outputs, capture):
    program = opbridge.export(Net(), (X, X), input_names=inputs, output_names=outputs, capture=capture)
    graph = program.model.graph
    assert [value.name for value in graph.inputs][: len(inputs)] == inputs
    assert [value.name for value in graph.outputs] == outputs
    assert program.verification.ok


@pytest.mark.parametrize("capture", CAPTURES)
def test_a_name_for_an_input_and_an_output(capture):
    with pytest.raises(opbridge.UsageError, match="output_names holds 'y', which is also the name of an input"):
        opbridge.export(Net(), (X, X), output_names=["y"], capture=capture)


@pytest.mark.parametrize("keyword", ["input_names", "output_names"])
def test_names_in_a_string(keyword):
    with pytest.raises(opbridge.UsageError, match=rf"{keyword}='x' is a string.*\['x'\]"):
        opbridge.export(Net(), (X, X), **{keyword: "x"})


@pytest.mark.slow
def test_two_names_for_dimensions_that_have_to_be_equal():
    shapes = {"x": {0: "rows"}, "y": {0: "lines"}}
    program = opbridge.export(lambda x, y: x + y, (X, X.clone()), dynamic_shapes=shapes)
    assert [str(value.shape) for value in program.model.graph.inputs] == ["[rows,3]", "[rows,3]"]
    assert "'lines' is rows" in program.plan.notes[0] and "rows == lines" in program.plan.notes[0]
