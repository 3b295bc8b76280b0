"""`hstack` and the like of lists of a symbolic length: by `cat` and `stack`, for tensors of every rank."""

from __future__ import annotations

import pytest
import torch

import opbridge
from opbridge.capture.tracer.arranging import ARRANGED, arranged


class Listed:
    """The elements of a list that is known."""

    def __init__(self, *tensors):
        self.tensors = tensors

    def rank(self):
        return self.tensors[0].dim()

    def joined(self, dim):
        return torch.cat(self.tensors, dim)

    def stacked(self, dim):
        return torch.stack(self.tensors, dim)


@pytest.mark.parametrize("name", ARRANGED)
@pytest.mark.parametrize("rank", range(5))
def test_it_is_what_torch_gives(name, rank):
    tensors = [torch.rand([2, 3, 4, 2][:rank]) for _ in range(3)]
    found = arranged(name, Listed(*tensors))
    assert found.equal(getattr(torch, name)(tensors))


X, T = torch.rand(3, 4), torch.rand(2, 4)
REPEATED = {
    "cat": lambda x, t: torch.cat([t, t + 1] * x.shape[0], dim=-1),
    "stack": lambda x, t: torch.stack([t] * x.shape[0], 1),
    "hstack": lambda x, t: torch.hstack([t] * x.shape[0]),
    "vstack": lambda x, t: torch.vstack(x.shape[0] * [t[0]]),
    "dstack": lambda x, t: torch.dstack([t] * x.shape[0]),
    "column_stack": lambda x, t: torch.column_stack([t[0]] * x.shape[0]),
    "sum": lambda x, t: sum([t, t * 2] * x.shape[0]),
    "cat of data": lambda x, t: torch.cat([t] * int((x > 0).sum())),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", REPEATED)
def test_a_list_that_is_repeated_by_a_size(case):
    others = [(torch.rand(size, 4), T + size) for size in (1, 7)]
    program = opbridge.export(REPEATED[case], (X, T), dynamic_shapes=({0: "n"}, None), inputs=others)
    assert program.verification.ok and len(program.verification.runs) >= 3


def parts(x, lengths):
    return torch.split(x, lengths.tolist())


GROWN = {
    "hstack": lambda x, n: torch.hstack([part.mean(0) for part in parts(x, n)]),
    "vstack": lambda x, n: torch.vstack([part * 2 for part in parts(x, n)]),
    "column_stack": lambda x, n: torch.column_stack([part.mean(0) for part in parts(x, n)]),
    "vstack at once": lambda x, n: torch.vstack(parts(x, n)),
    "sum of tensors": lambda x, n: sum([part.mean(0) for part in parts(x, n)]),
    "sum of numbers of a generator": lambda x, n: x[: sum(part.shape[0] for part in parts(x, n))] * 2,
    "sum of tensors of a generator": lambda x, n: sum(part.sum() for part in parts(x, n)),
    "sum of rows": lambda x, n: sum(x) + n.sum(),
    "max of a generator": lambda x, n: x.new_zeros(max(part.shape[0] for part in parts(x, n))) + x.sum(),
    "pad to a tensor": lambda x, n: torch.nn.functional.pad(x, (0, 0, 0, n.max() - 1)),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", GROWN)
def test_a_list_of_as_many_elements_as_data_say(case):
    others = [(torch.rand(sum(each), 3), torch.tensor(each)) for each in ([4], [1, 1, 2, 3, 1])]
    given = torch.rand(10, 3), torch.tensor([2, 5, 3])
    shapes = ({0: "total"}, {0: "count"})
    program = opbridge.export(GROWN[case], given, dynamic_shapes=shapes, inputs=others)
    assert program.verification.ok and len(program.verification.runs) == 3
