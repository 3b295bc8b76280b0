"""Dynamic and lightweight convolution over time."""

from __future__ import annotations

import numpy as np
from kernels.cases import Case, Refused
from kernels.references import dynamic_conv as reference

__all__ = ["REFUSED", "random_cases"]


def random_cases(seed: int) -> list[Case]:
    """One of each operator, with sizes that reach each part of the kernels: no vector full, several tiles, one head."""
    random = np.random.default_rng(seed)
    batch, heads = random.choice([0, 1, 1, 2, 3]), random.choice([1, 2, 3])
    head_size, taps = random.choice([1, 2, 3, 5, 7, 13]), random.choice([1, 2, 3, 4, 7, 8, 9, 15, 31])
    time = random.choice([0, 1, 2, 5, 15, 16, 17, 31, 33, 64, 130])
    if seed % 10 == 0:
        batch, heads, head_size, taps, time = 1, 1, 70, min(taps, 7), 17
    channels = 0 if seed % 17 == 16 else heads * head_size
    padding = int(random.integers(taps))
    x, grad = random.standard_normal((2, batch, channels, time))
    dynamic, fixed = random.standard_normal((batch, heads, taps, time)), random.standard_normal((heads, taps))
    given = {"padding_l": padding}
    return [
        Case("dynamic_conv", [x, dynamic], given, [reference.dynamic_conv(x, dynamic, padding)]),
        Case("lightweight_conv", [x, fixed], given, [reference.lightweight_conv(x, fixed, padding)]),
        Case(
            "dynamic_conv_backward",
            [grad, x, dynamic],
            given,
            reference.dynamic_conv_gradients(grad, x, dynamic, padding),
        ),
        Case(
            "lightweight_conv_backward",
            [grad, x, fixed],
            given,
            reference.lightweight_conv_gradients(grad, x, fixed, padding),
        ),
    ]


def _refused(x: tuple[int, ...], weight: tuple[int, ...], padding: int, words: str) -> Refused:
    operator = "lightweight_conv" if len(weight) == 2 else "dynamic_conv"
    return Refused(operator, [x, weight], {"padding_l": padding}, words)


REFUSED = [
    _refused((2, 4), (1, 2, 3, 4), 1, "x must be .* but has 2 dimensions"),
    _refused((), (1, 2, 3, 4), 1, "x must be .* but has 0 dimensions"),
    _refused((1, 2, 4), (1, 2, 3), 1, "weight must be .* but has 3 dimensions"),
    _refused((1, 2, 4), (2,), 0, "weight must be .* but has 1 dimensions"),
    _refused((1, 3, 4), (1, 2, 3, 4), 1, "3 channels, which is not a multiple of the 2 heads of weight"),
    _refused((1, 3, 4), (0, 3), 1, "3 channels, which is not a multiple of the 0 heads of weight"),
    _refused((1, 2, 4), (1, 2, 3, 5), 1, r"weight must be .* = \(1, 2, 3, 4\), but is \(1, 2, 3, 5\)"),
    _refused((1, 2, 4), (2, 2, 3, 4), 1, r"weight must be .* = \(1, 2, 3, 4\), but is \(2, 2, 3, 4\)"),
    _refused((1, 2, 4), (1, 2, 3, 4), 3, "padding_l must be between 0 and 2, but is 3"),
    _refused((1, 2, 4), (2, 3), -1, "padding_l must be between 0 and 2, but is -1"),
    _refused((1, 2, 4), (2, 0), 1, "padding_l must be between 0 and 0, but is 1"),
    _refused((1, 2, 4), (2, 3), 2**62, "padding_l must be between 0 and 2"),
    _refused((1, 2, 4), (2, 3), -(2**63), "padding_l must be between 0 and 2"),
    Refused("dynamic_conv_backward", [(1, 2, 5), (1, 2, 4), (1, 2, 3, 4)], {"padding_l": 1}, "grad must be"),
    Refused("lightweight_conv_backward", [(1, 2), (1, 2, 4), (2, 3)], {"padding_l": 1}, "grad must be"),
]
