"""Sizes that are computed with too many operations are refused where that is asked for."""

from __future__ import annotations

import contextlib

import torch

from opbridge.capture import capture
from opbridge.capture.tracer.long_sizes import SizesTooLong, check_length, refusing_long_sizes


def test_a_long_size_is_refused_within_the_context_alone():
    accepted, refused = set(), set()

    def halved(x):
        size = x.shape[0]
        for divisor in range(3, 60):
            size = torch.sym_min(size, x.shape[0] // divisor + divisor)
        for name, result in (("whole", x), ("part", x[:size])):
            check_length(result)
            with refusing_long_sizes(), contextlib.suppress(SizesTooLong):
                refused.add(name)
                check_length(result)
                refused.remove(name)
                accepted.add(name)
        return x * 2

    capture(halved, (torch.randn(300),), dynamic_shapes=({0: "n"},))
    assert accepted == {"whole"} and refused == {"part"}
