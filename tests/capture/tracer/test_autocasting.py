"""Operators under autocast."""

from __future__ import annotations

import pytest
import torch
from helpers.captures import operators
from torch import nn
from torch.nn import functional

from opbridge.capture import capture

_X = torch.arange(8.0).reshape(2, 4) / 8


class _Cast(nn.Module):
    def __init__(self, inner, dtype=torch.bfloat16, *, enabled=True):
        super().__init__()
        self.inner = inner
        self.dtype = dtype
        self.enabled = enabled

    def forward(self, x):
        with torch.autocast("cpu", dtype=self.dtype, enabled=self.enabled):
            return self.inner(x)


def _captured(inner, **settings):
    taken = capture(_Cast(inner, **settings), _X)
    assert taken.mode == "direct"
    return taken


def _dtypes(taken, name):
    nodes = [node for node in taken.graph.graph.nodes if f".{name}." in str(node.target)]
    return [node.meta["val"].dtype for node in nodes]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_casts_are_operators(dtype):
    taken = _captured(nn.Linear(4, 3), dtype=dtype)
    assert _dtypes(taken, "linear") == [dtype]
    assert sum("to" in each.split(".")[1] for each in operators(taken)) == 3  # of the input, the weight and the bias


def test_a_composite_operator_stays_whole_where_nothing_is_cast():
    taken = _captured(lambda x: x.softmax(-1).unflatten(-1, (2, 2)))
    assert any("unflatten" in each for each in operators(taken))


def test_a_composite_operator_is_taken_apart_where_something_is_cast():
    taken = _captured(lambda x: torch.einsum("ij,kj->ik", x, x))
    assert not any("einsum" in each for each in operators(taken))
    assert _dtypes(taken, "bmm") == [torch.bfloat16]


def test_an_operator_that_needs_precision_is_computed_in_float32():
    taken = _captured(lambda x: functional.mse_loss((x @ x.T), x @ x.T))
    assert taken.graph.outputs[0].node.meta["val"].dtype is torch.float32


def test_nothing_is_cast_where_autocast_is_off():
    taken = _captured(nn.Linear(4, 3), enabled=False)
    assert operators(taken) == ["aten.linear.default"]
