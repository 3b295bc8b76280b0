"""Operators that hold graphs."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches
from torch._higher_order_ops.scan import scan
from torch.export import Dim

import opbridge
from opbridge.graph import control_flow as known
from opbridge.translate import control_flow


@pytest.mark.slow
def test_cond_takes_both_branches():
    def model(x):
        return torch.cond(x.sum() > 0, lambda a: (a + 1, a * 2), lambda a: (a - 1, a * 3), (x,))

    program = assert_matches(model, torch.ones(3, 4), others=[(-torch.ones(3, 4),)])
    assert [node.op_type for node in program.model.graph][-1] == "If"


@pytest.mark.slow
def test_cond_with_a_dynamic_dimension():
    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,))

    inputs = [(torch.ones(5, 4),), (-torch.ones(2, 4),)]
    assert_matches(Model(), torch.ones(3, 4), others=inputs, dynamic_shapes={"x": {0: Dim("batch")}})


@pytest.mark.slow
def test_cond_inside_cond_with_weights():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x):
            def inner(a):
                return torch.cond(a.max() > 1, lambda b: self.linear(b), lambda b: b * 2, (a,))

            return torch.cond(x.sum() > 0, inner, lambda a: a.clone(), (x,))

    assert_matches(
        Model(), torch.ones(2, 4), others=[(torch.ones(2, 4) * 2,), (-torch.ones(2, 4),)], rtol=1e-5, atol=1e-6
    )


@pytest.mark.slow
def test_while_loop_counts_as_often_as_its_input_says():
    class Model(torch.nn.Module):
        def forward(self, count, x):
            return torch.while_loop(lambda n, y: n < 5, lambda n, y: (n + 1, y * 2), (count, x))

    others = [(torch.tensor(3), torch.randn(2)), (torch.tensor(9), torch.randn(2))]
    assert_matches(Model(), torch.tensor(0), torch.randn(2), others=others)


@pytest.mark.slow
def test_scan_carries_and_collects():
    class Model(torch.nn.Module):
        def forward(self, x):
            return scan(lambda carry, row: (carry + row, carry * row), torch.zeros(4), x)

    assert_matches(Model(), torch.randn(3, 4), others=[(torch.randn(3, 4),)])


@pytest.mark.slow
def test_complex_numbers_are_carried():
    """In the file they are pairs of numbers, in a dimension more."""

    def repeated(x, count):
        z = torch.complex(x, x * 0.5)
        for _ in range(int(count)):
            z = z * z + 0.1
        return z.abs()

    x = torch.linspace(-0.5, 0.5, 12).view(3, 4)
    assert_matches(repeated, x, torch.tensor(3), others=[(x * 0.5, torch.tensor(5)), (x, torch.tensor(0))])

    def scanned(x):
        z = torch.complex(x, x * 0.5)
        last, rows = scan(lambda carry, row: (carry * row, carry + row), z[0], z)
        return last.abs(), rows.real

    assert_matches(scanned, x, others=[(x.flip(0),)])


def _said(graph):
    """What the nodes of a graph say which nodes of the captured graph they are of."""
    return [node.metadata_props["opbridge.node"] for node in graph if "opbridge.node" in node.metadata_props]


def test_nodes_of_bodies_say_which_nodes_of_the_subgraphs_they_are_of():
    def loop(n, x):
        return torch.while_loop(lambda n, y: n < 5, lambda n, y: (n + 1, y.sin() * 2), (n, x))

    program = opbridge.export(loop, (torch.tensor(0), torch.ones(3)), verify=False)
    (node,) = [each for each in program.model.graph if each.op_type == "Loop"]
    # The condition is built before the loop, too, where its nodes are none of the graph around it.
    assert _said(program.model.graph) == ["while_loop:0 while_loop:1"]
    assert sorted(_said(node.attributes["body"].as_graph())) == ["add", "condition_of_lt", "mul", "sin"]

    program = opbridge.export(lambda x: scan(lambda a, row: (a + row, a * row), x[0], x), (torch.ones(2, 3),))
    (node,) = [each for each in program.model.graph if each.op_type == "Scan"]
    assert sorted(_said(node.attributes["body"].as_graph())) == ["add", "mul"]


@pytest.mark.slow
def test_no_grad_and_autocast_regions():
    def model(x):
        with torch.no_grad():
            a = torch.sin(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            b = x @ x.t()
        return a, b.float()

    assert_matches(model, torch.randn(4, 4), others=[(torch.randn(4, 4),)], rtol=2e-2, atol=2e-2)


def test_checkpointed_regions():
    from torch.utils.checkpoint import checkpoint

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x):
            return checkpoint(self.linear, x, use_reentrant=False) + 1

    assert_matches(Model(), torch.randn(2, 3), rtol=1e-5, atol=1e-6)


def test_the_plan_knows_the_operators_that_can_be_built():
    assert control_flow.TRANSLATIONS.keys() == known.KNOWN


def test_cond_whose_branches_return_none():
    """PyTorch runs no such branches itself, outside of a capture."""

    def model(x):
        found, nothing = torch.cond(x.sum() > 0, lambda a: (a.softmax(-1), None), lambda a: (a * 2, None), (x,))
        return found if nothing is None else nothing

    session = opbridge.export(model, (torch.ones(2, 3),), verify=False).session()
    for x, expected in ((torch.ones(2, 3), torch.full((2, 3), 1 / 3)), (-torch.ones(2, 3), -2 * torch.ones(2, 3))):
        torch.testing.assert_close(torch.from_numpy(session.run(None, {"x": x.numpy()})[0]), expected)
