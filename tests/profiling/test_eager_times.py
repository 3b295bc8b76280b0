"""Eager PyTorch, timed by operator, module and line."""

from __future__ import annotations

import pytest
import torch

import opbridge
from opbridge.profiling.eager import torch_times

FILE = "tests/profiling/test_eager_times.py"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = self.linear(x)  # the line of the product
        return y.relu() + 1


def times(model, *args, runs=2):
    return torch_times(model, args, {}, runs, 1, 1, 20.0)


def line_of(code):
    with open(__file__, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if code in line)


def test_operators_belong_to_their_module_and_to_the_users_line(monkeypatch, request):
    monkeypatch.chdir(request.config.rootpath)
    found = {each.operator: each for each in times(Net().eval(), torch.ones(2, 4)).calls}
    product = found["aten::addmm"]
    assert (product.module, product.calls) == ("linear", 1)
    assert product.line.endswith(f"test_eager_times.py:{line_of('# the line of the product')}")
    assert (found["aten::relu"].module, found["aten::add.Tensor"].module) == ("", "")
    assert all(each.milliseconds > 0 for each in found.values())


def test_the_model_is_left_as_it_was():
    model = Net().train()
    threads = torch.get_num_threads()
    found = times(model, torch.ones(2, 4), runs=3)
    assert (found.runs, found.device, found.threads) == (3, "cpu", 1)
    assert model.training and not model._forward_hooks and not model.linear._forward_pre_hooks
    assert torch.get_num_threads() == threads


def test_a_function_is_timed_too():
    found = times(lambda x: x.sin().cos(), torch.ones(3))
    assert [each.operator for each in found.calls] == ["aten::sin", "aten::cos"]


def test_a_model_that_does_not_run_is_the_users():
    with pytest.raises(
        opbridge.UsageError, match=r"does not run in PyTorch on these inputs: RuntimeError at .*test_eager"
    ):
        times(Net(), torch.ones(2, 3))
