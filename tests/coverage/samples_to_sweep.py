"""A database of samples that go wrong in every way, for the tests of the sweep."""

from __future__ import annotations

import os
import time

import torch
from onnxscript import opset18 as op

import opbridge
from opbridge.coverage.entries import Entry, Sample

F = torch.nn.functional


@torch.library.custom_op("sweeptest::half", mutates_args=())
def half(x: torch.Tensor) -> torch.Tensor:
    return x / 2


@half.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("sweeptest::unknown", mutates_args=())
def unknown(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@unknown.register_fake
def _(x):
    return torch.empty_like(x)


@opbridge.translation("sweeptest::half")
def translated_wrongly(x):
    """sweeptest::half(Tensor x) -> Tensor"""
    return op.Mul(x, op.Constant(value_float=0.25))


def _abort(x):
    os.abort()


def _sleep(x):
    time.sleep(600)


def _exit(x):
    os._exit(7)


def _raise(x):
    raise ValueError("not with these")


def _samples(count=3):
    def samples(dtype):
        for number in range(count):
            yield Sample((torch.randn(number + 2, 3).to(dtype),))

    return samples


def _in_lists(dtype):
    yield Sample(([torch.ones(2, dtype=dtype), torch.zeros(3, dtype=dtype)],), {"dim": 0})


def _one(operator, function, samples=None, **more):
    return Entry(operator, function, samples or _samples(), **more)


GOOD = [
    _one("relu", torch.relu, dtypes=(torch.int64, torch.float32, torch.float64)),
    _one("relu", lambda x: torch.relu(x) * 2, variant="doubled"),
    _one("cat", torch.cat, _in_lists),
    _one("dropout", lambda x: F.dropout(x, 0.3, True)),
    _one("seldom", lambda x: (torch.rand_like(x[0, :2]) < 0.15).float()),
    _one("empty", lambda x: torch.empty_like(x), undefined="nothing was written to it"),
    _one("split", lambda x: (x[:1], [x[1:], None])),
    _one("arange", lambda: torch.arange(5), lambda dtype: iter([Sample(())])),
]

BAD = [
    _one("half", half),
    _one("unknown", unknown),
    _one("biased", lambda x: torch.ops.sweeptest.half(torch.rand_like(x))),
]

LEFT_OUT = [
    _one("number", lambda x: 3),
    _one("raises", _raise),
    _one("sparse", lambda x: x.to_sparse()),
    _one("takes_sparse", torch.abs, lambda dtype: iter([Sample((torch.eye(3).to_sparse(),))])),
    _one("nowhere", torch.abs, dtypes=()),
    _one("foreign", torch.abs, dtypes=(torch.complex32,)),
]

BREAKING = [
    _one("abort", _abort, _samples(1)),
    _one("relu", torch.relu),
    _one("sleep", _sleep, _samples(1)),
    _one("tanh", torch.tanh),
    _one("exit", _exit, _samples(1)),
]

# With a pause in each, there is time to interrupt the sweep of them.
MANY = [
    _one(f"relu{number}", lambda x: time.sleep(float(os.environ.get("SWEEP_PAUSE", 0))) or torch.relu(x))
    for number in range(20)
]

BREAKING_AND_MANY = [*BREAKING, *MANY]

ALL = [*GOOD, *BAD, *LEFT_OUT]


def made():
    return GOOD


NONE = 3
TWICE = [GOOD[0], GOOD[0]]
