"""Families of tiny models that go right and wrong in every way, for the tests of the sweep over models."""

from __future__ import annotations

import dataclasses
import os
import time
from functools import partial
from pathlib import Path

import torch
from operators_of_models import tripled_if_large, unknown

from opbridge.coverage.models.entries import Case, Inputs, ModelEntry


class Calls(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x, scale=None):
        x = self.function(self.linear(x))
        return x if scale is None else x * scale


def _abort(x):
    os.abort()


def _sleep(x):
    time.sleep(600)


def _tell_and_sleep(x):
    Path(os.environ["SWEEP_PID"]).write_text(str(os.getpid()))
    time.sleep(600)


def _eat(x):
    held = []
    for _ in range(64):
        held.append(torch.ones(2**26))
        time.sleep(0.05)


def _raise(x):
    raise ValueError("not with these")


def _return_nothing(x):
    return None


def _pause(x):
    time.sleep(float(os.environ.get("SWEEP_PAUSE", 0)))
    return x.relu()


def _other_for_large_batches(x):
    return x if torch.compiler.is_exporting() or x.shape[0] <= 2 else x + 1


def _case(function, largest=1.0):
    def images(batch):
        return Inputs((torch.randn(batch, 4) * largest,))

    shapes = {"batch": ({0: "batch"},)}
    others = {"none": [images(2)], "batch": [images(1), images(3)]}
    return Case(Calls(function).eval(), Inputs((torch.randn(2, 4),)), shapes, others)


def _by_name(batch):
    return Inputs((torch.randn(batch, 4),), {"scale": torch.rand(batch, 1)})


def _with_a_keyword():
    shapes = {"x": {0: "batch"}, "scale": {0: "batch"}}
    return Case(Calls(torch.relu).eval(), _by_name(2), {"batch": shapes}, {"batch": [_by_name(1), _by_name(3)]})


def _without_others():
    return Case(Calls(torch.tanh).eval(), Inputs((torch.randn(2, 4),)), {"batch": ({0: "batch"},)})


def _with_small_batches():
    case = _case(_other_for_large_batches)
    return dataclasses.replace(case, others={"batch": case.others["batch"][:1]})


def _not_built():
    raise OSError("no such weights")


def _nonzero_of_a_number(x):
    return torch.nonzero(x.sum())


def _one(name, function, **options):
    return ModelEntry(name, partial(_case, function, **options))


GOOD = [
    _one("relu", torch.relu),
    ModelEntry("keyword", _with_a_keyword),
    ModelEntry("no_others", _without_others),
]

BAD = [
    _one("large", tripled_if_large, largest=1e4),
    _one("unknown", unknown),
    _one("raises", _raise),
    _one("nothing", _return_nothing),
    ModelEntry("not_built", _not_built),
]

FIXED = [ModelEntry("fixed", lambda: Case(Calls(torch.tanh).eval(), Inputs((torch.randn(2, 4),))))]

OF_DATA = [_one("nonzero", _nonzero_of_a_number)]

IN_AN_EXPORT = [ModelEntry("batches", _with_small_batches)]

BREAKING = [
    _one("abort", _abort),
    _one("relu", torch.relu),
    _one("eat", _eat),
    _one("tanh", torch.tanh),
]

HANGING = [_one("sleep", _sleep), _one("sleep again", _sleep)]

LONG = [_one("tells", _tell_and_sleep)]

MANY = [_one(f"relu{number}", _pause) for number in range(12)]


def made():
    return (entry for entry in GOOD)


NONE = 3
OTHERS = [1, 2]
TWICE = [GOOD[0], GOOD[0]]
