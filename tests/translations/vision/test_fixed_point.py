"""Images of bytes resized: equal to torch's bytes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from helpers.matching import assert_matches
from torch.export import Dim

SIZES = {
    "smaller": ((1, 3, 16, 20), (7, 5)),
    "larger": ((2, 3, 16, 20), (37, 45)),
    "one channel": ((1, 1, 9, 9), (9, 4)),
    "many channels": ((1, 8, 33, 31), (12, 50)),
    "as it is": ((1, 4, 5, 7), (5, 7)),
    "few rows": ((1, 3, 64, 64), (3, 64)),
    "one pixel": ((1, 3, 1, 1), (4, 4)),
}
EXACT = {"rtol": 0, "atol": 0}


def image(*shape: int) -> torch.Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8)


@pytest.mark.slow
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_sizes(mode, antialias):
    for shape, out in SIZES.values():
        others = [(torch.full(shape, 255, dtype=torch.uint8),), ((image(*shape) // 128) * 255,)]
        assert_matches(
            lambda x, out=out: F.interpolate(x, out, mode=mode, antialias=antialias),
            image(*shape),
            others=others,
            **EXACT,
        )


@pytest.mark.slow
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_factors_and_corners(mode, antialias):
    for options in ({"scale_factor": 0.37}, {"scale_factor": 2.3}, {"size": (13, 50), "align_corners": True}):
        assert_matches(
            lambda x, options=options: F.interpolate(x, mode=mode, antialias=antialias, **options),
            image(1, 3, 40, 41),
            **EXACT,
        )


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_any_size(mode, antialias):
    assert_matches(
        lambda x: F.interpolate(x, (13, 40), mode=mode, antialias=antialias),
        image(1, 3, 40, 41),
        dynamic_shapes=({2: Dim("height"), 3: Dim("width")},),
        others=[(image(1, 3, 10, 91),), (image(1, 3, 200, 13),), (image(1, 3, 2, 2),)],
        **EXACT,
    )
