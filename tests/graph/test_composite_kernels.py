"""Operators whose kernel is made of others, which torch has no entry for in its table of decompositions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.ao.quantization.fx._decomposed
from helpers.matching import assert_matches

import opbridge

aten = torch.ops.aten


def some(*shape: int) -> torch.Tensor:
    return torch.randn(shape)


def pair(function: Any) -> Any:
    return lambda x, y: function([x, y], [y, x])


POINTWISE = (
    "abs",
    "ceil",
    "cos",
    "erf",
    "exp",
    "expm1",
    "floor",
    "frac",
    "neg",
    "round",
    "sigmoid",
    "sign",
    "sin",
    "tanh",
)

CASES: dict[str, tuple[Any, tuple[torch.Tensor, ...]]] = {
    "_is_all_true": (lambda x: aten._is_all_true(x > 0), (some(3, 4),)),
    "_is_all_true, of none": (lambda x: aten._is_all_true(x > 0), (some(0),)),
    "_is_any_true": (lambda x: aten._is_any_true(x > 0), (some(3, 4),)),
    "_is_any_true, of none": (lambda x: aten._is_any_true(x > 0), (some(0),)),
    "_foreach_add.List": (pair(torch._foreach_add), (some(3), some(3))),
    "_foreach_sub.List, alpha": (lambda x, y: torch._foreach_sub([x], [y], alpha=2), (some(3), some(3))),
    "_foreach_mul.Scalar": (lambda x, y: torch._foreach_mul([x, y], 2.5), (some(3), some(2, 2))),
    "_foreach_div.ScalarList": (lambda x, y: torch._foreach_div([x, y], [2.0, 3.0]), (some(3), some(2, 2))),
    "_foreach_mul.Tensor": (lambda x, y: torch._foreach_mul([x], y), (some(3), some())),
    "_foreach_addcmul.ScalarList": (lambda x, y: torch._foreach_addcmul([x], [y], [x], [2.0]), (some(3), some(3))),
    "_foreach_addcdiv.Scalar": (lambda x, y: torch._foreach_addcdiv([x], [y], [x.exp()], 2.0), (some(3), some(3))),
    "_foreach_lerp.Scalar": (lambda x, y: torch._foreach_lerp([x], [y], 0.3), (some(3), some(3))),
    "_foreach_maximum.List": (pair(torch._foreach_maximum), (some(3), some(3))),
    "_foreach_clamp_min.Scalar": (lambda x, y: torch._foreach_clamp_min([x, y], 0.1), (some(3), some(2))),
    "_foreach_norm.Scalar": (lambda x, y: torch._foreach_norm([x, y]), (some(3), some(2, 2))),
    "_foreach_max": (lambda x, y: torch._foreach_max([x, y]), (some(3), some(2, 2))),
    "_foreach_pow.Scalar": (lambda x, y: torch._foreach_pow([x, y], 2.0), (some(3), some(2))),
    **{
        f"_foreach_{name}": (lambda x, y, name=name: getattr(torch, f"_foreach_{name}")([x, y]), (some(3), some(2, 2)))
        for name in POINTWISE
    },
    "hann_window.periodic": (lambda x: x * torch.hann_window(x.shape[0], periodic=False), (some(8),)),
    "kaiser_window.beta": (lambda x: x * torch.kaiser_window(x.shape[0], True, 9.0), (some(8),)),
    "fft_fftfreq": (lambda x: x * torch.fft.fftfreq(x.shape[0]), (some(8),)),
    "range.step": (lambda x: x + aten.range.step(0, 7, 1), (some(8),)),
}

DYNAMIC = {
    "_foreach_exp": lambda x: torch._foreach_exp([x, x * 2])[1],
    "_is_all_true": lambda x: aten._is_all_true(x < 100),
}


@pytest.mark.parametrize("name", CASES)
def test_same_as_eager(name):
    function, inputs = CASES[name]
    program = assert_matches(function, *inputs)
    assert all(row.route in ("standard", "function") for row in program.plan.rows)


@pytest.mark.parametrize("name", DYNAMIC)
def test_any_size(name):
    others = [(some(count),) for count in (2, 5, 13)]
    shapes = ({0: torch.export.Dim("length")},)
    assert_matches(DYNAMIC[name], some(8), dynamic_shapes=shapes, others=others, rtol=1e-4, atol=1e-5)


def test_operators_of_users_stay_whole():
    """What a user registers in one piece is for a kernel of the user's."""
    with torch.library._scoped_library("opbridge_tests_composite", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        with pytest.raises(opbridge.MissingOperators, match="opbridge_tests_composite::twice"):
            opbridge.export(lambda x: torch.ops.opbridge_tests_composite.twice(x), (some(3),))
