"""A verification that compared nothing says so, and looks for inputs that give it something to compare."""

from __future__ import annotations

import json

import pytest
import torch

import opbridge
from opbridge.cli.export_view import print_verification
from opbridge.verification.compare import compare

NAN = float("nan")


def drawn(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0))


def large(x):
    return x[x > 10].sqrt().sin()


def amplifying(x):
    return x[x > 10].exp().sin()


def test_inputs_are_found_for_an_output_that_is_empty_on_others():
    found = opbridge.export(large, (drawn(4, 5),)).verification
    assert found.verdict == "verified" and not found.uncompared and not found.notes
    (run,) = (run for run in found.runs if run.kind == "values")
    assert run.comparisons[0].has_numbers and found.outputs[0].run == run.label
    assert run.label in found.summary()


def test_a_wrong_file_is_found_on_inputs_for_which_the_output_is_not_empty():
    program = opbridge.export(large, (drawn(4, 5),), verify=False)
    found = opbridge.verify(program, lambda x: large(x) + 1, (drawn(4, 5),))
    assert found.verdict == "mismatch" and [run.kind for run in found.runs if not run.ok] == ["values"]
    assert "inputs for which an output has numbers" in found.describe_mismatch()


def test_a_run_in_which_few_digits_are_right_is_better_than_none():
    found = opbridge.export(amplifying, (drawn(4, 5),)).verification
    assert found.ok and [run.kind for run in found.runs][3:] == ["values"]


@pytest.mark.parametrize(
    "model, said",
    [
        (lambda x: x[x > 1e30], "empty"),
        (lambda x: x[x > 100].exp().sin(), "empty"),  # the sine of an infinity, where it is not empty
        (lambda x: x * NAN, "NaN"),
        (lambda x: (x[x > 1e30], x[x > 1e30].long()), "empty"),
    ],
    ids=["never found", "overflow", "NaN", "two outputs"],
)
def test_a_verification_that_compared_nothing_says_so(model, said):
    found = opbridge.export(model, (drawn(4, 5),)).verification
    assert found.ok and found.verdict == "nothing compared"
    assert set(found.uncompared.values()) == {said}
    first = str(found).splitlines()[0]
    assert first.startswith("NOTHING COMPARED: ") and f"is {said}" in first and "verified" not in first
    assert "agree" not in found.summary() and "gives what PyTorch gives" not in found.describe_mismatch()
    assert any("inputs=" in note for note in found.notes)
    data = json.loads(json.dumps(found.to_json()))
    assert data["verdict"] == "nothing compared" and data["uncompared"] == found.uncompared


def test_one_output_of_several_that_was_not_compared_is_named():
    found = opbridge.export(
        lambda x: (x * 2, x[x > 1e30]), (drawn(4, 5),), output_names=["twice", "chosen"]
    ).verification
    assert found.verdict == "verified" and found.uncompared == {"chosen": "empty"}
    assert found.summary().startswith("1 output agrees") and "'chosen' is empty" in found.summary()


def test_an_output_that_can_have_no_element_is_not_searched_for():
    found = opbridge.export(lambda x: (x * 2, x.new_zeros(0, 3)), (drawn(4, 5),)).verification
    assert found.uncompared and not found.notes and {run.kind for run in found.runs} == {"example", "fresh"}


def test_inputs_of_a_caller_are_not_added_to():
    program = opbridge.export(large, (drawn(4, 5),), verify=False)
    found = opbridge.verify(program, inputs=[(drawn(4, 5),)])
    assert found.verdict == "nothing compared" and {run.kind for run in found.runs} == {"example", "given"}
    assert opbridge.verify(program, inputs=[(drawn(4, 5) + 10,)]).verdict == "verified"


def test_a_terminal_shows_it(capsys):
    from rich.console import Console

    found = opbridge.export(lambda x: x[x > 1e30], (drawn(4, 5),)).verification
    console = Console(force_terminal=True, width=200, no_color=True)
    print_verification(console, found)
    assert "nothing compared" in capsys.readouterr().out


@pytest.mark.parametrize(
    "values, nans, has_numbers",
    [([], 0, False), ([NAN, NAN], 2, False), ([NAN, 1.0], 1, True), ([float("inf")], 0, True), ([0.0], 0, True)],
)
def test_the_numbers_of_a_comparison(values, nans, has_numbers):
    found = compare("x", torch.tensor(values), torch.tensor(values))
    assert found.ok and found.nans == nans and found.has_numbers is has_numbers
