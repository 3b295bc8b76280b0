"""Deformable convolution."""

from __future__ import annotations

import numpy as np
from kernels.cases import Attributes, Case, Refused
from kernels.references.deform_conv2d import deform_conv2d

__all__ = ["REFUSED", "random_cases"]


def random_cases(seed: int) -> list[Case]:
    """One call, with groups of channels and of offsets that need not be the same, taps that lie outside, no pixels."""
    random = np.random.default_rng(seed)
    groups, offset_groups = (int(random.choice([1, 1, 2, 3])) for _ in range(2))
    batch, channels = random.choice([0, 1, 1, 2]), groups * offset_groups * random.choice([1, 1, 2, 5])
    outputs = 0 if seed % 29 == 28 else groups * random.choice([1, 2, 7, 18, 33])
    if seed % 5 == 0:
        groups, offset_groups, channels = 1, 1, random.choice([16, 17, 40])
    kernel, stride, padding, dilation = (
        [int(random.choice(values)) for _ in range(2)] for values in ([1, 2, 3], [1, 1, 2, 3], [0, 1, 2], [1, 2])
    )
    spans = [d * (k - 1) + 1 - 2 * p for k, p, d in zip(kernel, padding, dilation, strict=True)]
    sizes = [max(span, random.choice([1, 4, 9]) if seed % 13 else 0, 0) for span in spans]
    result = [(size - span) // step + 1 for size, span, step in zip(sizes, spans, stride, strict=True)]
    taps = offset_groups * kernel[0] * kernel[1]
    x = random.standard_normal((batch, channels, *sizes))
    weight = random.standard_normal((outputs, channels // groups, *kernel))
    offset = random.standard_normal((batch, 2 * taps, *result)) * random.choice([0, 1, 1, 5])
    if offset.size and seed % 7 == 0:
        offset.flat[0] = [np.nan, np.inf, -np.inf, 1e4][seed // 7 % 4]
    # In all element types the same positions: sixteenths.
    offset = np.round(offset * 16) / 16
    mask = random.random((batch, taps, *result)) if random.random() < 0.6 else None
    bias = random.standard_normal(outputs) if random.random() < 0.6 else None
    given: Attributes = {"stride": stride, "padding": padding, "dilation": dilation}
    expected = deform_conv2d(x, offset, weight, bias, stride, padding, dilation, mask)
    given |= {"groups": groups, "offset_groups": offset_groups}
    return [Case("deform_conv2d", [x, weight, offset, mask, bias], given, [expected])]


_X, _WEIGHT, _OFFSET = (1, 2, 4, 4), (3, 2, 3, 3), (1, 18, 2, 2)


def _refused(
    words: str,
    x: tuple[int, ...] = _X,
    weight: tuple[int, ...] = _WEIGHT,
    offset: tuple[int, ...] = _OFFSET,
    mask: tuple[int, ...] | None = None,
    bias: tuple[int, ...] | None = None,
    **attributes: int | list[int],
) -> Refused:
    given: Attributes = {"stride": [1, 1], "padding": [0, 0], "dilation": [1, 1], "groups": 1, "offset_groups": 1}
    return Refused("deform_conv2d", [x, weight, offset, mask, bias], given | attributes, words)


REFUSED = [
    _refused("x must be", x=(2, 4, 4)),
    _refused("weight must be", weight=(3, 2, 3)),
    _refused("offset must be", offset=(18, 2, 2)),
    _refused("weight is for 3 channels in each group, but x has 2", weight=(3, 3, 3, 3)),
    _refused("weight spans 5 pixels, more than the 4 of x and its padding", weight=(3, 2, 5, 5)),
    _refused("the height of weight must be between 1 and", weight=(3, 2, 0, 3)),
    _refused(r"offset must be .* = \(1, 18, 2, 2\), but is \(1, 18, 2, 3\)", offset=(1, 18, 2, 3)),
    _refused(r"offset must be .* = \(1, 18, 2, 2\), but is \(1, 9, 2, 2\)", offset=(1, 9, 2, 2)),
    _refused(r"mask must be .* = \(1, 9, 2, 2\), but is \(1, 9, 2, 1\)", mask=(1, 9, 2, 1)),
    _refused("mask must be .* but has 1 dimensions", mask=(9,)),
    _refused(r"bias must be .* = \(3\), but is \(4\)", bias=(4,)),
    _refused("bias must be .* but has 0 dimensions", bias=()),
    _refused("stride_h must be between 1 and", stride=[0, 1]),
    _refused("stride_w must be between 1 and", stride=[1, -1]),
    _refused("padding_h must be between 0 and", padding=[-1, 0]),
    _refused("padding_w must be between 0 and", padding=[0, 2**62]),
    _refused("dilation_h must be between 1 and", dilation=[0, 1]),
    _refused("dilation_w must be between 1 and", dilation=[1, 2**62]),
    _refused("weight spans 4294967295 pixels", dilation=[2**31 - 1, 1]),
    _refused("the result exceeds the maximum memory size", padding=[2**31 - 1, 2**31 - 1]),
    _refused("offset must be", padding=[1, 1]),
    _refused("groups must be between 1 and", groups=0),
    _refused("groups is 2, which must divide", groups=2),
    _refused("offset_groups must be between 1 and", offset_groups=-3),
    _refused("offset_groups is 3, which must divide", offset_groups=3),
    _refused("offset must be", x=(1, 0, 4, 4), weight=(3, 0, 3, 3), offset_groups=2**31 - 1),
]
