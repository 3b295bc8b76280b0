"""Whether two captures are the same graph."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from opbridge.capture import capture
from opbridge.capture.same_graph import is_same_graph
from opbridge.capture.value_numbers import ValueNumbering


class Model(nn.Module):
    """Computes by a function, with a layer and a buffer that all captures of it share."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("count", torch.zeros(3))
        self.function = None

    def forward(self, x):
        return self.function(self, x)


MODEL = Model().eval()


def graph_of(function, *, rows=2, dynamic=False):
    MODEL.function = function
    shapes = {"x": {0: "rows"}} if dynamic else None
    return capture(MODEL, (torch.randn(rows, 3),), dynamic_shapes=shapes).graph


def _dead_code(model, x):
    x.exp()
    return model.layer(x).relu()


def _written_before(model, x):
    y = x * 2
    y.add_(1)
    return y.sum(0), y


def _read_before(model, x):
    y = x * 2
    z = y.sum(0)
    y.add_(1)
    return z, y


def _updating(model, x):
    model.count.add_(1)
    return model.layer(x).relu()


LAYERS = graph_of(lambda model, x: model.layer(x).relu())


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda model, x: torch.relu(model.layer(x)), True),
        (_dead_code, True),
        (lambda model, x: model.layer(x).tanh(), False),
        (lambda model, x: model.layer(x.relu()), False),
        (lambda model, x: [model.layer(x).relu()], False),
        (lambda model, x: nn.functional.linear(x, torch.eye(3), model.layer.bias).relu(), False),
        (_updating, False),
    ],
    ids=["alike", "dead code", "operator", "order", "structure", "weight", "write to a buffer"],
)
def test_what_counts(function, expected):
    assert is_same_graph(LAYERS, graph_of(function)) is expected


def test_writes_are_in_order():
    assert is_same_graph(graph_of(_written_before), graph_of(_written_before))
    assert not is_same_graph(graph_of(_written_before), graph_of(_read_before))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], True),
        ([1.0, float("nan"), 3.0], [1.0, float("nan"), 3.0], True),
        ([0.0, 2.0, 3.0], [-0.0, 2.0, 3.0], False),
        ([1.0, 2.0, 3.0], [1.0, 2.0, 4.0], False),
    ],
)
def test_constants_are_told_bit_by_bit(one, other, expected):
    first, second = (graph_of(lambda model, x, values=each: x * torch.tensor(values)) for each in (one, other))
    assert is_same_graph(first, second) is expected


def test_numbers_of_python():
    assert is_same_graph(graph_of(lambda model, x: x * 2), graph_of(lambda model, x: x * 2))
    assert not is_same_graph(graph_of(lambda model, x: x * 2), graph_of(lambda model, x: x * 2.0))
    assert not is_same_graph(graph_of(lambda model, x: x * 1), graph_of(lambda model, x: x * True))


def test_random_results():
    def draws(model, x):
        return torch.rand_like(x) - torch.rand_like(x)

    assert is_same_graph(graph_of(draws), graph_of(draws))
    assert not is_same_graph(graph_of(draws), graph_of(lambda model, x: (y := torch.rand_like(x)) - y))


def test_sizes():
    def repeated(model, x):
        return x.sum(0).expand(x.shape[0] + 1, 3)

    dynamic = graph_of(repeated, dynamic=True)
    (symbol,) = dynamic.places
    assert is_same_graph(dynamic, graph_of(repeated, rows=5, dynamic=True))
    fixed = graph_of(repeated, rows=4)
    assert not is_same_graph(dynamic, fixed)
    assert is_same_graph(dynamic, fixed, ValueNumbering({symbol: 4}))
    assert not is_same_graph(dynamic, fixed, ValueNumbering({symbol: 5}))
