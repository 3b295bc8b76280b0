"""Bicubic interpolation by scales that are a tensor."""

from __future__ import annotations

import numpy as np
from kernels.cases import Case, Refused
from kernels.references.upsample_bicubic import upsample_bicubic

__all__ = ["REFUSED", "random_cases"]


def random_cases(seed: int) -> list[Case]:
    """One call, up or down, along each side by another scale."""
    random = np.random.default_rng(seed)
    batch, channels = random.choice([0, 1, 2]), random.choice([0, 1, 3])
    height, width = random.choice([1, 2, 3, 7, 20], 2)
    x = random.standard_normal((batch, channels, height, width))
    scales = np.maximum(random.integers(1, 13, 2) / 4, [1 / height, 1 / width])
    scales = np.ceil(scales * 8) / 8
    align = bool(random.integers(2))
    expected = upsample_bicubic(x, (scales[0], scales[1]), align)
    return [Case("upsample_bicubic", [x, scales], {"align_corners": int(align)}, [expected])]


def _refused(words: str, x: tuple[int, ...], scales: np.ndarray | tuple[int, ...]) -> Refused:
    return Refused("upsample_bicubic", [x, scales], {"align_corners": 0}, words)


_X = (1, 2, 4, 4)
REFUSED = [
    _refused("input must be", (2, 4, 4), np.ones(2)),
    _refused("scales must have two elements", _X, np.ones(3)),
    _refused("scales must have two elements", _X, np.ones((1, 2))),
    _refused("scales must be positive and finite", _X, np.array([1.0, 0.0])),
    _refused("scales must be positive and finite", _X, np.array([-1.0, 1.0])),
    _refused("scales must be positive and finite", _X, np.array([np.nan, 1.0])),
    _refused("scales must be positive and finite", _X, np.array([1.0, np.inf])),
    _refused("the output's height must be positive", _X, np.array([0.125, 1.0])),
    _refused("exceeds the maximum memory size", _X, np.array([1e30, 1.0])),
    _refused("exceeds the maximum memory size", _X, np.array([1e10, 1e10])),
    _refused("input has no pixels", (1, 2, 4, 0), np.ones(2)),
]
