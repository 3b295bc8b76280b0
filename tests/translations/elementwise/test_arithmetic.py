"""Arithmetic, comparisons, bits and bounds in every mix of types."""

from __future__ import annotations

import math
import operator

import pytest
import torch
from helpers.matching import assert_matches
from helpers.tables import accepted, assert_all_match

NAN, INF = math.nan, math.inf

FLOATS = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.1, -0.3, 2.5, -7.0, 3.0, 1e-6, 1e30]

ANY_PAIR = {
    "add": torch.add,
    "add alpha": lambda x, y: torch.add(x, y, alpha=2),
    "sub alpha": lambda x, y: torch.sub(x, y, alpha=3),
    "rsub": lambda x, y: torch.rsub(x, y, alpha=2),
    "mul": torch.mul,
    "div": torch.div,
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.greater_equal,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "fmax": torch.fmax,
    "fmin": torch.fmin,
    "max": torch.max,
    "where": lambda x, y: torch.where(x > 0, x, y),
    "where scalar": lambda x, y: torch.where(x > 0, x, 2) + torch.where(y > 0, 1.5, y),
    "where scalars": lambda x, y: (
        torch.where(x > 0, 1.5, 2.5),
        torch.where(x > 0, 1, 2),
        torch.where(x > 0, True, 2.0),
    ),
    "masked_fill": lambda x, y: x.expand(x.shape[0], y.shape[-1]).masked_fill(y > 0, 1),
    "logical": lambda x, y: (
        torch.logical_and(x, y),
        torch.logical_or(x, y),
        torch.logical_xor(x, y),
        torch.logical_not(x),
    ),
    "clamp_min": lambda x, y: torch.clamp_min(x, y),
    "clamp_max": lambda x, y: torch.clamp_max(x, y),
    "clamp tensors": lambda x, y: torch.clamp(x, y, y),
    "multiply": torch.multiply,
    "true_divide": torch.true_divide,
    "float_power": torch.float_power,
}

DIVISIONS = {
    "floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "floor_divide": torch.floor_divide,
    "remainder": torch.remainder,
    "fmod": torch.fmod,
}

NUMBERS = {
    "add": lambda x: x + 2,
    "radd": lambda x: 2.5 + x,
    "sub": lambda x: x - 0.1,
    "rsub": lambda x: 1 - x,
    "mul": lambda x: x * 0.3,
    "div": lambda x: x / 3,
    "rdiv": lambda x: 2 / x,
    "floordiv": lambda x: x // 3,
    "rfloordiv": lambda x: 7 // x,
    "floordiv fraction": lambda x: x // -0.3,
    "mod": lambda x: x % 3,
    "mod negative": lambda x: x % -2.5,
    "rmod": lambda x: 7 % x,
    "fmod": lambda x: torch.fmod(x, -2),
    "div floor": lambda x: torch.div(x, 2, rounding_mode="floor"),
    "div trunc": lambda x: torch.div(x, -1.5, rounding_mode="trunc"),
    "pow 0": lambda x: x**0,
    "pow 1": lambda x: x**1,
    "pow 2": lambda x: x**2,
    "pow 3": lambda x: x**3,
    "pow 5": lambda x: x**5,
    "pow half": lambda x: x**0.5,
    "pow -half": lambda x: x**-0.5,
    "pow -1": lambda x: x**-1.0,
    "pow -2": lambda x: x**-2.0,
    "pow fraction": lambda x: x**1.7,
    "rpow": lambda x: 2.5**x,
    "rpow 2": lambda x: 2.0**x,
    "float_power": lambda x: torch.float_power(x, 2),
    "float_power half": lambda x: torch.float_power(x, 0.5),
    "rfloat_power": lambda x: torch.float_power(3, x),
    "comparisons": lambda x: (x == 1, x != 2.5, x < 1, x <= 0.1, x > -1, x >= 3, x > 1),
    "clamp": lambda x: x.clamp(-1, 2),
    "clamp fraction": lambda x: x.clamp(-0.5, 2.5),
    "clamp min": lambda x: x.clamp(min=0),
    "clamp max": lambda x: x.clip(max=1.5),
    "clamp crossed": lambda x: x.clamp(3, 1),
    "clamp nan": lambda x: x.clamp(min=NAN),
    "clamp_min": lambda x: torch.clamp_min(x, 1),
    "clamp_max": lambda x: torch.clamp_max(x, 0.5),
    "where": lambda x: torch.where(x > 0, x, 0.5),
    "masked_fill": lambda x: x.masked_fill(x > 0, -INF if x.is_floating_point() else 7),
    "isclose": lambda x: (torch.isclose(x, x + 1, rtol=0.3), torch.isclose(x, x, equal_nan=True)),
}

BITS = {
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "numbers": lambda x, y: (x & 6, x | 9, x ^ 5, 3 & x, 12 | y, ~x),
    "bitwise": lambda x, y: (torch.bitwise_and(x, y), torch.bitwise_or(x, 3), torch.bitwise_xor(7, y)),
    "in place": lambda x, y: [operator.iand(x.clone(), y), operator.ior(x.clone(), 8), operator.ixor(x.clone(), y)],
}

SHIFTS = {
    "left": lambda x, y: x << y,
    "right": lambda x, y: x >> y,
    "left number": lambda x, y: (x << 3, 3 << y),
    "right number": lambda x, y: (x >> 2, 100 >> y),
    "in place": lambda x, y: (x.clone().__ilshift__(y), x.clone().__irshift__(1)),
}


def values(dtype: torch.dtype) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.tensor([True, False])
    if dtype.is_floating_point:
        return torch.tensor(FLOATS if dtype != torch.float16 else FLOATS[:-1], dtype=dtype)
    return torch.tensor([0, 1, 2, 3, 7, 100] if dtype == torch.uint8 else [0, 1, -1, 2, -3, 7, -100, 101], dtype=dtype)


def nonzero(dtype: torch.dtype) -> torch.Tensor:
    found = values(dtype)
    return found if dtype.is_floating_point else found[found != 0]


DTYPES = [torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool]
MIXED = [
    (torch.int64, torch.float32),
    (torch.float32, torch.float64),
    (torch.bool, torch.int64),
    (torch.uint8, torch.int8),
    (torch.float16, torch.float32),
    (torch.int32, torch.int64),
    (torch.bool, torch.float32),
]


def names(dtypes: tuple[torch.dtype, torch.dtype]) -> str:
    return "-".join(str(dtype).removeprefix("torch.") for dtype in dtypes)


@pytest.mark.slow
@pytest.mark.parametrize("dtypes", [*((dtype, dtype) for dtype in DTYPES), *MIXED], ids=names)
def test_pairs(dtypes: tuple[torch.dtype, torch.dtype]) -> None:
    x, y = values(dtypes[0])[:, None], nonzero(dtypes[1])[None, :]
    table = accepted({**ANY_PAIR, **DIVISIONS}, x, y)
    if dtypes[0] == torch.float16:
        # torch rounds 3 * y at the end of a row of halves, and not in the middle of it.
        del table["sub alpha"]
    assert_all_match(table, x, y, others=[(x.flip(0), y.flip(1))])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [*DTYPES, torch.int8, torch.int16], ids=str)
def test_numbers(dtype: torch.dtype) -> None:
    x = nonzero(dtype)
    # How a negative bound of unsigned numbers counts has changed from one torch to the next.
    table = {name: f for name, f in accepted(NUMBERS, x).items() if dtype != torch.uint8 or name != "clamp"}
    assert len(table) > 30
    assert_all_match(table, x, others=[(x.flip(0),)])
    x = values(dtype)
    assert_all_match({name: f for name, f in table.items() if name not in ("rfloordiv", "rmod")}, x)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool], ids=str)
def test_bits(dtype: torch.dtype) -> None:
    if dtype == torch.bool:
        x, y = values(dtype)[:, None], values(dtype)
        assert_matches(lambda x, y: (x & y, x | y, x ^ y, x & True, ~x, torch.bitwise_or(x, y)), x, y)
        return
    x, y = values(dtype)[:, None].repeat(1, len(nonzero(dtype))), nonzero(dtype)[None, :]
    assert_all_match(BITS, x, y, others=[(x.flip(0), y.flip(1))])


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8], ids=str)
def test_shifts(dtype: torch.dtype) -> None:
    x = values(dtype)[:, None].repeat(1, 5)
    y = torch.tensor([0, 1, 3, 5, 7], dtype=dtype)[None, :]
    assert_all_match(SHIFTS, x, y, others=[(x.flip(0), y.flip(1))])


def test_shifts_past_the_width() -> None:
    x = torch.tensor([5, -5, 2**40, -(2**62)])[:, None]
    y = torch.tensor([-1, 62, 63, 64, 200])
    assert_matches(lambda x, y: (x << y, x >> y), x, y)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8], ids=str)
def test_integer_powers(dtype: torch.dtype) -> None:
    base = torch.tensor([0, 1, 2, 3, 7, 10] if dtype == torch.uint8 else [0, 1, -1, 2, -2, 3, -7, 10], dtype=dtype)
    exponent = torch.tensor(
        [0, 1, 2, 3, 15, 39, 63, 100] if dtype == torch.uint8 else [0, 1, 2, -1, -2, -3, 15, 39, 63], dtype=dtype
    )
    assert_matches(torch.pow, base[:, None], exponent, others=[(base.flip(0)[:, None], exponent.flip(0))])
    assert_matches(lambda x: (x**0, x**1, x**2, x**7, x**39), base, others=[(base.flip(0),)])
    assert_matches(lambda y: torch.pow(3, y.abs()), exponent)


def test_a_large_integer_power_is_exact() -> None:
    assert_matches(lambda x: x**39, torch.tensor([3, -3, 2]))


@pytest.mark.parametrize(
    "scalar", [torch.tensor(2), torch.tensor(2.5, dtype=torch.float64), torch.tensor(True)], ids=str
)
@pytest.mark.parametrize("dtype", [torch.int32, torch.float16, torch.uint8], ids=str)
def test_scalar_tensors_promote_by_category_only(dtype: torch.dtype, scalar: torch.Tensor) -> None:
    x = torch.tensor([1, 2, 3]).to(dtype)
    wanted = ("add", "mul", "sub alpha", "where", "fmax", "lt", "div", "minimum")
    table = accepted({name: ANY_PAIR[name] for name in wanted}, x, scalar)
    assert_all_match(table, x, scalar, others=[(x.flip(0), scalar)])


def test_masked_fill_by_a_tensor() -> None:
    mask = torch.tensor([True, False, True])
    for dtype in (torch.float32, torch.int32, torch.bool):
        x = torch.tensor([1, 0, 3]).to(dtype)
        assert_matches(
            lambda x, m, v: x.masked_fill(m, v), x, mask, torch.tensor(1.0), others=[(x, ~mask, torch.tensor(0.0))]
        )


@pytest.mark.slow
def test_in_place_arithmetic() -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        x += y
        x *= 2
        x //= 3
        x %= 5
        x **= 2
        x.clamp_(1, 9).masked_fill_(x > 5, 4)
        return x

    for dtype in (torch.int64, torch.float32):
        x, y = torch.arange(-6, 6).to(dtype), torch.arange(12).to(dtype)
        assert_matches(model, x, y, others=[(y, x)])


@pytest.mark.slow
def test_dynamic_sizes_and_opset_18() -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            x // y,
            x % y,
            torch.where(x > y, x, 0.5),
            x.clamp(y, y + 1),
            (x.int() << 2) & 13,
            x**3,
            torch.float_power(x, y),
        )

    batch = torch.export.Dim("batch")
    for opset in (18, 23):
        assert_matches(
            model,
            torch.rand(3, 4) + 1,
            torch.rand(4) + 1,
            others=[(torch.rand(7, 4) + 1, torch.rand(4) + 1)],
            dynamic_shapes={"x": {0: batch}, "y": None},
            opset_version=opset,
        )
