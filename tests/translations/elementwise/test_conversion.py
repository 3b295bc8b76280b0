"""Conversions between types, copies and fills."""

from __future__ import annotations

import math

import pytest
import torch
from helpers.matching import assert_matches
from helpers.tables import assert_all_match

from opbridge.errors import MissingOperators

CONVERSIONS = {
    "methods": lambda x: (x.float(), x.double(), x.half(), x.int(), x.long(), x.short(), x.char(), x.byte(), x.bool()),
    "to": lambda x: (x.to(torch.float64), x.to(torch.int32), x.to(x.dtype), x.to("cpu"), x.to("cpu", torch.float16)),
    "to keywords": lambda x: (
        x.to(dtype=torch.int64),
        x.to(device="cpu", dtype=torch.bool),
        x.to(torch.int8, copy=True),
    ),
    "to other": lambda x: (x.to(torch.zeros(1, dtype=torch.float64)), x.type_as(torch.zeros(1, dtype=torch.int32))),
    "type": lambda x: (x.type(torch.float32), torch.ops.aten._to_copy(x, dtype=torch.float64)),
    "bfloat16": lambda x: (x.to(torch.bfloat16).float(), (x.to(torch.bfloat16) * 2).float()),
    "copies": lambda x: (
        x.clone(),
        x.contiguous(),
        x.detach(),
        x.alias_copy() if hasattr(x, "alias_copy") else x.clone(),
    ),
    "copy_": lambda x: (x.double().copy_(x), torch.zeros(2, x.shape[0]).copy_(x), torch.zeros_like(x).copy_(x[:1])),
    "fill": lambda x: (x.clone().fill_(1), x.clone().fill_(x[0]), torch.fill(x, 0), x.clone().zero_()),
    "in place": lambda x: torch.empty(x.shape, dtype=torch.int32).copy_(x).add_(1),
}

VALUES = [0.0, -0.0, 1.0, -1.0, 1.9, -1.9, 0.4, 100.7, -100.7, 127.5]


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.bool], ids=str
)
def test_conversions(dtype: torch.dtype) -> None:
    x = torch.tensor(VALUES).to(dtype)
    assert_all_match(CONVERSIONS, x, others=[(x.flip(0),)])


def test_conversions_at_opset_18() -> None:
    assert_all_match(CONVERSIONS, torch.tensor(VALUES), opset_version=18)


def test_out_of_range_numbers_keep_their_low_bits() -> None:
    x = torch.tensor([300.7, -200.2, -1.0, 70000.0, 255.0, 128.0])
    assert_matches(lambda x: (x.byte(), x.char(), x.short(), x.long().byte(), x.int().char()), x, others=[(x.flip(0),)])


def test_nan_and_infinity() -> None:
    x = torch.tensor([math.nan, math.inf, -math.inf, 1e30, 1e-40, 65520.0])
    assert_matches(lambda x: (x.bool(), x.half(), x.double(), x.to(torch.bfloat16).float()), x)


def test_bit_casts() -> None:
    x = torch.tensor([1.5, -0.0, math.inf, 1e-40])
    assert_matches(lambda x: (x.view(torch.int32), x.view(torch.int32).view(torch.float32)), x, opset_version=26)
    assert_matches(
        lambda x: (x.view(torch.uint8), x.view(torch.int8)), torch.tensor([1, -1, 127, -128], dtype=torch.int8)
    )
    with pytest.raises(MissingOperators, match="opset_version=26"):
        assert_matches(lambda x: x.view(torch.int32), x)


def test_fills_of_a_dynamic_size() -> None:
    assert_all_match(
        {name: CONVERSIONS[name] for name in ("copy_", "fill", "to", "in place")},
        torch.randn(5),
        others=[(torch.randn(2),), (torch.randn(9),)],
        dynamic_shapes={"x": {0: torch.export.Dim("batch", min=2)}},
    )
