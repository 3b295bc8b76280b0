"""Operators on the smallest and the largest integers of each dtype, where results wrap and signs have no opposite."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches

from opbridge.verification.extremes import ends_of

INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)


def pointwise(x):
    results = (
        *(x.neg(), x.sign(), x * x, x + 1, x - 1, 1 - x, x**2, x << 1, x >> 1, ~x, x ^ 5, x.logical_not()),
        *(x // 3, x.remainder(3), x.fmod(3), torch.where(x > 1, -x, x), x.maximum(-x), x.clamp(max=100), x.float() / 3),
        torch.floor_divide(x, torch.full_like(x, 3)),
    )
    if x.dtype != torch.uint8:  # of which torch releases take negative numbers differently
        results += (x.abs(), x.relu(), x.clamp(-100, 100), x.remainder(-3), x.div(-3, rounding_mode="floor"))
        results += (x.div(-3, rounding_mode="trunc"), (x - x.flip(0)).abs())
    return results


def reducing(x):
    return (
        *(x.sum(), x.prod(), x.max(), x.min(), x.amax(), x.amin(), x.argmax(), x.argmin(), x.cumsum(0), x.diff()),
        *(x.sort().values, x.sort(descending=True).values, x.topk(3).values, x.topk(3, largest=False).values),
        *(x.cummax(0).values, x.cummin(0).values, x.median(), x.kthvalue(2).values, x.unique(), x.double().mean()),
        torch.isin(x, x[:2]),
    )


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("model", [pointwise, reducing])
def test_operators_at_the_ends_of_integers(model, dtype: torch.dtype) -> None:
    x = ends_of(dtype, dtype)
    assert_matches(model, x, others=[(x.flip(0),)])
