"""`list(x)` and `tuple(x)` of a tensor of dynamic length."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

_X = torch.randn(3, 4)
_OTHERS = [(torch.randn(size, 4),) for size in (1, 2, 5)]


def stacked(x):
    return torch.stack(list(x)) * 2, torch.cat(tuple(x))


def iterated(x):
    total = torch.zeros(4)
    for row in list(x):
        total = total * 0.5 + row
    return total


def of_its_kind(x):
    rows, others = list(x), tuple(x)
    kinds = type(rows) is list, isinstance(others, tuple), isinstance(rows, tuple), type(others) is list
    return rows[0] + others[-1] * len(rows) + sum(kind * 10**at for at, kind in enumerate(kinds))


def as_numbers(x):
    return torch.as_tensor(list(x[:, 0].long())) + 1


def appended(x):
    rows = list(x)
    rows.append(x[0])
    return torch.stack(rows)


@pytest.mark.slow
@pytest.mark.parametrize("model", [stacked, iterated, of_its_kind, as_numbers, appended])
def test_rows_in_a_list(model):
    assert_matches(model, _X, others=_OTHERS, dynamic_shapes=({0: "n"},))


@pytest.mark.slow
def test_lengths_in_a_list():
    def packed(x, lengths):
        chosen = list(lengths.sort(descending=True).values)
        return pad_packed_sequence(pack_padded_sequence(x, chosen, batch_first=True), batch_first=True)

    given = [(torch.randn(size, 7, 2), torch.randperm(7)[:size] + 1) for size in (3, 1, 6)]
    assert_matches(packed, *given[0], others=given[1:], dynamic_shapes=({0: "n"}, {0: "n"}))
