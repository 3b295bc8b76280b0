"""Runs of a model on inputs of other sizes, without a model."""

from __future__ import annotations

from typing import Any

import torch

from opbridge.capture.derived_sizes import DerivedSize
from opbridge.capture.dynamic_shapes import Axis, Shapes
from opbridge.capture.size_branches.model_runs import ModelRuns

_ROWS = Axis("x.shape[0]", "rows", 4)


def _runs(answer: Any, second: Axis | None = None) -> tuple[ModelRuns, list[int]]:
    """Runs of which `answer` says for the number of rows how they end, and the numbers that it was asked."""
    asked: list[int] = []

    def agrees(graph: Any, leaves: list[Any]) -> bool | None:
        asked.append(leaves[0].shape[0])
        return answer(leaves[0].shape[0])

    leaves = [torch.zeros(4, 3), torch.zeros(8)]
    axes = {(id(leaves[0]), 0): _ROWS} | ({} if second is None else {(id(leaves[1]), 0): second})
    return ModelRuns(leaves, Shapes(axes=axes), {"s0": _ROWS}, agrees), asked


def test_a_model_runs_once_for_the_same_sizes():
    runs, asked = _runs(lambda rows: None if rows == 3 else True)
    assert [runs.may_run({"s0": rows}) for rows in (2, 3, 2, 3)] == [True, False, True, False]
    assert asked == [2, 3]


def test_a_comparison_that_differs_is_a_run_all_the_same():
    runs, asked = _runs(lambda rows: {2: False, 3: None}.get(rows, True))
    graph = object()
    assert [runs.compare(graph, {"s0": rows}) for rows in (1, 2, 3)] == [True, False, None]
    assert [runs.may_run({"s0": rows}) for rows in (1, 2, 3)] == [True, True, False]
    assert asked == [1, 2, 3]


def test_what_has_too_many_elements_is_not_run():
    runs, asked = _runs(lambda rows: True)
    assert not runs.may_run({"s0": 10**9}) and runs.resized({"s0": 10**9}) is None and not asked


def test_a_size_that_would_be_negative_is_not_run():
    frames = Axis("y.shape[0]", "12*rows - 40", 8, derived=DerivedSize.of_terms("12*rows - 40", ("rows",)))
    runs, asked = _runs(lambda rows: True, frames)
    assert runs.resized({"s0": 2}) is None and not runs.may_run({"s0": 2}) and not asked
    found = runs.resized({"s0": 5})
    assert found is not None and [tuple(leaf.shape) for leaf in found[1]] == [(5, 3), (20,)]


def test_lengths_of_parts_add_up_where_the_model_would_not_run_otherwise():
    leaves = [torch.zeros(4, 3), torch.tensor([1, 3])]
    seen: list[list[int]] = []

    def agrees(graph: Any, given: list[Any]) -> bool | None:
        seen.append(given[1].tolist())
        return True if int(given[1].sum()) == len(given[0]) else None

    runs = ModelRuns(leaves, Shapes(axes={(id(leaves[0]), 0): _ROWS}), {"s0": _ROWS}, agrees)
    assert runs.may_run({"s0": 8}) and seen == [[1, 3], [1, 7]]
    assert runs.may_run({"s0": 4}) and seen == [[1, 3], [1, 7], [1, 3]]
