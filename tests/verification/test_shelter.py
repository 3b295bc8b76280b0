"""Runs that may end the process, and that nobody asked for: one that does costs itself. A failure may end pytest."""

from __future__ import annotations

import os
import signal

import onnx_ir as ir
import pytest
import torch
from helpers.tiny_models import model_of
from torch import nn
from torch.export import Dim

import opbridge
from opbridge.runtimes import child
from opbridge.verification import shelter
from opbridge.verification.intermediate import RuntimeValues
from opbridge.verification.shelter import Risk

DYNAMIC = ({0: "batch", 1: "length"},)
FROM_ONE = ({0: Dim("batch", min=1), 1: Dim("length", min=1)},)


class Deciding(nn.Module):
    """Its other side is taken by an empty batch alone."""

    def __init__(self, kind):
        super().__init__()
        torch.manual_seed(0)
        self.rnn = kind(4, 8, batch_first=True)

    def forward(self, x):
        y, _ = self.rnn(x)
        if y.abs().sum() < 1e-6:
            return y * 0 + 1
        return y


class Chosen(nn.Module):
    """Data decides how many rows the LSTM gets."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.rnn = nn.LSTM(4, 8, batch_first=True)

    def forward(self, x):
        return self.rnn(x[x[:, 0, 0] > 100])[0]


@pytest.fixture
def started(monkeypatch):
    """What is asked of the processes that are started."""
    found, start = [], child.Child.start

    def noted(self, header, blocks):
        found.append(header)
        return start(self, header, blocks)

    monkeypatch.setattr(child.Child, "start", noted)
    return found


@pytest.fixture
def x():
    return torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0))


def notes(verification):
    return [each for each in verification.notes if "ended its process" in each]


@pytest.mark.slow
@pytest.mark.quick
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_an_empty_batch_that_nobody_gave_does_not_end_the_process(kind, x, started, capfd):
    verification = opbridge.export(Deciding(kind), (x,), dynamic_shapes=DYNAMIC).verification
    assert verification.ok and len(verification.untaken) == 1
    [note] = notes(verification)
    assert "(SIGABRT) on 'x' of shape [0, 5, 4]: it does not support that" in note
    assert "declare torch.export.Dim('batch', min=1)" in note
    assert len(started) == 1  # of the many inputs with a batch of 0, one was run
    assert "terminate" not in capfd.readouterr().err


@pytest.mark.slow
def test_nothing_is_started_where_the_sizes_are_declared(x, started):
    verification = opbridge.export(Deciding(nn.LSTM), (x,), dynamic_shapes=FROM_ONE).verification
    assert verification.ok and not notes(verification) and not started


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_nothing_is_started_for_sizes_from_1_on(kind, started, x):
    """It takes longer than the export of a small model."""

    class Plain(Deciding):
        def forward(self, x):
            return self.rnn(x)[0]

    assert opbridge.export(Plain(kind), (x,), dynamic_shapes=DYNAMIC).verification.ok
    assert not started


@pytest.mark.slow
def test_an_empty_batch_that_the_runtime_takes_is_compared(x, started):
    verification = opbridge.export(Deciding(nn.RNN), (x,), dynamic_shapes=DYNAMIC).verification
    assert verification.ok and not verification.untaken and not notes(verification) and len(started) == 1


@pytest.mark.slow
def test_a_run_that_takes_for_ever_costs_itself(x, monkeypatch):
    start = child.Child.start

    def stopped(self, header, blocks):
        answer = start(self, header, blocks)
        os.kill(self.process.pid, signal.SIGSTOP)
        return answer

    monkeypatch.setattr(child.Child, "start", stopped)
    monkeypatch.setattr(shelter, "LIMITS", opbridge.Limits(seconds=0.5))
    verification = opbridge.export(Deciding(nn.RNN), (x,), dynamic_shapes=DYNAMIC).verification
    assert verification.ok and len(verification.untaken) == 1
    [note] = notes(verification)
    assert "ended its process (after 0.5 s) on 'x' of shape [0, 5, 4]" in note


@pytest.mark.slow
def test_a_verification_of_a_file_does_not_end_the_process_either(x, tmp_path):
    model, path = Deciding(nn.LSTM), tmp_path / "model.onnx"
    opbridge.export(model, (x,), path, dynamic_shapes=DYNAMIC, verify=False)
    found = opbridge.verify(path, model, (x,), dynamic_shapes=DYNAMIC)
    assert found.ok and len(notes(found)) == 1
    inside = opbridge.verify(path, model, (x,), dynamic_shapes=DYNAMIC, isolated=True)
    assert inside.ok and notes(inside) == notes(found)


@pytest.mark.slow
def test_sizes_that_data_decides_are_left_out_where_they_end_the_process(x):
    x[1, 0, 0] = 101.0
    verification = opbridge.export(Chosen(), (x,), dynamic_shapes=DYNAMIC).verification
    assert verification.ok and {run.label for run in verification.left_out} >= {"fresh 1", "fresh 2"}
    assert all("does not survive it" in str(run.left_out) for run in verification.left_out)
    [note] = notes(verification)
    assert "on fresh 1, fresh 2" in note and "opbridge lint --target onnxruntime" in note


@pytest.mark.slow
def test_the_example_that_ends_the_process_is_a_failure(x):
    with pytest.raises(opbridge.VerificationError, match=r"crashed the process of the model \(SIGABRT\)"):
        opbridge.export(Chosen(), (x,), dynamic_shapes=DYNAMIC)


@pytest.mark.slow
def test_inputs_of_the_users_that_end_the_process_are_a_failure(x, tmp_path):
    model, path = Deciding(nn.LSTM), tmp_path / "model.onnx"
    opbridge.export(model, (x,), path, dynamic_shapes=DYNAMIC, verify=False)
    found = opbridge.verify(path, model, (x,), dynamic_shapes=DYNAMIC, inputs=[(x[:0],)])
    assert not found.ok and "(SIGABRT)" in str(found.runs[-1].failure)


@pytest.mark.slow
def test_values_inside_of_a_file_are_read_elsewhere_on_empty_inputs(started):
    model = ir.from_proto(model_of("a = Relu (x)  y = Neg (a)"))
    for rows, count in ((3, 0), (0, 1)):
        [value] = RuntimeValues(model, {"x": torch.ones(rows, 4)}, []).compute(["a"])
        assert value.shape == (rows, 4) and len(started) == count


@pytest.mark.slow
def test_an_operator_that_python_code_registered_runs_here_on_empty_inputs(started):
    with torch.library._scoped_library("sheltered", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CPU")
        library.impl("twice", lambda x: torch.empty_like(x), "Meta")

        class Model(nn.Module):
            def forward(self, x):
                y = torch.ops.sheltered.twice(x)
                return y + 1 if (y.abs() + 1).sum() < 1e-6 else y

        routes = {"sheltered::twice": "aten"}
        program = opbridge.export(Model(), (torch.ones(2, 4),), dynamic_shapes=({0: "n"},), routes=routes)
    assert program.verification.ok and not program.verification.untaken and len(started) == 1


# -- which runs -------------------------------------------------------------------------------------------------------

CONSTANTS = {"w": torch.ones(1, 4, 4).numpy(), "r": torch.ones(1, 4, 1).numpy()}
LSTM = "y = LSTM<hidden_size = 1> ({}, w, r)"


def risk(body, inputs):
    return Risk(lambda: ir.from_proto(model_of(body, inputs=inputs, constants=CONSTANTS if "LSTM" in body else {})))


def test_a_run_is_risky_where_an_input_is_empty():
    found = risk("y = Relu (x)", "float[N, 4] x")
    assert found({"x": (0, 4)}) and not found({"x": (1, 4)})


def test_a_run_of_a_large_file_is_risky_where_an_operator_of_the_facts_may_get_nothing(monkeypatch):
    monkeypatch.setattr(shelter, "_LARGE_BYTES", 10)
    large = Risk(lambda: ir.from_proto(model_of("y = Add (x, c)", constants={"c": torch.ones(4).numpy()})))
    assert not large({"x": (0, 4)})
    found = risk(LSTM.format("x"), "float[M, N, 4] x")
    assert found({"x": (5, 0, 4)}) and not found({"x": (0, 2, 4)})


def test_a_run_is_risky_by_sizes_that_are_not_those_of_inputs():
    assert not risk(LSTM.format("x"), "float[5, N, 4] x")({"x": (5, 1, 4)})
    chosen = "a = Compress<axis = 1> (x, k)  " + LSTM.format("a")
    assert risk(chosen, "float[5, N, 4] x, bool[N] k")({"x": (5, 3, 4), "k": (3,)})
    halved = "s, t = Split<axis = 1, num_outputs = 2> (x)  " + LSTM.format("t")
    assert risk(halved, "float[5, N, 4] x")({"x": (5, 1, 4)})


def test_a_run_is_risky_in_bodies_too():
    body = f"y = If (k) <then_branch = t () => (float[5, 1, N, 1] y) {{ {LSTM.format('x')} }}, "
    body += "else_branch = e () => (float[5, 1, N, 1] z) { z = Unsqueeze (x, one) }>"
    inputs = "bool k, float[5, N, 4] x"
    model = model_of(body, inputs=inputs, constants={**CONSTANTS, "one": torch.tensor([1]).numpy()})
    found = Risk(lambda: ir.from_proto(model))
    assert found({"k": (), "x": (5, 0, 4)}) and not found({"k": (), "x": (5, 1, 4)})


def test_a_model_that_cannot_be_read_is_risky():
    def load():
        raise ValueError("no")

    assert Risk(load)({"x": (1, 4)})
