"""Parts whose ends are sizes that may count from the end, passed to operators that ask about their length."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches

import opbridge


def _pooled(x: torch.Tensor) -> torch.Tensor:
    """Asks whether the last window begins within the input."""
    return torch.nn.functional.avg_pool1d(x, 4, 3, ceil_mode=True)


def test_a_part_without_the_last_elements():
    def without_last(x):
        return _pooled(x[:, :, : x.shape[2] - 2])

    others = [(torch.randn(1, 3, size),) for size in (6, 7, 8, 9, 31)]
    program = assert_matches(
        without_last, torch.randn(2, 3, 26), others=others, dynamic_shapes=({0: "batch", 2: "time"},)
    )
    assert program.capture.mode == "direct" and not program.plan.decisions


def test_a_part_from_a_size_to_another_in_steps():
    def every_other(x):
        return _pooled(x[:, :, x.shape[2] - 17 : x.shape[2] - 2 : 2])

    others = [(torch.randn(1, 3, size),) for size in (17, 18, 31)]
    assert_matches(every_other, torch.randn(2, 3, 26), others=others, dynamic_shapes=({0: "batch", 2: "time"},))


@pytest.mark.slow
def test_an_end_of_either_sign():
    """Where the size of another tensor is below 6, the part is counted from the end."""

    def after(x, y):
        return _pooled(x[:, :, y.shape[0] - 6 :])

    others = [(torch.randn(1, 3, 26), torch.zeros(size)) for size in (6, 7, 1, 2, 13)]
    shapes = ({0: "batch", 2: "time"}, {0: "count"})
    assert_matches(after, torch.randn(2, 3, 26), torch.zeros(9), others=others, dynamic_shapes=shapes)


def test_nothing_is_asked_where_no_operator_does():
    """The file is valid for sizes of either sign."""

    def without_last(x):
        return x[: x.shape[0] - 4].relu()

    others = [(torch.randn(size),) for size in (0, 1, 2, 3, 4, 5, 11)]
    program = assert_matches(without_last, torch.randn(8), others=others, dynamic_shapes=({0: "time"},))
    assert not program.plan.notes and not program.plan.decisions


def test_a_part_of_data_is_refused_as_before():
    def of_data(x):
        found = x[x > 0]
        return torch.nn.functional.avg_pool1d(found[None, : found.shape[0] - 2], 4, 3, ceil_mode=True)

    with pytest.raises(opbridge.CaptureError):
        opbridge.check(of_data, (torch.randn(40),))
