"""Runs of captured graphs with sub-graphs."""

from __future__ import annotations

import pytest
import torch

from opbridge.capture import capture
from opbridge.capture.other_branches import results
from opbridge.graph.running import Running


class Doubling(torch.nn.Module):
    def forward(self, x):
        turns = torch.zeros((), dtype=torch.int64)
        while x.sum() < 100:
            x, turns = x * 2, turns + 1
        if x.max() > 50:
            x = -x
        return x, turns


@pytest.mark.slow
@pytest.mark.parametrize("value", [1.0, 40.0, 200.0])
def test_loops_and_decisions_run(value):
    graph = capture(Doubling(), (torch.ones(3),)).graph
    x = torch.full((3,), value)
    for found, expected in zip(results(graph, [x]), Doubling()(x), strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.slow
def test_what_a_run_decides_is_told_and_its_turns_are_limited():
    graph = capture(Doubling(), (torch.ones(3),)).graph
    told = []

    def run(value, most):
        told.clear()
        given = [weight.tensor for weight in graph.weights.values()]
        values = iter(given)
        inputs = [
            next(values) if node in graph.weights else torch.full((3,), value)
            for node in graph.graph.nodes
            if node.op == "placeholder"
        ]
        return Running(graph.module, lambda node, answer: told.append(answer), most).run(*inputs)

    run(10.0, 2)
    assert len(told) == 2
    with pytest.raises(RuntimeError, match="more than 1 iteration"):
        run(10.0, 1)
