"""What becomes of translations that raise: a refusal, the user's mistake, or a fault of opbridge's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from onnxscript import opset18 as op

import opbridge
from opbridge.cli import main
from opbridge.translations.registry import builtin

ARGS = (torch.rand(3),)
NEWER = 19  # no translation of ours is for this opset, so that one can be registered beside ours


def _model(x: torch.Tensor) -> torch.Tensor:
    return torch.erfinv(x).relu() + torch.special.entr(x)


def _line_of(text: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line and "_line_of" not in line)


@pytest.fixture
def faulty() -> Iterator[None]:
    """Two translations of opbridge's own with a bug."""

    def lookup(x):
        return {}["no such key"]

    def arithmetic(x):
        return op.Add(x, None.size)

    with opbridge.override():
        builtin("aten::erfinv", opset=NEWER)(lookup)
        builtin("aten::special_entr", opset=NEWER)(arithmetic)
        yield


def test_faults_are_told_together_with_their_place(faulty):
    with pytest.raises(opbridge.TranslationFault) as raised:
        opbridge.export(_model, ARGS, opset_version=20)
    text = str(raised.value)
    assert "2 translations failed unexpectedly" in text
    assert f"test_failures.py:{_line_of('no such key')}, in lookup: KeyError: 'no such key'" in text
    assert f"test_failures.py:{_line_of('None.size')}, in arithmetic: AttributeError" in text
    assert "aten::erfinv (1x at " in text and "aten::special_entr (1x at " in text
    assert isinstance(raised.value.__cause__, KeyError)
    assert raised.value.exit_status == 3
    assert [fault.operator for fault in raised.value.plan.faults] == ["aten::erfinv", "aten::special_entr"]


def test_a_fault_takes_no_other_route(faulty):
    allow = ("standard", "function", "kernel", "aten", "fallthrough")
    with pytest.raises(opbridge.TranslationFault):
        opbridge.export(_model, ARGS, opset_version=20, allow=allow)
    plan = opbridge.check(_model, ARGS, opset_version=20, allow=allow)
    assert [row.operator for row in plan.missing] == ["aten::erfinv", "aten::special_entr"]


def test_a_pinned_route_goes_round_a_fault(faulty):
    routes = {"aten::erfinv": "aten", "aten::special_entr": "aten"}
    program = opbridge.export(_model, ARGS, opset_version=20, routes=routes)
    assert program.verification.ok and not program.plan.faults


def test_faults_and_missing_operators_are_told_together(faulty):
    with pytest.raises(opbridge.TranslationFault, match="(?s)erfinv.*1 of 6 operators have no route.*linalg_eig"):
        opbridge.export(lambda x: _model(x) + torch.linalg.eig(x.outer(x))[0], ARGS, opset_version=20)


@pytest.mark.parametrize("error", [opbridge.TranslationError("not for 1-D"), NotImplementedError("not for 1-D")])
def test_these_two_mean_that_it_cannot_be_translated(error):
    def refuses(x):
        raise error

    with opbridge.override():
        builtin("aten::erfinv", opset=NEWER)(refuses)
        with pytest.raises(opbridge.MissingOperators, match=r"opbridge translation, opset 19, failed: not for 1-D\."):
            opbridge.export(_model, ARGS, opset_version=20)
        carried = opbridge.export(_model, ARGS, opset_version=20, allow=("standard", "function", "aten"))
    assert carried.plan.routes() == {"standard": 3, "aten": 1}


@pytest.mark.parametrize("kind", [ValueError, KeyError, ZeroDivisionError])
def test_a_users_translation_names_the_users_line(kind):
    def mine(x):
        raise kind("deliberate")

    with opbridge.override():
        opbridge.translation("aten::erfinv")(mine)
        with pytest.raises(opbridge.MissingOperators) as raised:
            opbridge.export(_model, ARGS)
    assert f"test_failures.py:{_line_of('raise kind(')}, in mine: {kind.__name__}: " in str(raised.value)


def test_a_fault_inside_of_a_decomposition(monkeypatch):
    def broken(x, *others, **named):
        raise IndexError("deliberate")

    with opbridge.override() as registry:
        registry.entries.pop("aten::entr", None)
        registry.entries.pop("aten::special_entr", None)
        builtin("aten::log", opset=NEWER)(broken)
        with pytest.raises(opbridge.TranslationFault, match=r"(?s)special_entr.*decomposition, by the opbridge"):
            opbridge.export(torch.special.entr, ARGS, opset_version=20)


def test_arguments_that_a_translation_has_no_parameters_for_are_a_refusal():
    with opbridge.override():
        builtin("aten::clamp", opset=NEWER)(lambda self, min: op.Max(self, min))
        with pytest.raises(
            opbridge.MissingOperators, match="the arguments do not match its signature: too many positional"
        ):
            opbridge.export(lambda x: x.clamp(0.1, 0.5), ARGS, opset_version=20)


SPEC = """
import torch

def build():
    return torch.erfinv, (torch.rand(3),), {"opset_version": 20}
"""


@pytest.mark.parametrize("command", ["check", "export"])
def test_the_command_line(faulty, tmp_path, capsys, command):
    file = tmp_path / "net.py"
    file.write_text(SPEC)
    arguments = [command, f"{file}:build", *(["-o", str(tmp_path / "net.onnx")] if command == "export" else [])]
    assert main(arguments) == 3
    assert "Traceback" not in capsys.readouterr().err
    assert main([*arguments, "--debug"]) == 3
    told = capsys.readouterr().err
    assert "Traceback" in told and "no such key" in told
    assert main([*arguments, "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    (fault,) = document.get("plan", document)["faults"]
    assert fault["operator"] == "aten::erfinv" and "KeyError" in fault["error"]
    assert not (tmp_path / "net.onnx").exists()
