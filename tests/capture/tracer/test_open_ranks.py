"""Squeezes of dimensions that have size 1 in one run and another size in the next."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.matching import assert_matches

from opbridge.capture import capture
from opbridge.capture.tracer import open_ranks
from opbridge.errors import CaptureError
from opbridge.verification import verify_program

SIZES = [[torch.randn(*sizes)] for sizes in ((2, 1, 4), (2, 2, 3), (1, 1, 1), (1, 5, 1), (0, 1, 3))]
AXES: dict[str, Any] = {"dynamic_axes": {"x": [0, 1, 2]}, "input_names": ["x"]}
ALL: dict[str, Any] = {"dynamic_shapes": ({0: "a", 1: "b", 2: "c"},)}


@pytest.mark.parametrize("example", [(2, 1, 4), (2, 2, 3)])
@pytest.mark.parametrize("dims", [(), (1,), (-1,), ((0, 1),)])
def test_a_result_leaves_out_what_has_size_one_in_the_run(dims: Any, example: Any) -> None:
    program = assert_matches(lambda x: x.squeeze(*dims), torch.randn(*example), others=SIZES, **AXES)
    assert not program.plan.notes and program.model.graph.outputs[0].shape is None
    assert verify_program(program).ok


def test_it_is_so_for_each_opset() -> None:
    assert_matches(lambda x: x.squeeze(1), torch.randn(2, 1, 4), others=SIZES[:-1], opset_version=13, **AXES)
    assert_matches(lambda x: x.squeeze(1), torch.randn(2, 1, 4), others=SIZES[:-1], opset_version=18, **AXES)


def test_sizes_that_data_decides() -> None:
    def picked(x: torch.Tensor) -> torch.Tensor:
        return x[x > 0].unsqueeze(1).squeeze(0)

    others = [[torch.tensor([1.0, 2.0, -1.0])], [torch.tensor([-1.0, -2.0, -1.0])]]
    assert_matches(picked, torch.tensor([1.0, -2.0, -1.0]), others=others)


def test_the_graph_that_is_written_to() -> None:
    def written(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[:, 0] = 7.0
        squeezed = y.squeeze(1)
        y[0] += 1.0
        return squeezed

    assert_matches(written, torch.randn(2, 1, 4), others=SIZES[:-1], **AXES)


@pytest.mark.slow
@pytest.mark.parametrize(
    "used",
    [
        lambda y: y + 1,
        lambda y: y if y.dim() == 2 else y * 2,
        lambda y: y if len(y.shape) == 2 else y * 2,
        lambda y: (y, torch.stack([y, y])),
    ],
    ids=["operator", "rank", "shape", "list"],
)
def test_what_else_reads_the_result_needs_its_rank(used: Any) -> None:
    with pytest.raises(CaptureError, match="b == 1"):
        capture(lambda x: used(x.squeeze(1)), (torch.randn(2, 1, 4),), dynamic_shapes=ALL["dynamic_shapes"])
    program = assert_matches(lambda x: used(x.squeeze(1)), torch.randn(2, 3, 4), others=[[torch.randn(3, 2, 5)]], **ALL)
    assert any("b >= 2" in note for note in program.plan.notes)


def test_a_dimension_that_may_be_fixed_is_fixed() -> None:
    program = assert_matches(lambda x: x.squeeze(1), torch.randn(2, 1, 4), dynamic_shapes="auto")
    assert program.model.graph.inputs[0].shape[1] == 1


def _by_data(x: torch.Tensor) -> torch.Tensor:
    x = x[x[:, 0] > 0]
    if len(x) == 1:
        return x.squeeze(0) * 2
    return (x.mean(0) if len(x) else x.new_zeros(4)) * 2


def _by_size(x: torch.Tensor) -> torch.Tensor:
    if len(x) == 1:
        return x[:, None].squeeze((0, 1)) * 2
    return x.sum(0)


def _by_rank(x: torch.Tensor) -> torch.Tensor:
    found = (x * 2).squeeze()
    return found if found.dim() == 1 else found.sum(0)


@pytest.mark.slow
@pytest.mark.parametrize("model", [_by_data, _by_size, _by_rank], ids=lambda model: model.__name__)
@pytest.mark.parametrize("example", [3, 1])
def test_a_branch_for_a_size_of_one(model: Any, example: int) -> None:
    others = [(torch.rand(rows, 4),) for rows in (1, 2, 7)] + [(-torch.rand(3, 4),), (torch.tensor([[1.0] * 4]),)]
    assert_matches(model, torch.rand(example, 4), others=others, dynamic_shapes=({0: "rows"},))


def test_what_is_picked_is_what_a_squeeze_leaves_out() -> None:
    x = torch.randn(1, 3, 1, 1)
    asked = [0, 1, 2, 3]
    for ones in ([0], [2], [0, 3], [0, 2, 3]):
        found = x
        for target, rest in open_ranks._picking(asked, ones):
            found = target(found, *rest)
        assert torch.equal(found, x.squeeze())
    assert not open_ranks._picking(asked, [])
