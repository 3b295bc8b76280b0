"""RoIAlign of upright and of rotated regions."""

from __future__ import annotations

import numpy as np
from kernels.cases import Case, Refused
from kernels.references.roi_align import roi_align, roi_align_rotated

__all__ = ["REFUSED", "random_cases"]


def random_cases(seed: int) -> list[Case]:
    """One of each operator: regions within the image, beyond it, of no size, and some that are not finite."""
    random = np.random.default_rng(seed)
    images, channels = int(random.choice([1, 2, 3])), int(random.choice([0, 1, 2, 4, 5, 17, 35]))
    height, width = (int(random.choice([1, 2, 5, 12, 20])) for _ in range(2))
    x = random.standard_normal((images, channels, height, width))
    pooled = [int(random.choice([1, 2, 3, 7])) for _ in range(2)]
    count, scale = int(random.choice([0, 1, 3, 6])), float(random.choice([1.0, 0.5, 0.25]))
    ratio, aligned = int(random.choice([-1, 0, 0, 1, 2, 3])), bool(random.integers(2))
    clockwise = bool(random.integers(2))
    start = np.round(random.random((count, 2)) * [width, height] * 1.25 / scale - 3)
    size = np.round(random.random((count, 2)) * [width, height] / scale * random.choice([0.25, 1.0]))
    index = random.integers(0, images, (count, 1)).astype(np.float64)
    upright = _held_by_all(np.concatenate([index, start + 0.125, start + size + 0.375], axis=1))
    turns = random.integers(-96, 97, (count, 1)) / 32
    rotated = _held_by_all(np.concatenate([index, start + 0.125, size + 0.25, turns], axis=1))
    if count and seed % 9 == 0:
        upright[0, 1 + seed // 9 % 4] = rotated[0, 1 + seed // 9 % 5] = [np.nan, np.inf, -np.inf][seed // 27 % 3]
    attributes = {
        "spatial_scale": scale,
        "pooled_height": pooled[0],
        "pooled_width": pooled[1],
        "sampling_ratio": ratio,
        "aligned": int(aligned),
    }
    return [
        Case("roi_align", [x, upright], attributes, [roi_align(x, upright, scale, *pooled, ratio, aligned)]),
        Case(
            "roi_align_rotated",
            [x, rotated],
            attributes | {"clockwise": int(clockwise)},
            [roi_align_rotated(x, rotated, scale, *pooled, ratio, aligned, clockwise)],
        ),
    ]


def _held_by_all(numbers: np.ndarray) -> np.ndarray:
    """The nearest numbers that all element types hold, which have eight bits."""
    mantissa, exponent = np.frexp(numbers)
    return np.ldexp(np.round(mantissa * 256) / 256, exponent)


def _refused(
    operator: str,
    words: str,
    roi: tuple[float, ...] = (0.0, 0.0, 0.0, 2.0, 2.0),
    x: tuple[int, ...] = (1, 2, 4, 4),
    **attributes: float,
) -> Refused:
    given = {
        "spatial_scale": 1.0,
        "pooled_height": 2,
        "pooled_width": 2,
        "sampling_ratio": 0,
        "aligned": 1,
    } | attributes
    rois = np.array([roi], dtype=np.float64)
    if operator == "roi_align_rotated":
        given["clockwise"] = 0
        rois = np.pad(rois, ((0, 0), (0, 1)))
    return Refused(operator, [x, rois], given, words)


REFUSED = [
    *(
        refused
        for operator in ("roi_align", "roi_align_rotated")
        for refused in (
            _refused(operator, "input must be", x=(2, 4, 4)),
            _refused(operator, "rois must be", roi=(0.0, 0.0, 0.0, 2.0)),
            _refused(operator, "input has no pixels", x=(1, 2, 0, 4)),
            _refused(operator, "roi 0 refers to image 1", roi=(1.0, 0.0, 0.0, 2.0, 2.0)),
            _refused(operator, "roi 0 refers to image -1", roi=(-1.0, 0.0, 0.0, 2.0, 2.0)),
            _refused(operator, "roi 0 refers to image -?nan", roi=(np.nan, 0.0, 0.0, 2.0, 2.0)),
            _refused(operator, "roi 0 refers to image", roi=(1e30, 0.0, 0.0, 2.0, 2.0)),
            _refused(operator, "roi 0 is too large", roi=(0.0, 0.0, 0.0, 1e30, 2.0)),
            _refused(operator, "roi 0 refers to image 0", x=(0, 2, 4, 4)),
            _refused(operator, "sampling_ratio must be between", sampling_ratio=2**40),
            _refused(operator, "exceeds the maximum memory size", pooled_height=2**31 - 1, pooled_width=2**31 - 1),
        )
    ),
    _refused("roi_align_rotated", "roi 0 has a negative size", roi=(0.0, 0.0, 0.0, -2.0, 2.0)),
]
