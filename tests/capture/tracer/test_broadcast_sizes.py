"""Sizes of inputs that are broadcast to sizes that only data decide."""

from __future__ import annotations

import operator

import pytest
import torch
from helpers.matching import assert_matches
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from opbridge.capture import capture
from opbridge.capture.tracer.broadcast_sizes import dims_beside_data


def _positions(count: torch.Tensor) -> torch.Tensor:
    return torch.arange(int(count))[:, None] * torch.ones(4)


def heads_of_rows(x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    y = x + _positions(count)
    y = y.sin().reshape(1, -1, y.shape[0] * 2, 2).cumsum(2)
    return y[0] * 2 if y.sum() > 0 else y[0]


def a_range_of_rows(x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    y = (x * _positions(count)).exp()
    numbers = torch.arange(y.shape[0])
    return y.sum(1) + numbers if x.sum() > 0 else y.sum(1) - numbers


@pytest.mark.parametrize("model", [heads_of_rows, a_range_of_rows], ids=lambda model: model.__name__)
@pytest.mark.parametrize("rows", [6, 1])
def test_one_row_is_added_to_all(model, rows):
    others = [
        (sign * torch.rand(own, 4), torch.tensor(count))
        for sign in (-1, 1)
        for own, count in ((1, 5), (1, 1), (4, 4), (2, 2))
    ]
    assert_matches(model, torch.rand(rows, 4), torch.tensor(6), others=others, dynamic_shapes=({0: "rows"}, None))


def test_the_dimensions_are_those_of_sizes_of_inputs_and_of_data():
    env = ShapeEnv()
    data = env.create_unbacked_symint()
    torch._check(data >= 0)
    fixed, open_one = torch.empty(3, data, 4, device="meta"), torch.empty(data, 1, device="meta")
    assert dims_beside_data(torch.ops.aten.add.Tensor, (fixed, open_one)) == {}
    assert dims_beside_data(torch.ops.aten.mm.default, (open_one, open_one)) == {}


class _Quotient(torch.nn.Module):
    """A quotient of rows that data decide and others, which may be one."""

    def forward(self, x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        share = _positions(count)[:, 0] / (torch.arange(x.shape[0]) + 1)
        y = x + share[:, None]
        return y.reshape(1, -1, y.shape[0] * 2, 2)


def test_a_size_is_that_of_the_result_whichever_comes_first():
    graph = capture(_Quotient(), (torch.rand(6, 4), torch.tensor(6)), dynamic_shapes=({0: "rows"}, None)).graph
    (product,) = (node for node in graph.graph.nodes if node.target is operator.mul)
    (size,) = product.all_input_nodes
    assert size.args[0].target is torch.ops.aten.div.Tensor
