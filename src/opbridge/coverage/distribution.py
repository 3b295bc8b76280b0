"""Two sources of random tensors: whether they draw from one distribution."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

__all__ = ["difference"]

_RUNS = 200
_RELABELLINGS = 60
_MARGIN = 1.5
"""The two differ by more than chance where their distance is this much greater than in every relabelling."""
_FREQUENT = 40
"""A value that was drawn so often, by one source alone, tells them apart: by chance this happens once in 2^39 times."""
_MOST_ELEMENTS = 256
_ROUNDING = 4e-6
"""Values that differ by less, in units of the greatest one, count as equal."""


def difference(
    expected: Callable[[int], Sequence[torch.Tensor]], actual: Callable[[], Sequence[torch.Tensor]], runs: int = _RUNS
) -> str:
    """What tells two sources apart; "" where nothing does.

    Both are run many times. Then, for each output:

    1. Element by element, a value that one of them draws often and the other never tells them apart, such as what
       dropout keeps, wrongly scaled.
    2. The largest distance between the two empirical distributions (that of Kolmogorov and Smirnov) is taken over all
       values at once, and element by element, which sees parameters that vary from one element to the next. Either is
       held against what it is when the same runs are dealt out to the two sources at random, so that values within one
       run may depend on each other as they like.

    Args:
        expected: Gives the outputs for a seed.
        actual: Gives the outputs of a further run.
        runs: How many runs of each.
    """
    left = [[_flat(tensor) for tensor in expected(seed)] for seed in range(runs)]
    right = [[_flat(tensor) for tensor in actual()] for _ in range(runs)]
    for position, (first, second) in enumerate(zip(zip(*left, strict=True), zip(*right, strict=True), strict=True)):
        if len({values.size for values in (*first, *second)}) > 1 or first[0].size == 0:
            continue  # the size is random too: there are no elements to hold against each other
        reason = _told_apart(np.stack([*first, *second]), runs)
        if reason:
            return f"output {position} is random, and {reason} ({runs} runs of each)"
    return ""


def _flat(tensor: torch.Tensor) -> np.ndarray:
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.detach().reshape(-1).double().nan_to_num(nan=np.finfo(np.float64).max).numpy()


def _told_apart(values: np.ndarray, runs: int) -> str:
    """Args:
    values: One row a run, PyTorch's first.
    """
    generator = np.random.default_rng(0)
    if values.shape[1] > _MOST_ELEMENTS:
        values = values[:, generator.choice(values.shape[1], _MOST_ELEMENTS, replace=False)]
    size = float(np.abs(values[np.abs(values) < 1e300]).max(initial=0.0))
    is_left = np.arange(2 * runs) < runs
    for columns, what in ((values.T, "an element's values"), (values.reshape(1, -1), "its values")):
        order = np.argsort(columns, axis=1, kind="stable")
        ordered = np.take_along_axis(columns, order, axis=1)
        runs_of = order if columns.shape[0] > 1 or values.shape[1] == 1 else order // values.shape[1]
        ends = np.ones(ordered.shape, bool)
        ends[:, :-1] = ordered[:, 1:] - ordered[:, :-1] > _ROUNDING * size
        if runs_of is order:
            often = _one_sided(is_left[order], ends)
            if often:
                return f"one of the two draws a value {often} times that the other never draws"
        signs = np.where(is_left, 1.0, -1.0) * columns.shape[0] / (runs * values.shape[1])
        observed = _distance(signs[runs_of], ends)
        chance = max(_distance(generator.permutation(signs)[runs_of], ends) for _ in range(_RELABELLINGS))
        if observed > _MARGIN * chance and observed > 1e-9:
            return f"{what} are distributed otherwise: distance {observed:.2f}, by chance at most {chance:.2f}"
    return ""


def _one_sided(is_left: np.ndarray, ends: np.ndarray) -> int:
    """How often the most frequent value was drawn that only one source draws; 0 where that is not often."""
    total = np.diff(np.flatnonzero(ends), prepend=-1)
    left = np.diff(np.cumsum(is_left)[ends.reshape(-1)], prepend=0)
    alone = total[((left == 0) | (left == total)) & (total >= _FREQUENT)]
    return int(alone.max(initial=0))


def _distance(weights: np.ndarray, ends: np.ndarray) -> float:
    """The largest distance between two empirical distributions, in any row."""
    return float(np.abs(np.where(ends, np.cumsum(weights, axis=1), 0.0)).max())
