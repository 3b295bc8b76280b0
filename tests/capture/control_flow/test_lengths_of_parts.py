"""Parts of lengths that data decide: lengths that do not add up are an error when the file runs, as in PyTorch."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches
from torch.export import Dim

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


def of_images(x, sizes):
    return x.split([(height // 2) * (width // 2) for height, width in sizes])


def of_rows(x, sizes):
    return torch.split(x, list((sizes // 2).prod(1)))


def one_by_one(x, sizes):
    return torch.split_with_sizes(x, [each * 1 for each in (sizes // 2).prod(1)])


@pytest.mark.parametrize("parts", [of_images, of_rows, one_by_one])
def test_lengths_that_are_tensors_without_dimensions(parts):
    def model(x, sizes):
        return torch.cat([part.cumsum(0) for part in parts(x, sizes)])

    def given(*sizes):
        return torch.randn(sum((height // 2) * (width // 2) for height, width in sizes), 3), torch.tensor(sizes)

    others = [given((2, 2)), given((4, 2), (2, 2), (6, 6)), given(*[(2, 4)] * 5), given((0, 4), (2, 6))]
    shapes = ({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC})
    assert_matches(model, *given((4, 4), (2, 6)), others=others, dynamic_shapes=shapes)
