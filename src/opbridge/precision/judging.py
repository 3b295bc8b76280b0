"""How far the outputs of two models are apart, relative to the RMS of the output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Apart", "apart"]

_INFINITE = float("inf")


@dataclass(frozen=True)
class Apart:
    """How far an output is from what it should be.

    Attributes:
        error: The RMS of the difference relative to the RMS of the output; of integers and booleans the share of
            elements that differ; infinite where the shapes differ, or where one of the two is not finite.
        largest: The largest difference of an element, relative to the RMS of the output.
    """

    error: float
    largest: float


def apart(want: Any, have: Any) -> Apart:
    """How far one output is from another.

    Args:
        want: What float32 gives: a tensor, a list of them, or None.
        have: What the other model gives, in its own types.
    """
    if isinstance(want, list | tuple) or isinstance(have, list | tuple):
        if not isinstance(want, list | tuple) or not isinstance(have, list | tuple) or len(want) != len(have):
            return Apart(_INFINITE, _INFINITE)
        parts = [apart(one, other) for one, other in zip(want, have, strict=True)]
        return Apart(
            max((each.error for each in parts), default=0.0), max((each.largest for each in parts), default=0.0)
        )
    if want is None or have is None:
        return Apart(0.0, 0.0) if want is have else Apart(_INFINITE, _INFINITE)
    left, right = np.asarray(want), np.asarray(have)
    if left.shape != right.shape:
        return Apart(_INFINITE, _INFINITE)
    if not left.size:
        return Apart(0.0, 0.0)
    if left.dtype.kind in "biuOUS":
        share = float(np.mean(left != right))
        return Apart(share, share)
    return _of_floats(left.astype(np.float64), right.astype(np.float64))


def _of_floats(left: np.ndarray, right: np.ndarray) -> Apart:
    finite = np.isfinite(left)
    if not np.array_equal(left[~finite], right[~finite], equal_nan=True) or not np.isfinite(right[finite]).all():
        return Apart(_INFINITE, _INFINITE)
    if not finite.any():
        return Apart(0.0, 0.0)
    difference = np.abs(right[finite] - left[finite])
    scale = float(np.sqrt(np.mean(left[finite] ** 2))) or 1.0
    return Apart(float(np.sqrt(np.mean(difference**2))) / scale, float(difference.max()) / scale)
