"""Loops over rows and parts of tensors."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from models.deciding.model import deciding

__all__: list[str] = []


@deciding(0, loops=1, rows=True)
def one_row_after_the_other(x):
    h, found = x.new_zeros(4), []
    for i in range(x.shape[0]):
        h = torch.tanh(h + x[i])
        found.append(h)
    return torch.stack(found), h


@deciding(0, loops=1, rows=True)
def each_row_with_its_number(x):
    h = x.new_zeros(4)
    for i, (row, other) in enumerate(zip(x, x * 2)):  # noqa: B905
        h = torch.tanh(h * i + row - other)
    return h


@deciding(0, loops=1, rows=True)
def from_the_last_row_to_the_first(x):
    y = torch.zeros_like(x)
    h = x.new_zeros(4)
    for i in reversed(range(len(x))):
        h = torch.tanh(h + x[i])
        y[i] = h
    return y


@deciding(0, loops=1, rows=True)
def a_comprehension_of_rows(x):
    mean = x.mean(0)
    return torch.stack([torch.tanh(row + mean) for row in x])


@deciding(0, loops=1, rows=True)
def mapped_rows(x):
    return torch.cat(list(map(lambda row, other: (row * other)[None], x, x.flip(0))))


@deciding(0, loops=2, rows=True)
def a_comprehension_in_a_comprehension(x):
    return torch.stack([torch.stack([one @ other for other in x]) for one in x])


@deciding(0, loops=1, rows=True)
def a_first_iteration_that_differs(x):
    h, found = None, []
    for row in x:
        h = row if h is None else torch.tanh(h + row)
        found.append(h * 2)
    return torch.stack(found), h


# The segments end where the second number is positive.
_segments = tuple(
    torch.tensor([[0.5, end, -1, 0.25] for end in ends]) for ends in ((1.0, 1, 1), (-1, -1, 1), (1, -1, 1), (-1, 1, 1))
)


def _segment_lengths(x):
    ends = (x[:, 1] > 0).nonzero()[:, 0] + 1
    return torch.diff(ends, prepend=ends.new_zeros(1))


@deciding(0, _segments, dynamic=False, loops=1)
def segments_of_lengths_that_data_decide(x):
    return torch.cat([part.softmax(0) for part in x.split(_segment_lengths(x).tolist())])


@deciding(0, _segments, dynamic=False, loops=1)
def segments_of_two_tensors(x):
    lengths = _segment_lengths(x)
    splits = [torch.split(each, lengths.tolist(), dim=1) for each in (x.T, x.T.cos())]
    found = [one @ other.T + other.sum() for one, other in zip(*splits)]  # noqa: B905
    return torch.stack(found)


@deciding(0, _segments, dynamic=False, loops=1)
def attention_within_segments(x):
    lengths = _segment_lengths(x)
    splits = (torch.split(each[None], lengths.tolist(), dim=1) for each in (x, x.cos(), x.sin()))
    queries, keys, values = splits
    found = [F.scaled_dot_product_attention(*each) for each in zip(queries, keys, values)]  # noqa: B905 - as models have it
    return torch.cat(found, 1)


@deciding(2)
def all_rows_or_some(x):
    rows = x[x[:, 1] > 0] if x[0, 0] > 0 else x
    y = x * 2 if rows.shape[0] == x.shape[0] else x * 3
    return y + rows.sum()
