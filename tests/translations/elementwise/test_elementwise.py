"""Pointwise operators of one tensor, and the few of two that are no plain arithmetic."""

from __future__ import annotations

import math

import pytest
import torch
from helpers.matching import assert_matches
from helpers.tables import accepted, assert_all_match

import opbridge
from opbridge.verification import exchange

NAN, INF = math.nan, math.inf

SPECIAL = [
    NAN,
    INF,
    -INF,
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    -1.5,
    2.5,
    0.1,
    -0.3,
    3.7,
    -7.0,
    1e-6,
    20.5,
    -40.0,
    90.0,
]

FLOATING = {
    "abs": torch.abs,
    "acos": torch.acos,
    "acosh": torch.acosh,
    "angle": torch.angle,
    "asin": torch.asin,
    "asinh": torch.asinh,
    "atan": torch.atan,
    "atanh": torch.atanh,
    "ceil": torch.ceil,
    "conj_physical": torch.conj_physical,
    "cos": torch.cos,
    "cosh": torch.cosh,
    "deg2rad": torch.deg2rad,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "fix": torch.fix,
    "floor": torch.floor,
    "frac": torch.frac,
    "isfinite": torch.isfinite,
    "isinf": torch.isinf,
    "isnan": torch.isnan,
    "isneginf": torch.isneginf,
    "isposinf": torch.isposinf,
    "isreal": torch.isreal,
    "log": torch.log,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "log2": torch.log2,
    "logit": torch.logit,
    "logit eps": lambda x: torch.logit(x, eps=0.2),
    "logit eps zero": lambda x: torch.logit(x, eps=0.0),
    "nan_to_num": torch.nan_to_num,
    "nan_to_num numbers": lambda x: torch.nan_to_num(x, nan=2.0, posinf=5.5, neginf=-3.0),
    "neg": torch.neg,
    "positive": torch.positive,
    "rad2deg": torch.rad2deg,
    "reciprocal": torch.reciprocal,
    "round": torch.round,
    "round decimals": lambda x: torch.round(x, decimals=1),
    "round decimals down": lambda x: torch.round(x, decimals=-1),
    "round decimals none": lambda x: torch.round(x, decimals=0),
    "rsqrt": torch.rsqrt,
    "sgn": torch.sgn,
    "sigmoid": torch.sigmoid,
    "sign": torch.sign,
    "signbit": torch.signbit,
    "sin": torch.sin,
    "sinc": torch.sinc,
    "sinh": torch.sinh,
    "sqrt": torch.sqrt,
    "square": torch.square,
    "tan": torch.tan,
    "tanh": torch.tanh,
    "threshold": lambda x: torch.nn.functional.threshold(x, 0.3, -2.0),
    "trunc": torch.trunc,
}

INTEGER = {
    name: FLOATING[name]
    for name in (
        "abs",
        "acos",
        "asinh",
        "angle",
        "ceil",
        "cosh",
        "deg2rad",
        "exp",
        "exp2",
        "expm1",
        "floor",
        "isfinite",
        "isinf",
        "isnan",
        "isneginf",
        "isposinf",
        "log",
        "log10",
        "log1p",
        "log2",
        "logit",
        "nan_to_num",
        "neg",
        "rad2deg",
        "reciprocal",
        "round",
        "rsqrt",
        "sgn",
        "sigmoid",
        "sign",
        "signbit",
        "sin",
        "sinc",
        "sqrt",
        "square",
        "tan",
        "tanh",
        "trunc",
    )
}

BOOLEAN = (
    "angle",
    "exp",
    "isfinite",
    "isinf",
    "isnan",
    "nan_to_num",
    "reciprocal",
    "sgn",
    "sigmoid",
    "sign",
    "signbit",
    "sin",
    "sqrt",
    "square",
)

BINARY = {
    "atan2": torch.atan2,
    "copysign": torch.copysign,
    "copysign number": lambda x, y: torch.copysign(x, -0.0),
    "heaviside": torch.heaviside,
    "hypot": torch.hypot,
    "ldexp": lambda x, y: torch.ldexp(x, torch.tensor([3], dtype=torch.int32)),
    "logaddexp": torch.logaddexp,
    "logaddexp2": torch.logaddexp2,
    "xlogy": torch.xlogy,
    "xlogy number": lambda x, y: torch.xlogy(x, 2.5),
    "xlogy of number": lambda x, y: torch.xlogy(0.0, y) + torch.xlogy(2, y),
    "lerp": lambda x, y: torch.lerp(x, y, 0.3),
    "lerp past": lambda x, y: torch.lerp(x, y, 0.7),
    "lerp tensor": lambda x, y: torch.lerp(x, y, y),
    "addcmul": lambda x, y: torch.addcmul(x, y, x, value=0.5),
    "addcmul one": lambda x, y: torch.addcmul(x, y, x),
    "addcdiv": lambda x, y: torch.addcdiv(x, y, x, value=-2),
}


def special(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(SPECIAL, dtype=dtype)


def pairs(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    """Every special value with every other."""
    return special(dtype)[:, None], special(dtype)[None, :]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_floating(dtype: torch.dtype) -> None:
    assert_all_match(FLOATING, special(dtype), others=[(torch.randn(20, dtype=dtype) * 3,)])


def test_half() -> None:
    table = {name: FLOATING[name] for name in ("expm1", "log1p", "sinc", "tan", "frac", "exp2", "round decimals")}
    assert_all_match(table, special(torch.float16), others=[(torch.randn(20, dtype=torch.float16) * 3,)])


@pytest.mark.slow
def test_every_number_of_half_precision() -> None:
    """One rounding of what is computed in float32: logit is so, where PyTorch's own kernel rounds in between."""
    bits = torch.arange(2**16, dtype=torch.int32).to(torch.int16)
    for dtype in (torch.float16, torch.bfloat16):
        x = bits.view(dtype)
        x = x[x.isfinite()]
        for model in (FLOATING["logit"], FLOATING["logit eps"], FLOATING["threshold"]):
            session = opbridge.export(model, (x,), verify=False, target="cuda").session()
            (found,) = exchange.run(session, {session.get_inputs()[0].name: x})
            torch.testing.assert_close(
                found, model(x.float()).to(dtype), rtol=torch.finfo(dtype).eps, atol=0, equal_nan=True
            )


@pytest.mark.parametrize("number", [0.3, -0.7, 7.5])
def test_a_remainder_of_half_precision_is_that_by_the_rounded_number(number: float) -> None:
    x = torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(torch.float16)
    for model in (lambda x: torch.fmod(x, number), lambda x: x % number):
        session = opbridge.export(model, (x,), verify=False).session()
        (found,) = exchange.run(session, {session.get_inputs()[0].name: x})
        torch.testing.assert_close(found, model(x), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8], ids=str)
def test_integer(dtype: torch.dtype) -> None:
    value = torch.tensor([0, 1, 2, 3, 7, 40, 100] if dtype == torch.uint8 else [0, 1, -1, 2, -3, 7, 100], dtype=dtype)
    assert_all_match(accepted(INTEGER, value), value, others=[(value.flip(0) + 2,)])


def test_boolean() -> None:
    value = torch.tensor([True, False, True])
    assert_all_match({name: FLOATING[name] for name in BOOLEAN}, value, others=[(~value,)])


def test_small_numbers_keep_their_digits() -> None:
    value = torch.tensor([1e-10, -1e-9, 3e-8, 1e-5, -0.3, 0.9])
    assert_matches(lambda x: (torch.log1p(x), torch.expm1(x)), value, rtol=2e-6, atol=0.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_binary(dtype: torch.dtype) -> None:
    x, y = pairs(dtype)
    others = [(torch.randn(20, 1, dtype=dtype), torch.randn(1, 20, dtype=dtype))]
    assert_all_match(BINARY, x, y, others=others)


def test_binary_half() -> None:
    x, y = torch.randn(2, 30, 1, dtype=torch.float16), torch.randn(2, 1, 30, dtype=torch.float16)
    names = ("logaddexp", "logaddexp2", "lerp", "addcmul", "addcdiv", "hypot", "xlogy")
    assert_all_match({name: BINARY[name] for name in names}, x, y, others=[(torch.randn_like(x), torch.randn_like(y))])


def test_binary_integer() -> None:
    x, y = torch.tensor([0, 1, -1, 5])[:, None], torch.tensor([0, 3, -2, 7])
    table = {name: BINARY[name] for name in ("atan2", "copysign", "xlogy", "heaviside")}
    assert_all_match(table, x, y, others=[(torch.randint(-5, 5, (4, 1)), torch.randint(-5, 5, (4,)))])


def test_the_sign_of_a_sum_of_negative_zeros() -> None:
    """It is 0.0 in PyTorch, and -0.0 in ONNX Runtime."""

    def model(y: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        total = x.sum(1)
        return torch.atan2(y, total), torch.copysign(y, total), torch.signbit(total), torch.atan2(y.double(), total)

    y, x = torch.tensor([0.0, -0.0, 1.0, 0.0]), torch.full((4, 3), -0.0)
    x[3, 0] = -1.0
    for dtype in (torch.float32, torch.float16):
        assert_matches(model, y.to(dtype), x.to(dtype), others=[(y.neg().to(dtype), x.neg().to(dtype))])


def test_frexp() -> None:
    value = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, 3.7, -1e-6, 1e30, 1e-38, 2.0**-126, 0.9999999, 4.0, 2.0**127])
    assert_matches(torch.frexp, value, others=[(torch.randn(13) * 100,)])
    assert_matches(torch.frexp, value.double(), others=[(torch.randn(13, dtype=torch.float64) * 1e-200,)])


def test_gcd_and_lcm() -> None:
    x = torch.tensor([0, 1, -4, 12, 270, 1071, -17, 2**40])[:, None]
    y = torch.tensor([0, 6, -8, 18, 192, 462, 2**35])
    assert_matches(lambda a, b: (torch.gcd(a, b), torch.lcm(a, b)), x, y, others=[(x + 5, y * 3)])
    assert_matches(lambda a, b: (torch.gcd(a, b), torch.lcm(a, b)), x[:-1].int(), y[:-1].int())


def test_pointwise_in_a_dynamic_batch() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.nan_to_num(torch.logit(x, 0.1)) + torch.frac(x * 3) + torch.lerp(x, x * 2, 0.4)

    batch = torch.export.Dim("batch")
    for opset in (18, 23):
        assert_matches(
            model,
            torch.randn(3, 4),
            others=[(torch.randn(7, 4),), (torch.randn(2, 4),)],
            dynamic_shapes={"x": {0: batch}},
            opset_version=opset,
        )
