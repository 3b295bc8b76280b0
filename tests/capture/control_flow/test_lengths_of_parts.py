"""Parts of lengths that data decide: lengths that do not add up are an error when the file runs, as in PyTorch."""

from __future__ import annotations

import pytest
import torch

import opbridge

_VALUES = torch.arange(12.0).reshape(6, 2)


def as_a_list(lengths):
    first, second, _ = _VALUES.split(lengths.tolist())
    return first.sum() + second.sum() * 2


def as_numbers(lengths):
    first, second, third = torch.split(_VALUES, [int(each) for each in lengths])
    return torch.cat([third, first, second])


def in_iterations(lengths):
    chosen = lengths[(lengths != 99).nonzero()[:, 0]]
    return torch.cat([part.softmax(0) for part in _VALUES.split(chosen.tolist())])


@pytest.mark.slow
@pytest.mark.parametrize("model", [as_a_list, as_numbers, in_iterations])
def test_lengths_that_do_not_add_up(model):
    session = opbridge.export(model, (torch.tensor([2, 1, 3]),), verify=False).session()
    for lengths in ([2, 1, 3], [6, 0, 0], [1, 4, 1]):
        given = torch.tensor(lengths)
        (found,) = session.run(None, {"lengths": given.numpy()})
        torch.testing.assert_close(torch.from_numpy(found), model(given))
    for lengths in ([2, 1, 2], [7, -1, 0], [0, 0, 0], [3, 3, 3]):
        given = torch.tensor(lengths)
        with pytest.raises(RuntimeError):
            model(given)
        with pytest.raises(Exception, match=r"Split|Gather|indices|split"):
            session.run(None, {"lengths": given.numpy()})
