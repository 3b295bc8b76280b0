"""Lists that a loop fills by index."""

from __future__ import annotations

import ast
from typing import Any

import pytest
import torch
from helpers.rows import one_in
from torch import Tensor

import opbridge
from opbridge.capture.tracer.filled_by_index import append_instead, check_filled


def of_nones(x: Tensor, lengths: Tensor) -> Tensor:
    parts = x.split(lengths.tolist())
    means: list[Tensor | None] = [None] * len(parts)
    for i, each in enumerate(parts):
        means[i] = each.mean(0)
    return torch.stack(means)


def of_two_lists(x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    kept = [torch.zeros(0, 4)] * lengths.shape[0]
    sizes = [0] * len(kept)
    for i, each in enumerate(x.split(lengths.tolist())):
        each = each[each[:, 0] > 0]
        if each.shape[0] == 0:
            continue
        sizes[i] = each.shape[0]
        kept[i] = each * 2
    return torch.cat(kept), torch.tensor(sizes)


def of_range(x: Tensor, lengths: Tensor) -> Tensor:
    rows = len(x) * [x[0]]
    for i in range(len(rows)):
        if i > 0:
            rows[i] = x[i] - x[i - 1]
    return torch.stack(rows)


@pytest.mark.slow
@pytest.mark.parametrize("model", one_in(2, [of_nones, of_two_lists, of_range]), ids=lambda model: model.__name__)
def test_it_is_right_for_other_numbers_of_elements(model: Any) -> None:
    given = torch.randn(9, 4), torch.tensor([2, 4, 3])
    shapes = {"x": {0: "rows"}, "lengths": {0: "parts"}}
    session = opbridge.export(model, given, dynamic_shapes=shapes, verify=False).session()
    for lengths in ([3], [1, 5, 2], [2, 2, 2, 2, 1, 1]):
        x = torch.randn(sum(lengths), 4)
        found = session.run(None, {"x": x.numpy(), "lengths": torch.tensor(lengths).numpy()})
        expected = model(x, torch.tensor(lengths))
        for one, other in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
            torch.testing.assert_close(torch.from_numpy(one), other)


def _run(source: str) -> tuple[int, list[Any]]:
    """How many loops of some code append instead, and the list `found` after it."""
    tree = ast.parse(source)
    count = append_instead(tree.body)
    names: dict[str, Any] = {"__opbridge_filled__": check_filled}
    exec(compile(ast.fix_missing_locations(tree), "<loop>", "exec"), names)
    return count, names["found"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("found = [None] * 3\nfor i in range(3):\n    found[i] = i * i", [0, 1, 4]),
        ("found = [7] * 3\nfor i in range(2):\n    found[i] = i", [0, 1, 7]),
        ("found = 2 * ['a']\nfor i, x in enumerate('xy'):\n    if i:\n        found[i] = x", ["a", "y"]),
        ("found = [0] * 4\nfor i in range(4):\n    if i % 2:\n        continue\n    found[i] = 5", [5, 0, 5, 0]),
        (
            "found = [0] * 2\nfor i in range(len(found)):\n    for j in range(9):\n        if j == 3:\n"
            "            continue\n        found[i] = j",
            [8, 8],
        ),
        (
            "found = [0] * 2\nother = [1] * len(found)\nfor i in range(2):\n    found[i], other[i] = i, 2 * i\n"
            "found = [found, other]",
            [[0, 1], [0, 2]],
        ),
    ],
)
def test_python_gives_the_same(source: str, expected: list[Any]) -> None:
    assert _run(source) == (2 if "other" in source else 1, expected)


@pytest.mark.parametrize(
    "loop",
    [
        "for i in range(1, 3):\n    found[i] = i",
        "for i in range(3):\n    found[2 - i] = i",
        "for i in range(3):\n    found[i] = len(found)",
        "for i in range(3):\n    found[i] += 1",
        "for i in range(3):\n    found[i] = 1\n    if i == 1:\n        break",
        "for i in range(3):\n    i = 0\n    found[i] = 1",
        "for i in range(3):\n    found[i] = 1\nelse:\n    found[0] = 2",
        "for i in range(3):\n    found[i] = (lambda: found[0])()",
        "found[0] = 1\nfor i in range(3):\n    found[i] = 1",
        "for i, x in enumerate('abc', 1):\n    found[i - 1] = x",
    ],
)
def test_a_loop_that_does_more_stays(loop: str) -> None:
    names: dict[str, Any] = {}
    source = f"found = [0] * 3\n{loop}"
    exec(source, names)
    assert _run(source) == (0, names["found"])


def test_more_elements_than_there_are() -> None:
    with pytest.raises(IndexError):
        _run("found = [0] * 2\nfor i in range(3):\n    found[i] = i")
