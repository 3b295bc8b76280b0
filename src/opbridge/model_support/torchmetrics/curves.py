"""The best point of a curve where another value is at least as large as asked for.

torchmetrics selects these points, and branches on whether there are any, for each class. Here the others have the value
minus infinity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

__all__ = ["largest", "largest_in_order", "of_floats", "points"]

_FURTHEST = 1e6
"""The threshold where there is no such point."""


def of_floats(*names: str) -> Callable[[Mapping[str, Any]], bool]:
    """Whether arguments of these names, and thresholds, are vectors of floating-point numbers of one dtype."""

    def are_floats(named: Mapping[str, Any]) -> bool:
        vectors = [named[each] for each in (*names, "thresholds")]
        return all(each.dim() == 1 and each.dtype == vectors[0].dtype for each in vectors) and (
            vectors[0].is_floating_point()
        )

    return are_floats


def largest_in_order(wanted: str, other: str, least: str) -> Callable[[Mapping[str, Any]], tuple[torch.Tensor, ...]]:
    """The replacement of a function that compares the values, then the others, then the thresholds.

    Args:
        wanted: The name of the argument whose largest value is returned, float [n] or [n + 1].
        other: The name of the argument that has to be large, of the same size.
        least: The name of the argument that says how large.

    Returns:
        A function that gives the value and the threshold, which is nan where the value is 0.
    """

    def found(named: Mapping[str, Any]) -> tuple[torch.Tensor, ...]:
        thresholds = named["thresholds"]
        count = thresholds.shape[0]
        columns = [named[each].narrow(0, 0, count) for each in (wanted, other)]
        is_left = columns[1] >= named[least]
        best = []
        for column in (*columns, thresholds):
            highest = _highest(torch.where(is_left, column, -math.inf))
            is_left = is_left & (column == highest)
            best.append(highest)
        value = torch.where(best[0] == -math.inf, 0.0, best[0])
        return value, torch.where(value == 0, math.nan, best[2])

    return found


def largest(wanted: str, other: str, least: str) -> Callable[[Mapping[str, Any]], tuple[torch.Tensor, ...]]:
    """The replacement of a function that compares the values alone; its arguments are those of `largest_in_order`."""

    def found(named: Mapping[str, Any]) -> tuple[torch.Tensor, ...]:
        value, thresholds = named[wanted], named["thresholds"]
        is_large = named[other] >= named[least]
        place = _with_end(torch.where(is_large, value, -math.inf), -math.inf).argmax()
        is_any = is_large.any()
        return (
            torch.where(is_any, _with_end(value, 0.0)[place], 0.0),
            torch.where(is_any, _with_end(thresholds, 0.0)[place], _FURTHEST),
        )

    return found


def _highest(x: torch.Tensor) -> torch.Tensor:
    return _with_end(x, -math.inf).max()


def _with_end(x: torch.Tensor, value: float) -> torch.Tensor:
    return torch.cat([x, x.new_full((1,), value)])


def points(owner: Any) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Arguments of such functions: points of which all, some and none are large enough, with ties, and a single one."""
    for count in (9, 1):
        places = torch.arange(count)
        values, others = (places * 5 % 4) / 4, (places * 7 % 3) / 3
        for least in (0.0, 0.5, 0.9):
            yield (others, values, (places + 1.0) / 10, least), {}
            yield (values, others, (places + 1.0) / 10, least), {}
