"""What models read of lists that a loop has filled, whose length data decide."""

from __future__ import annotations

import pytest
import torch
from helpers.rows import one_in

import opbridge


def _filled(x):
    found = []
    for row in x[x[:, 0] > 0]:
        found.append(row * 2)
    return found


def of_first(x):
    found = _filled(x)
    return found[0] + torch.stack(found).sum(0)


def without_first(x):
    found = _filled(x)
    found.pop(0)
    return torch.stack([x[0], *found])


def if_any(x):
    found = _filled(x)
    return torch.stack(found) if found else x


def if_long_enough(x):
    found = _filled(x)
    return torch.stack(found) if len(found) > 0 else x


def with_others(x):
    return torch.stack([x[0]] + _filled(x))  # noqa: RUF005


def written_to(x):
    found = _filled(x)
    found[0] = x[0]
    found[-1] = x[1]
    return torch.stack(found)


def without_one(x):
    found = _filled(x)
    del found[0]
    found.reverse()
    return torch.stack([*found, x[0]])


def every_second(x):
    found = _filled(x)
    return torch.stack(found[::2]), torch.stack(found[::-1]), torch.stack([*found[-2::-1], x[0]])


def in_pairs(x):
    pairs = [(row.sum(), row * 2) for row in x[x[:, 0] > 0]]
    sums, rows = zip(*pairs)  # noqa: B905
    return torch.stack(rows) * torch.stack(sums)[:, None]


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    one_in(
        2,
        [of_first, without_first, if_any, written_to, every_second, if_long_enough, with_others, without_one, in_pairs],
    ),
    ids=lambda model: model.__name__,
)
def test_it_is_right_for_other_numbers_of_elements(model):
    x = torch.linspace(-1, 1, 20).view(5, 4)  # of which two rows are taken
    session = opbridge.export(model, (x,), verify=False).session()
    for positive in ([0, 3], [2], [0, 1, 2, 3, 4], [], [1, 2, 4]):
        given = -x.abs() - 0.1
        given[positive] = given[positive].neg()
        if not positive and model not in (if_any, if_long_enough, with_others):
            continue  # PyTorch raises an error
        found = session.run(None, {"x": given.numpy()})
        expected = model(given)
        for one, other in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
            torch.testing.assert_close(torch.from_numpy(one), other)
