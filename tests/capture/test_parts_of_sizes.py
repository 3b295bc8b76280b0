"""Lengths of parts that add up to a size."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest
import torch
from torch.export import Dim

import opbridge
from opbridge.capture.parts_of_sizes import with_lengths_adding_up
from opbridge.errors import VerificationError

X = torch.randn(10)
LENGTHS = torch.tensor([2, 3, 5])


def _changed(example, drawn, **options):
    return [(positions, [each.tolist() for each in leaves]) for positions, leaves in _found(example, drawn, **options)]


def _found(example, drawn, **options):
    return list(with_lengths_adding_up(example, drawn, **options))


@pytest.mark.parametrize(
    ("lengths", "drawn", "size"),
    [
        ([2, 3, 5], [5, 5, 3, 2], 17),
        ([2, 3, 5], [2, 2], 3),
        ([2, 3, 5], [3, 3, 3, 3, 3], 5),
        ([10], [10], 4),
        ([0, 10, 0], [0, 0], 7),
        ([4, 3, 3], [1, 1, 1], 1),
    ],
)
def test_lengths_add_up_to_the_size_that_they_add_up_to_in_the_example(lengths, drawn, size):
    ((positions, leaves),) = _found([X, torch.tensor(lengths)], [torch.randn(size), torch.tensor(drawn)])
    assert positions == [1]
    found = leaves[1]
    assert int(found.sum()) == size and len(found) == len(drawn) and int(found.min()) >= 0
    if 0 not in lengths and size >= len(drawn):
        assert int(found.min()) >= 1
    assert leaves[0].shape == (size,)


def test_the_proportions_are_those_that_were_drawn():
    assert _changed([X, LENGTHS], [torch.randn(20), torch.tensor([10, 0, 30])])[0][1][1] == [5, 1, 14]


def test_each_dtype_keeps_itself():
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        ((_, leaves),) = _found([X, LENGTHS.to(dtype)], [torch.randn(100), torch.tensor([50, 50, 1]).to(dtype)])
        assert leaves[1].dtype == dtype and int(leaves[1].sum()) == 100


@pytest.mark.parametrize(
    "other",
    [
        torch.tensor([2, 3, 6]),  # another sum
        torch.tensor([[2, 3, 5]]),  # rows
        torch.tensor([2.0, 3.0, 5.0]),
        torch.tensor([True] * 10),
        torch.tensor([-1, 6, 5]),
        torch.tensor([], dtype=torch.int64),
        "text",
        10,
    ],
)
def test_nothing_else_is_changed(other):
    assert not _found([X, other], [torch.randn(12), other])


def test_what_adds_up_already_is_not_changed():
    assert not _found([X, LENGTHS], [X, torch.tensor([4, 6])])


def test_what_is_to_be_kept_is_not_changed():
    assert not _found([X, LENGTHS], [torch.randn(12), LENGTHS], kept={1})


def test_each_size_that_the_sum_may_be_is_tried():
    example, drawn = [torch.randn(10, 10, 3), LENGTHS], [torch.randn(10, 12, 3), torch.tensor([2, 9])]
    assert [sum(leaves[1].tolist()) for _, leaves in _found(example, drawn)] == [12, 10]


class Parts(torch.nn.Module):
    def forward(self, x, lengths):
        parts = torch.split(x, lengths.tolist())
        sums = torch.stack([part.sum() for part in parts])
        if len(parts) > 2:
            return sums.max()
        return sums.min()


@pytest.mark.usefixtures("one_branch")
def test_a_branch_on_the_number_of_lengths_is_not_silently_the_one_of_the_example():
    wanted = r"only for lengths.shape\[0\] >= 3 .* also accepts .*=2 with 'lengths' adding up"
    with pytest.raises(VerificationError, match=wanted):
        opbridge.export(Parts(), (X, LENGTHS), dynamic_shapes=({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC}))


def test_both_branches_on_the_number_of_lengths_are_exported(tmp_path):
    program = opbridge.export(Parts(), (X, LENGTHS), dynamic_shapes=({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC}))
    program.save(tmp_path / "model.onnx")
    session = ort.InferenceSession(tmp_path / "model.onnx")
    names = [each.name for each in session.get_inputs()]
    for lengths in ([10], [4, 6], [1, 0, 9], [1, 2, 3, 4], [0, 0, 3, 0, 1]):
        x = torch.randn(sum(lengths))
        (found,) = session.run(None, dict(zip(names, (x.numpy(), np.array(lengths)), strict=True)))
        torch.testing.assert_close(torch.from_numpy(found), Parts()(x, torch.tensor(lengths)))
    assert any("adding up" in run.label for run in program.verification.runs if run.left_out is None)
