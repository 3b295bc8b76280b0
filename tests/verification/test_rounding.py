"""Values that the runtime rounds otherwise: right next to a tie, and nowhere else."""

from __future__ import annotations

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # defines the operators
from torch.fx import Graph

from opbridge.verification.rounding import quantizes, rounded, rounds

QUANTIZE = torch.ops.quantized_decomposed.quantize_per_tensor.default


@pytest.mark.parametrize(("number", "other", "is_right"), [(0.25, 3, True), (0.25, 4, False), (0.3, 2, False)])
def test_one_step_beside_a_tie(number, other, is_right):
    graph = Graph()
    x = graph.placeholder("x")
    node = graph.call_function(QUANTIZE, (x, 0.1, 0, -128, 127, torch.int8))
    value = torch.tensor([number, 1.0])
    own = node.target(value, *node.args[1:])
    actual = {node.name: torch.tensor([other, 10], dtype=torch.int8)}
    found = rounded(node, own, {x: value}, actual, 1e-6 * value.abs())
    assert rounds(node) and quantizes(node)
    if own.tolist() == [other, 10]:
        assert found is None
    elif is_right:
        assert found is not None
        assert found.result.tolist() == [other, 10] and (found.count, found.step) == (1, "quantization")
    else:
        assert found is None


def test_a_sum_does_not_round():
    graph = Graph()
    x = graph.placeholder("x")
    node = graph.call_function(torch.ops.aten.add.Tensor, (x, x))
    assert not rounds(node) and not quantizes(graph.call_function(torch.ops.aten.round.default, (x,)))
