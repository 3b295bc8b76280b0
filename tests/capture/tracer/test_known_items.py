"""Integers computed from sizes by way of tensors without dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from helpers.matching import assert_matches

import opbridge


def by_division(x: torch.Tensor) -> torch.Tensor:
    rows = x.transpose(0, 1)
    # Of these strides, only a known number of rows makes a view.
    return rows.view(torch.div(rows.size(0), 2, rounding_mode="trunc"), 2, rows.size(1), rows.size(2)).amax(1)


def by_tensor(x: torch.Tensor) -> torch.Tensor:
    count = torch.tensor(x.shape[1]) // 2
    return x.transpose(0, 1).view(count.item(), 2, x.shape[0], x.shape[2]).amax(1)


def by_sums(x: torch.Tensor) -> torch.Tensor:
    count = torch.full((), x.shape[1]) * 2 - torch.tensor(x.shape[1])
    return x.transpose(0, 1).view(count // 2, 2, x.shape[0], x.shape[2]).amax(1)


def by_largest(x: torch.Tensor) -> torch.Tensor:
    lengths = torch.full((x.shape[0],), x.shape[1])
    count = lengths.unsqueeze(1).expand(-1, 3).max() // 2
    mask = torch.arange(lengths.min()).unsqueeze(0) < lengths.unsqueeze(1)
    return x.transpose(0, 1).view(count, 2, x.shape[0], x.shape[2]).amax(1) + (x * mask[:, :, None]).amax()


@pytest.mark.parametrize("model", [by_division, by_tensor, by_sums, by_largest])
def test_they_are_known(model: Callable[[torch.Tensor], torch.Tensor]) -> None:
    shapes = {"x": {1: 2 * torch.export.Dim("half")}}
    session = opbridge.export(model, (torch.randn(3, 8, 5),), dynamic_shapes=shapes, verify=False).session()
    for length in (2, 6, 12):
        x = torch.randn(3, length, 5)
        (found,) = session.run(None, {"x": x.numpy()})
        np.testing.assert_array_equal(found, model(x).numpy())


def written(x: torch.Tensor) -> torch.Tensor:
    count = torch.tensor(x.shape[0])
    count -= 1
    return x[: count.item()] + count


def written_by_a_view(x: torch.Tensor) -> torch.Tensor:
    count = torch.tensor(x.shape[0])
    count.view(1)[0] = 2
    return x[: count.item()] + count


@pytest.mark.parametrize("model", [written, written_by_a_view])
def test_what_is_written_to_is_read(model: Callable[[torch.Tensor], torch.Tensor]) -> None:
    shapes = {"x": {0: "rows"}}
    session = opbridge.export(model, (torch.randn(6, 2),), dynamic_shapes=shapes, verify=False).session()
    for length in (3, 6, 9):
        x = torch.randn(length, 2)
        (found,) = session.run(None, {"x": x.numpy()})
        np.testing.assert_array_equal(found, model(x).numpy())


def of_tables(read: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], torch.Tensor]:
    def model(x: torch.Tensor) -> torch.Tensor:
        levels = (x, x[..., : x.shape[-1] // 2])
        total = x.sum((2, 3))
        for level, (height, width) in zip(
            levels, read(torch.tensor([each.shape[-2:] for each in levels])), strict=True
        ):
            weights = (torch.arange(height)[:, None] - torch.arange(width)).flatten()
            if weights.shape[0] != level[0, 0].numel():
                raise ValueError("the sizes of a level are not those of the table")
            total = total + (level.flatten(2) * weights).sum(2)
        return total

    return model


TABLES: dict[str, Callable[[torch.Tensor], Any]] = {
    "iterated": lambda table: table,
    "numbers": lambda table: table.tolist(),
    "elements": lambda table: [(table[0, 0], table[0, 1]), (int(table[1, 0]), table[1, -1].item())],
    "columns": lambda table: zip(table[:, 0], table[:, 1].tolist(), strict=True),
    "unbound": lambda table: zip(*table.unbind(1), strict=True),
    "parts": lambda table: [table[:1][0], table[1:][0]],
    "stacked again": lambda table: torch.stack([table[-2], table[1].clone()]),
    "computed": lambda table: (2 * table - 1 + 1) // 2,
}


@pytest.mark.parametrize("read", TABLES.values(), ids=TABLES)
def test_elements_of_a_table_of_sizes_are_known(read: Callable[[torch.Tensor], Any]) -> None:
    found = assert_matches(
        of_tables(read),
        torch.randn(2, 3, 4, 6),
        others=[(torch.randn(1, 3, 5, 9),), (torch.randn(3, 3, 1, 2),)],
        dynamic_shapes=({0: "batch", 2: "height", 3: "width"},),
        rtol=1e-5,
        atol=1e-5,
    )
    assert not any("raises" in note for note in found.capture.notes)


def table_that_is_written(x: torch.Tensor) -> torch.Tensor:
    table = torch.tensor([x.shape])
    row = table[0]
    table[0, 0] -= 1
    return x[: row[0].item()] + table.sum()


def table_beside_a_longer_one(x: torch.Tensor) -> torch.Tensor:
    table = torch.tensor([x.shape[0]]) + torch.full((3, 1), x.shape[1])
    return x.sum() + torch.arange(table[2, 0] - 1) + table.shape[0]


@pytest.mark.parametrize("model", [table_that_is_written, table_beside_a_longer_one])
def test_tables_that_are_no_longer_known(model: Callable[[torch.Tensor], torch.Tensor]) -> None:
    shapes = {"x": {0: "rows", 1: "columns"}}
    session = opbridge.export(model, (torch.randn(6, 2),), dynamic_shapes=shapes, verify=False).session()
    for size in ((3, 2), (6, 1), (9, 4)):
        x = torch.randn(size)
        (found,) = session.run(None, {"x": x.numpy()})
        np.testing.assert_allclose(found, model(x).numpy(), rtol=1e-5, atol=1e-5)


def counter_of_iterations(x: torch.Tensor) -> torch.Tensor:
    left, total = torch.tensor(x.shape[0]), x.sum(0)
    while left > 0:
        left = left - 1
        total = total * 0.5 + x[: left.item()].sum(0)
    return total


def counter_beside_a_size(x: torch.Tensor) -> torch.Tensor:
    left, total = torch.tensor(x.shape[0]), x[: x.shape[0] - 1].sum(0)
    while total.sum() < 10 and left > 1:
        left = left - 1
        total = total + x[: int(left)].sum(0) + 1
    return total


def counter_of_rows(x: torch.Tensor) -> torch.Tensor:
    left = torch.tensor(x.shape[0])
    for _ in x:
        left = left - 1
    return x[: left.item() + 1] + left


@pytest.mark.slow
@pytest.mark.parametrize("model", [counter_of_iterations, counter_beside_a_size, counter_of_rows])
def test_counters_of_loops_change(model: Callable[[torch.Tensor], torch.Tensor]) -> None:
    shapes = {"x": {0: "rows"}}
    session = opbridge.export(model, (torch.rand(4, 3),), dynamic_shapes=shapes, verify=False).session()
    for count in (1, 2, 3, 6):
        x = torch.rand(count, 3)
        (found,) = session.run(None, {"x": x.numpy()})
        np.testing.assert_allclose(found, model(x).numpy(), rtol=1e-5, atol=1e-5)


def resized_and_padded(x: torch.Tensor, heights: torch.Tensor, widths: torch.Tensor) -> torch.Tensor:
    height, width = x.shape[-2:]
    found = [
        torch.nn.functional.pad(
            torch.nn.functional.interpolate(x[:1], size=(h, w)), (0, width - w, 0, height - h), value=2.0
        )
        for h, w in zip(heights, widths)  # noqa: B905 - ViLT passes no strict=
    ]
    return x + torch.cat(found)


def in_two_parts(x: torch.Tensor, count: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    begin, end = x[:, :, :count], x[:, :, count:]
    rest = x.shape[2] - count
    joined = torch.cat([end.new_ones(x.shape[0], x.shape[1], rest, x.shape[3]), begin], 2)
    return joined * x + end.sum() * other


def computed_in_a_loop(x: torch.Tensor, count: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    total = x.sum(2)
    while count > 1:
        total = total * 0.5 + x[:, :, : count.item()].sum(2)
        count = count - 1
        total = total + x[:, :, count.item() :].sum(2) * other
    return total


def computed_in_branches(x: torch.Tensor, count: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, ...]:
    first = x[:, :, :count].sum(2)
    count = count - 1 if x.sum() > other else count + 1
    return first, x[:, :, :count].sum(2), x[:, :, count + 1 :].sum(2)


def _resized(batch: int, height: int, width: int) -> tuple[torch.Tensor, ...]:
    return (
        torch.randn(batch, 2, height, width),
        torch.randint(1, height + 1, (batch,)),
        torch.randint(1, width + 1, (batch,)),
    )


def _counted(batch: int, height: int, width: int, factor: float = 1.0) -> tuple[torch.Tensor, ...]:
    return factor * torch.rand(batch, 2, height, width), torch.randint(1, height, ()), torch.tensor(0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (resized_and_padded, _resized),
        (in_two_parts, _counted),
        (computed_in_a_loop, _counted),
        (computed_in_branches, _counted),
    ],
    ids=lambda each: each.__name__,
)
def test_what_is_computed_of_a_number_from_data(model: Callable[..., Any], inputs: Callable[..., Any]) -> None:
    dynamic = ({0: "batch", 2: "height", 3: "width"}, *[{0: "batch"} if inputs is _resized else None] * 2)
    others = [inputs(*sizes) for sizes in ((1, 5, 4), (3, 9, 6), (5, 4, 8))]
    others += [inputs(2, 7, 5, -1.0)] if inputs is _counted else []
    assert_matches(model, *inputs(2, 6, 7), others=others, dynamic_shapes=dynamic, rtol=1e-5, atol=1e-5)
