"""Where the nodes of a captured graph come from."""

from __future__ import annotations

import inspect

import torch
from torch import nn

from opbridge.capture import capture

_X = torch.ones(2, 4)


def _helper(x):
    return x.cos()  # the line of the cosine


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return _helper(self.linear(x))


class _Shared(nn.Module):
    """One layer under two paths."""

    def __init__(self) -> None:
        super().__init__()
        self.first = _Block()
        self.second = _Block()
        self.second.linear = self.first.linear

    def forward(self, x):
        return self.second(self.first(x)).sin()


def _nodes(model, name):
    return [node for node in capture(model, _X).graph.graph.nodes if f".{name}." in f".{node.target}."]


def _line(function, text):
    lines, start = inspect.getsourcelines(function)
    return start + next(i for i, line in enumerate(lines) if text in line)


def test_a_node_has_the_lines_that_were_running_the_innermost_first():
    (node,) = _nodes(_Block(), "cos")
    sources = node.meta["sources"]()
    assert sources[0].file.endswith("test_origins.py")
    assert [(each.function, each.line) for each in sources[:2]] == [
        ("_helper", _line(_helper, "x.cos()")),
        ("forward", _line(_Block, "_helper(")),
    ]
    assert sources[0].code == "return x.cos()  # the line of the cosine"


def test_a_node_has_the_path_of_its_module():
    model = nn.Sequential(_Block(), nn.ReLU())
    assert [node.meta["module_path"] for node in _nodes(model, "linear")] == ["0.linear"]
    assert [node.meta["module_path"] for node in _nodes(model, "relu")] == ["1"]


def test_a_shared_module_has_the_path_below_its_caller():
    assert [node.meta["module_path"] for node in _nodes(_Shared(), "linear")] == ["first.linear", "second.linear"]
    assert [node.meta["module_path"] for node in _nodes(_Shared(), "sin")] == [""]


def test_a_gradient_has_the_line_that_asks_for_it():
    def model(x):
        x = x.detach().requires_grad_()
        y = x.tanh().sum()
        return torch.autograd.grad(y, x)[0]

    (node,) = _nodes(model, "tanh_backward") or _nodes(model, "mul")[-1:]
    assert node.meta["sources"]()[0].line == _line(model, "autograd.grad")
