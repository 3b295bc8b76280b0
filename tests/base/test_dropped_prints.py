"""What a model prints is printed once by its capture, and once by its verification."""

from __future__ import annotations

import contextlib
import io

import torch
from rich.console import Console

import opbridge
from opbridge.base.dropped_prints import dropping_prints


def test_prints_are_dropped(capsys):
    print("before")
    with dropping_prints():
        print("within")
    with dropping_prints(False):
        print("after")
    assert capsys.readouterr().out == "before\nafter\n"


def test_what_rich_draws_is_not_dropped():
    drawn = io.StringIO()
    with contextlib.redirect_stdout(drawn):
        console = Console()
        with dropping_prints():
            console.print("a stage")
    assert drawn.getvalue() == "a stage\n"


def test_a_model_that_is_executed_several_times_prints_twice(capsys):
    def model(x):
        print("called")
        return x * 2 if x.sum() > 0 else x * 3

    program = opbridge.export(model, (torch.ones(3),))
    assert program.verification.ok and len(program.verification.runs) == 2
    assert capsys.readouterr().out == "called\n" * 2
