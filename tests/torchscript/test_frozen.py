"""Scenario 17: what a trace freezes is refused by default, and named by `capture="trace"`."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest
import torch

import opbridge

X = torch.rand(3, 4, generator=torch.Generator().manual_seed(0)) + 0.1


def branch(x):
    if x.sum() > 0:
        x = x * 2
    return x


def loop(x):
    while x.max() < 10:
        x = x * 2
    return x


def integer(x):
    return x * int(x.max())


def floating(x):
    return x * float(x.max())


def number(x):
    return x * x.max().item()


def listed(x):
    return x + sum(x.flatten().tolist())


def array(x):
    return x + float(x.detach().numpy().sum())


def rows(x):
    total = 0
    for row in x:
        total = total + row.mean()
    return x + total


def index(x):
    return x[:, int(x.argmax()) % 4]


def entry(x):
    return x * (1.0, 2.0, 3.0, 4.0)[int(x.argmax()) % 4]


def new_tensor(x):
    return x + torch.tensor([float(x[0, 0]), 1.0, 2.0, 3.0])


FROZEN = {
    branch: ("if x.sum() > 0:", "a condition on the values of a tensor"),
    loop: ("while x.max() < 10:", "a condition on the values of a tensor"),
    integer: ("return x * int(x.max())", "a tensor becomes a Python int"),
    floating: ("return x * float(x.max())", "a tensor becomes a Python float"),
    number: ("return x * x.max().item()", "a tensor becomes a Python number"),
    listed: ("return x + sum(x.flatten().tolist())", "a tensor becomes a Python list"),
    array: ("return x + float(x.detach().numpy().sum())", "a tensor becomes a NumPy array"),
    rows: ("for row in x:", "a Python loop over a tensor"),
    index: ("return x[:, int(x.argmax()) % 4]", "a tensor becomes a Python int"),
    entry: ("return x * (1.0, 2.0, 3.0, 4.0)[int(x.argmax()) % 4]", "a tensor becomes a Python int"),
    new_tensor: ("return x + torch.tensor([float(x[0, 0]), 1.0, 2.0, 3.0])", "a tensor becomes a Python float"),
}
REFUSED = (entry,)


@pytest.mark.slow
@pytest.mark.parametrize("function", REFUSED, ids=lambda each: each.__name__)
def test_refused_by_default_with_the_line(function):
    with pytest.raises(opbridge.CaptureError) as caught:
        opbridge.export(function, (X,))
    assert "test_frozen.py:" in str(caught.value)
    assert f"in {function.__name__}" in str(caught.value)


@pytest.mark.parametrize("function", [each for each in FROZEN if each not in REFUSED], ids=lambda each: each.__name__)
def test_what_is_not_refused_is_not_frozen_either(function):
    program = opbridge.export(function, (X,))
    assert program.capture.mode != "trace"
    runs = program.verification.runs
    assert [run.label for run in runs[:3]] == ["example", "fresh 1", "fresh 2"]
    assert {run.kind for run in runs[3:]} == ({"branches"} if function in (branch, loop) else set())
    assert program.verification.ok


@pytest.mark.parametrize(
    ("function", "inputs"),
    [(branch, (X, -X)), (loop, (X, X * 4, X * 30))],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_decision_that_is_not_frozen_takes_both_branches(function, inputs):
    session = opbridge.export(function, (X,), verify=False).session()
    for x in inputs:
        np.testing.assert_array_equal(session.run(None, {"x": x.numpy()})[0], function(x).numpy())


@pytest.mark.parametrize("function", FROZEN, ids=lambda each: each.__name__)
def test_named_by_a_trace(function):
    code, meaning = FROZEN[function]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing is said on the console
        program = opbridge.export(function, (X,), capture="trace", verify=False)
    notes = [note for note in program.plan.notes if note.startswith("constant in the trace")]
    (found,) = [note for note in notes if f"(`{code}`)" in note and meaning in note]
    assert "test_frozen.py:" in found and f"in {function.__name__} " in found


def test_each_line_is_named_once():
    program = opbridge.export(loop, (X,), capture="trace", verify=False)
    assert sum("while x.max()" in note for note in program.plan.notes) == 1


def test_the_line_is_the_models_where_torch_freezes_it():
    class Inner(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.interpolate(x, scale_factor=1.5, recompute_scale_factor=True)

    image = torch.rand(1, 3, 8, 8)
    program = opbridge.export(Inner(), (image,), capture="trace", verify=False)
    for note in program.plan.notes:
        if note.startswith("frozen"):
            assert "interpolate(x, scale_factor=1.5" in note


def test_numbers_among_the_inputs_are_named():
    program = opbridge.export(lambda x, times: branch(x) * times, (X, 3), capture="trace")
    assert any(
        "inputs that are Python numbers become constants in the graph (times = 3)" in each
        for each in program.plan.notes
    )


def test_random_numbers_of_python_are_named():
    def drawing(x):
        return branch(x) * random.random() + np.random.rand()

    program = opbridge.export(drawing, (X,), capture="trace", verify=False)
    assert any("random numbers from Python or NumPy" in note for note in program.plan.notes)


def test_state_that_forward_sets_is_named():
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return branch(x) + self.calls

    model = Counting()
    program = opbridge.export(model, (X,), capture="trace", verify=False)
    assert any("forward() sets self.calls" in note for note in program.plan.notes)
    assert model.calls == 0


def test_nothing_is_named_where_nothing_is_frozen():
    program = opbridge.export(lambda x: torch.where(x > 0.5, x, x * 2), (X,), capture="trace")
    assert not any(note.startswith("frozen") for note in program.plan.notes)


def test_verification_finds_where_a_frozen_value_decides():
    x = torch.linspace(-1, 1, 12).reshape(3, 4)[torch.tensor([2, 0, 1])].contiguous()
    with pytest.raises(opbridge.VerificationError) as caught:
        opbridge.export(integer, (x * 3,), capture="trace")
    assert "possibly caused by a constant in the trace" in str(caught.value)
    assert "return x * int(x.max())" in str(caught.value)


def test_warnings_of_the_model_itself_pass():
    def warning(x):
        warnings.warn("of the model's own", UserWarning, stacklevel=1)
        return branch(x)

    with pytest.warns(UserWarning, match="of the model's own"):
        opbridge.export(warning, (X,), capture="trace", verify=False)
