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
