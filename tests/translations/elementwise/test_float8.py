"""Conversions to float8 types at and beyond the ends of their ranges, from every type."""

from __future__ import annotations

import math

import pytest
import torch
from helpers.matching import assert_matches

from opbridge.base.dtypes import onnx_dtype
from opbridge.onnx.python_values import as_array
from opbridge.verification.extremes import ends_of

FLOAT8 = tuple(
    getattr(torch, name)
    for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
    if hasattr(torch, name)
)

SOURCES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8)


def _opset(dtype: torch.dtype) -> int:
    return 24 if dtype == getattr(torch, "float8_e8m0fnu", None) else 19


def _given(dtype: torch.dtype, source: torch.dtype) -> torch.Tensor:
    if source.is_floating_point:
        generator = torch.Generator().manual_seed(0)
        return torch.cat([ends_of(dtype, source), (torch.randn(300, generator=generator) * 100).to(source)])
    numbers = [*ends_of(source, source).tolist(), 17, -17, 248, 464, 465, 500, 61439, 61440, 70000, -70000]
    info = torch.iinfo(source)
    return torch.tensor([each for each in numbers if info.min <= each <= info.max], dtype=source)


@pytest.mark.parametrize("source", SOURCES, ids=str)
@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_conversions_at_the_ends_of_the_range(dtype: torch.dtype, source: torch.dtype) -> None:
    given = _given(dtype, source)
    if source == torch.bfloat16:  # which NumPy lacks
        given = given.float()
    assert_matches(lambda x: x.to(source).to(dtype).float(), given, opset_version=_opset(dtype), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_conversions_that_are_asked_for_otherwise(dtype: torch.dtype) -> None:
    other = torch.zeros(1).to(dtype)
    assert_matches(
        lambda x: (
            x.to(other).float(),
            x.type_as(other).float(),
            x.to("cpu", dtype).float(),
            torch.empty(x.shape, dtype=dtype).copy_(x).float(),
            torch.ops.aten._to_copy(x, dtype=dtype).float(),
        ),
        _given(dtype, torch.float32),
        opset_version=_opset(dtype),
        rtol=0,
        atol=0,
    )


@pytest.mark.parametrize("dtype", FLOAT8[:4], ids=str)
@pytest.mark.parametrize("source", FLOAT8[:4], ids=str)
def test_conversions_between_them(dtype: torch.dtype, source: torch.dtype) -> None:
    every = torch.arange(256, dtype=torch.uint8).view(source).float()
    assert_matches(lambda x: x.to(source).to(dtype).float(), every, opset_version=19, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", FLOAT8[:4], ids=str)
def test_numbers_of_the_code_are_converted_as_torch_converts_them(dtype: torch.dtype) -> None:
    numbers = [0.0, 1.0, -500.0, 1e6, math.inf, -math.inf, math.nan]
    converted = as_array(numbers, onnx_dtype(dtype)).astype("float32")
    torch.testing.assert_close(
        torch.from_numpy(converted), torch.tensor(numbers).to(dtype).float(), rtol=0, atol=0, equal_nan=True
    )
