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
"""What rounding may do to a value, in units of the greatest one."""
_ROUNDINGS = 4
"""The same in units of eps, where that is more: in float16 and bfloat16."""


def difference(
    expected: Callable[[int], Sequence[torch.Tensor]],
    actual: Callable[[], Sequence[torch.Tensor]],
    runs: int = _RUNS,
    *,
    precision: torch.dtype | None = None,
) -> str:
    """What tells two sources apart; "" where nothing does.

    Both are run many times. Then, for each output:

    1. Element by element, a value that one of them draws often and the other never tells them apart, such as what
       dropout keeps, wrongly scaled.
    2. The largest distance between the two empirical distributions (that of Kolmogorov and Smirnov) is taken over all
       values at once, and element by element, which sees parameters that vary from one element to the next. Either is
       held against what it is when the same runs are dealt out to the two sources at random, so that values within one
       run may depend on each other as they like.
    3. What tells them apart has to do so in as many further runs: once in some hundred times chance does it.

    Neither counts what would be gone if each value of one of them were moved by what rounding may do to it.

    Args:
        expected: Gives the outputs for a seed.
        actual: Gives the outputs of a further run.
        runs: How many runs of each.
        precision: The coarsest floating dtype that the values were computed through; None: their own.
    """
    reason = ""
    for seeds in (range(runs), range(runs, 2 * runs)):
        reason = _difference([expected(seed) for seed in seeds], [actual() for _ in seeds], precision)
        if not reason:
            break
    return reason


def _difference(
    left: Sequence[Sequence[torch.Tensor]], right: Sequence[Sequence[torch.Tensor]], precision: torch.dtype | None
) -> str:
    runs = len(left)
    flat = [[[_flat(tensor) for tensor in outputs] for outputs in side] for side in (left, right)]
    by_output = zip(zip(*flat[0], strict=True), zip(*flat[1], strict=True), strict=True)
    for position, (first, second) in enumerate(by_output):
        if len({values.size for values in (*first, *second)}) > 1 or first[0].size == 0:
            continue  # the size is random too: there are no elements to hold against each other
        rounding = _rounding(left[0][position].dtype, precision)
        reason = _told_apart(np.stack([*first, *second]), runs, rounding)
        if reason:
            return f"output {position} is random, and {reason} ({runs} runs of each, twice)"
    return ""


def _flat(tensor: torch.Tensor) -> np.ndarray:
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.detach().reshape(-1).double().nan_to_num(nan=np.finfo(np.float64).max).numpy()


def _rounding(dtype: torch.dtype, precision: torch.dtype | None) -> float:
    """What rounding may do to a value of a dtype, in units of the greatest one."""
    if not (dtype.is_floating_point or dtype.is_complex):
        return _ROUNDING
    return max(_ROUNDING, *(_ROUNDINGS * torch.finfo(each).eps for each in (dtype, precision or dtype)))


def _told_apart(values: np.ndarray, runs: int, rounding: float) -> str:
    """Args:
    values: One row a run, PyTorch's first.
    """
    generator = np.random.default_rng(0)
    if values.shape[1] > _MOST_ELEMENTS:
        values = values[:, generator.choice(values.shape[1], _MOST_ELEMENTS, replace=False)]
    reach = rounding * float(np.abs(values[np.abs(values) < 1e300]).max(initial=0.0))
    is_left = np.arange(2 * runs) < runs
    for columns, what in ((values.T, "an element's values"), (values.reshape(1, -1), "its values")):
        order = np.argsort(columns, axis=1, kind="stable")
        ordered = np.take_along_axis(columns, order, axis=1)
        runs_of = order if columns.shape[0] > 1 or values.shape[1] == 1 else order // values.shape[1]
        if runs_of is order:
            often = max(_one_sided(*row, reach) for row in zip(ordered, is_left[order], strict=True))
            if often:
                return f"a value occurs {often} times in one of the two and never in the other"
        near = np.stack([np.searchsorted(row, row + reach, side="right") - 1 for row in ordered])
        observed = _distance(is_left[runs_of], near)
        chance = max(_distance(generator.permutation(is_left)[runs_of], near) for _ in range(_RELABELLINGS))
        if observed > _MARGIN * chance and observed > 1e-9:
            return f"{what} have different distributions: distance {observed:.2f}, at most {chance:.2f} by chance"
    return ""


def _one_sided(ordered: np.ndarray, is_left: np.ndarray, reach: float) -> int:
    """How often the most frequent value was drawn that only one source draws; 0 where that is not often.

    Args:
        ordered: An element's values, the smallest first.
        is_left: Which of them are PyTorch's.
        reach: Values this close count as one, and so does what the other source draws this close to them.
    """
    start, end = np.searchsorted(ordered, ordered), np.searchsorted(ordered, ordered + reach, side="right")
    low = np.searchsorted(ordered, ordered - reach)
    high = np.searchsorted(ordered, ordered + 2 * reach, side="right")
    left = np.concatenate([[0], np.cumsum(is_left)])
    right = np.arange(left.size) - left
    alone = [(own[end] - own[start])[other[high] == other[low]] for own, other in ((left, right), (right, left))]
    often = int(np.concatenate(alone).max(initial=0))
    return often if often >= _FREQUENT else 0


def _distance(is_left: np.ndarray, near: np.ndarray) -> float:
    """The largest distance between two empirical distributions, in any row, that moving the values does not close.

    Args:
        is_left: For each row of ordered values, which of them are PyTorch's; as many are as are not.
        near: For each value, the place of the last one that it may be moved to.
    """
    left = np.cumsum(is_left, axis=1)
    right = np.arange(1, is_left.shape[1] + 1) - left
    gaps = (below - np.take_along_axis(above, near, axis=1) for below, above in ((left, right), (right, left)))
    return float(max(gap.max() for gap in gaps)) * 2 / is_left.shape[1]
