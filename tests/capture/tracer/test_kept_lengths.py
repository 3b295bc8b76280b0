"""Lists of numbers of a tensor that no loop goes over: one capture is enough, for any number of them."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches


def joined(x, lengths):
    return torch.cat(x.split((lengths + 1).tolist())) * 2


def counted(x, lengths):
    return x.sum() + len(lengths.tolist())


def gone_over(x, lengths):
    return torch.stack([part.sum(0) for part in x.split(lengths.tolist())])


_OTHERS = [(torch.ones(3, 2), torch.tensor([3])), (torch.ones(6, 2), torch.tensor([0, 1, 4, 1]))]


def _exported(model, less=0):
    others = [(x, lengths - less) for x, lengths in _OTHERS]
    shapes = ({0: "rows"}, {0: "parts"})
    return assert_matches(
        model, torch.randn(5, 2), torch.tensor([2, 3]) - less, others=others, dynamic_shapes=shapes, verify=False
    )


def _executions(program):
    return sum(each.executions for each in program.capture.tried)


@pytest.mark.parametrize(("model", "less"), [(joined, 1), (counted, 0)])
def test_one_capture_is_enough(model, less):
    assert _executions(_exported(model, less)) == 1


def test_a_loop_over_the_parts_asks():
    program = _exported(gone_over)
    assert _executions(program) > 1
    assert [each for each in program.model.graph.all_nodes() if each.op_type in ("Loop", "Scan")]
