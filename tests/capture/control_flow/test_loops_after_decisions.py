"""Loops over what an earlier decision chose, and what is asked of their results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from onnxscript import opset18 as op

import opbridge


def _doubled(rows: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    found = [row * 2 + other for row, other in zip(rows, others)]  # noqa: B905
    # No variable holds the rows here, nor in the iterations of the loop.
    return torch.stack(found) if len(found) > 0 else torch.full((0, 3), 1.0)


def rows_of_either_side(x: torch.Tensor) -> torch.Tensor:
    kept = x[x[:, 0] > 0]
    rows = kept.sin() if x[:, 1].sum() > 0 else kept.cos().flip(0)
    return _doubled(rows, kept)


def statement_over_either_side(x: torch.Tensor) -> torch.Tensor:
    kept = x[x[:, 0] > 0]
    rows = kept.sin() if x[:, 1].sum() > 0 else kept.cos().flip(0)
    total = x.sum(0)
    for row in rows * 2:
        total = torch.tanh(total + row)
    return total


@torch.library.custom_op("opbridge_tests::kept_rows", mutates_args=())
def kept_rows(x: torch.Tensor) -> torch.Tensor:
    return (x[:, 0] > 0).nonzero()[:, 0]


@kept_rows.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    # The older function, which libraries such as torchvision call, says that the size is 2 or more.
    return x.new_empty((torch.library.get_ctx().create_unbacked_symint(),), dtype=torch.int64)


@opbridge.translation("opbridge_tests::kept_rows")
def _kept_rows(x):
    return op.Squeeze(op.NonZero(op.Greater(op.Gather(x, 0, axis=1), 0.0)), [0])


def size_that_is_said_to_be_two_or_more(x: torch.Tensor) -> torch.Tensor:
    kept = x[kept_rows(x)]
    if kept.shape[0] == 0:
        return x.sum(0) - 7
    if kept.shape[0] == 1:
        return kept[0] * 100
    return kept.sum(0)


_ROWS = ([1, 1], [-1, 1], [1, -5], [-1, -5])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*create_unbacked_symint")
@pytest.mark.parametrize(
    "model", [rows_of_either_side, statement_over_either_side, size_that_is_said_to_be_two_or_more]
)
def test_every_side_and_count(model: Callable[[torch.Tensor], torch.Tensor], tmp_path: Path) -> None:
    torch.manual_seed(0)
    values = torch.rand(4, 1)
    example = torch.cat([torch.tensor([[1.0, 1]] * 4), values], 1)
    opbridge.export(model, (example,), tmp_path / "model.onnx", verify=False)
    session = opbridge.session(tmp_path / "model.onnx")
    for count in range(5):
        for one, other in ((0, 1), (2, 3)):
            given = torch.cat(
                [torch.tensor([*[_ROWS[one]] * count, *[_ROWS[other]] * (4 - count)], dtype=torch.float32), values], 1
            )
            (found,) = session.run(None, {session.get_inputs()[0].name: given.numpy()})
            np.testing.assert_allclose(found, model(given).numpy(), rtol=1e-5, atol=1e-5)


def positions_of_grids(x: torch.Tensor, grid: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """As a vision encoder of packed images: data decide a number first, and a loop over the rows of a size follows."""
    places = torch.arange(int(grid.max()))
    merged = torch.tensor([2]).expand(len(grid))
    found = [
        (torch.arange(height * width) * size).repeat(times)
        for (times, height, width), size in zip(grid.tolist(), merged.tolist())  # noqa: B905
    ]
    x = torch.cat([x, torch.cat(found)[:, None]], 1)  # a sum would take one row for all
    lengths = torch.repeat_interleave(grid[:, 1] * grid[:, 2], grid[:, 0])
    return torch.cat([part - part.mean(0) for part in x.split(lengths.tolist())]), places


@pytest.mark.slow
def test_a_loop_over_a_size_after_a_number_that_data_decide(tmp_path: Path) -> None:
    def inputs(*rows: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        grid = torch.tensor(rows)
        return torch.randn(int(grid.prod(-1).sum()), 2), grid

    opbridge.export(
        positions_of_grids,
        inputs([1, 4, 6], [2, 2, 4]),
        tmp_path / "model.onnx",
        dynamic_shapes={"x": {0: "tokens"}, "grid": {0: "images"}},
        verify=False,
    )
    session = opbridge.session(tmp_path / "model.onnx")
    for given in (inputs([1, 2, 6], [2, 2, 4], [1, 4, 4]), inputs([3, 2, 2])):
        found = session.run(None, {"x": given[0].numpy(), "grid": given[1].numpy()})
        for mine, theirs in zip(found, positions_of_grids(*given), strict=True):
            np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-5, atol=1e-5)
