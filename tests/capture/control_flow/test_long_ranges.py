"""Loops over ranges of a known length that decide more often than one run may."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.rows import one_in
from torch import Tensor

import opbridge


def left_by_break(x: Tensor) -> Tensor:
    found = []
    for _ in range(200):
        x = torch.tanh(x * 0.95)
        found.append(x.sum())
        if x.abs().max() < 0.1:
            break
    return torch.stack(found)


def decoded(x: Tensor) -> Tensor:
    """The loop of a decoder, as in transformers' SLANet: it looks at all that it has decoded."""
    ids, last = [], x.argmax().reshape(1)
    for number in range(1, 400):
        last = (last * 7 + number) % 31
        ids.append(last)
        if torch.stack(ids, dim=1).eq(5).any(-1).all():
            break
    return torch.stack(ids, 1)


def with_branches(x: Tensor) -> Tensor:
    total = torch.zeros(4)
    for number in range(300, 0, -2):
        if x[number % 4] > 0:  # noqa: SIM108 - a branch, as models have it
            total = total + x
        else:
            total = total - number * 0.01
    return total


@pytest.mark.slow
@pytest.mark.parametrize("model", one_in(2, [left_by_break, decoded, with_branches]), ids=lambda model: model.__name__)
def test_it_is_a_loop_of_the_file(model: Any) -> None:
    program = opbridge.export(model, (torch.randn(4),), verify=False)
    session = program.session()
    for _ in range(6):
        x = torch.randn(4) * 2
        (found,) = session.run(None, {"x": x.numpy()})
        torch.testing.assert_close(torch.from_numpy(found), model(x), rtol=1e-4, atol=1e-4)
    assert sum(1 for _ in program.model.graph) < 40
