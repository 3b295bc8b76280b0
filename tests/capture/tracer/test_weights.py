"""Parameters, buffers and constants as placeholders of a captured graph."""

from __future__ import annotations

import copy

import torch
from helpers.captures import assert_same
from torch import nn

from opbridge.capture import capture

_X = torch.arange(8.0).reshape(2, 4) / 8


def _weights(taken):
    return {weight.name: (weight.kind, node) for node, weight in taken.graph.weights.items()}


def test_tied_weights_are_one_placeholder():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(4, 4, bias=False)
            self.second = nn.Linear(4, 4, bias=False)
            self.second.weight = self.first.weight

        def forward(self, x):
            return self.second(self.first(x))

    taken = capture(Model(), _X)
    assert list(_weights(taken)) == ["first.weight"]
    (node,) = taken.graph.weights
    assert len(node.users) == 2
    assert_same(taken)


def test_views_of_one_memory_have_their_own_values():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.arange(8.0).reshape(2, 4))
            self.register_buffer("row", self.table[1])

        def forward(self, x):
            return self.row + self.table * x

    taken = capture(Model(), _X)
    assert set(_weights(taken)) == {"table", "row"}
    assert_same(taken)


def test_a_tensor_in_a_plain_attribute_is_a_constant_with_its_name():
    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.offset = torch.arange(4.0)

        def forward(self, x):
            return x + self.offset

    taken = capture(nn.Sequential(Inner()), _X)
    assert {name: kind for name, (kind, _) in _weights(taken).items()} == {"0.offset": "constant"}
    assert_same(taken)


def test_a_tensor_of_a_closure_is_a_constant():
    offset = torch.arange(4.0)
    taken = capture(lambda x: x + offset + offset, _X)
    assert [kind for kind, _ in _weights(taken).values()] == ["constant"]
    assert_same(taken)


def test_parameters_are_those_of_the_model():
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).eval()
    taken = capture(model, _X)
    state = dict(model.named_parameters()) | dict(model.named_buffers())
    assert all(weight.tensor is state[weight.name] for weight in taken.graph.weights.values())


def test_a_deep_copy_is_a_tensor_of_its_own():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            other = copy.deepcopy(self.linear)
            assert isinstance(other.weight, nn.Parameter)
            with torch.no_grad():
                other.weight.zero_()
            return other(x) + self.linear(x)

    assert_same(capture(Model(), _X))
