"""Operators of control flow that users write themselves, around and inside of Python's own decisions."""

from __future__ import annotations

import pytest
import torch
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

import opbridge
from opbridge.errors import CaptureError

X = torch.tensor([[0.5, 2.0], [1.0, -0.25]])
INPUTS = (X, -X, X * 3, X * 0.1, torch.zeros(2, 2))


def cond_inside(x):
    if x.sum() > 0:
        return torch.cond(x.max() > 1, lambda v: v + 1, lambda v: v - 1, (x,))
    return x.cos()


def cond_of_a_decision(x):
    y = x * 2 if x.sum() > 0 else x - 3
    return torch.cond(y.sum() > 1, lambda v: v.sin(), lambda v: v.cos(), (y,))


def cond_whose_condition_decides(x):
    y = torch.cond(x.max() > 1, lambda v: v + 1, lambda v: v - 1, (x,))
    return y * 2 if y.sum() > 2 else y * 3


def while_loop_inside(x):
    if x.sum() > 0:
        _, x = while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 2), (torch.tensor(0), x))
    return x + 1


def while_loop_before(x):
    _, y = while_loop(lambda i, v: v.sum() < 10, lambda i, v: (i + 1, v.abs() + 1), (torch.tensor(0), x))
    return y if y.max() > 4 else y * 2


def scan_inside(x):
    if x.sum() > 0:
        _, x = scan(lambda carry, row: (carry + row, carry * row), torch.zeros(2), x)
    return x * 2


def scan_before(x):
    total, y = scan(lambda carry, row: (carry + row, carry * row), torch.zeros(2), x)
    return y + total if total.sum() > 0 else y - total


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        cond_inside,
        cond_of_a_decision,
        cond_whose_condition_decides,
        while_loop_before,
        scan_before,
    ],
    ids=lambda each: each.__name__,
)
def test_operators_of_control_flow_beside_decisions(model):
    program = opbridge.export(model, (X,), verify=False)
    assert len(program.plan.decisions) == 1
    session = program.session()
    for x in INPUTS:
        (found,) = session.run(None, {"x": x.numpy()})
        torch.testing.assert_close(torch.from_numpy(found), model(x.clone()))


@pytest.mark.slow
@pytest.mark.parametrize("model", [while_loop_inside, scan_inside], ids=lambda each: each.__name__)
def test_loops_and_scans_in_one_branch_are_refused(model):
    with pytest.raises(CaptureError, match=r"scan in a branch of a data-dependent Python `if` is not supported"):
        opbridge.export(model, (X,))
