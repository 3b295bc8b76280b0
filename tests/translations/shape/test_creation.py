"""Tensors made from sizes, and the random ones by their statistics."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from helpers.matching import assert_matches
from helpers.tables import assert_all_match

import opbridge

LIKE = {
    "zeros": lambda x: (
        torch.zeros_like(x),
        x.new_zeros(2, 3),
        torch.zeros_like(x, dtype=torch.int64),
        x.new_zeros(()),
    ),
    "ones": lambda x: (
        torch.ones_like(x),
        x.new_ones(2),
        torch.ones_like(x, dtype=torch.bool),
        x.new_ones((), dtype=torch.int32),
    ),
    "full": lambda x: (torch.full_like(x, 2), x.new_full((2, 2), 3), torch.full_like(x, 1.5, dtype=torch.float64)),
    "empty": lambda x: (torch.empty_like(x).zero_(), x.new_empty(2, 3).fill_(1), torch.empty(2, x.shape[0]).fill_(2.5)),
    "eye": lambda x: (torch.eye(x.shape[0]), torch.eye(x.shape[0], 4), torch.eye(2, x.shape[0], dtype=torch.int64)),
    "full of a size": lambda x: (
        torch.full((x.shape[0],), True),
        torch.full((x.shape[0], 2), 7),
        torch.full((x.shape[0],), 0.1),
    ),
    "arange": lambda x: (torch.arange(x.shape[0]), torch.arange(2, x.shape[0] + 3, 2), torch.arange(x.shape[0], 0, -2)),
    "arange of floats": lambda x: (
        torch.arange(0.5, x.shape[0], 0.3),
        torch.arange(x.shape[0], dtype=torch.float32),
        torch.arange(0, x.shape[0], 0.25, dtype=torch.float64),
    ),
    "indices": lambda x: (
        torch.tril(torch.ones(x.shape[0], x.shape[0])),
        torch.tril_indices(3, 4, 1),
        torch.triu_indices(4, 3),
    ),
    "constants": lambda x: (
        torch.linspace(0, 1, 7) + x[0, 0],
        torch.logspace(0, 2, 5) * x[0, 0],
        torch.tensor([1.5, 2.5]),
    ),
    "vander": lambda x: (
        torch.linalg.vander(x),
        torch.linalg.vander(x, N=3),
        torch.vander(x[0]),
        torch.vander(x[0], 3, True),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("opset", [18, 21])
def test_creation_by_dynamic_sizes(opset: int) -> None:
    assert_all_match(
        LIKE,
        torch.randn(5, 4),
        others=[(torch.randn(2, 4),), (torch.randn(8, 4),)],
        dynamic_shapes={"x": {0: torch.export.Dim("batch", min=2)}},
        opset_version=opset,
    )


@pytest.mark.parametrize("dtype", [torch.int64, torch.float16, torch.float64, torch.bool], ids=str)
def test_creation_in_other_types(dtype: torch.dtype) -> None:
    table = {name: LIKE[name] for name in ("zeros", "ones", "full", "empty")}
    assert_all_match(table, torch.ones(3, 4).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64], ids=str)
def test_even_numbers_between_tensors(dtype: torch.dtype) -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            torch.linspace(x, y, 7, dtype=dtype),
            torch.linspace(x, 5.5, 1, dtype=dtype),
            torch.linspace(-3.0, y, 4, dtype=dtype),
            torch.logspace(x, y, 4, base=2.0, dtype=dtype),
        )

    assert_matches(model, torch.tensor(-1.5), torch.tensor(9.0), others=[(torch.tensor(4.0), torch.tensor(1.0))])


RANDOM: dict[str, tuple[Callable, float, float]] = {
    "rand": (lambda x: torch.rand(x.shape) + x, 0.5, 12**-0.5),
    "rand double": (lambda x: torch.rand(x.shape, dtype=torch.float64) + x, 0.5, 12**-0.5),
    "rand_like half": (lambda x: torch.rand_like(x, dtype=torch.float16).float(), 0.5, 12**-0.5),
    "randn": (lambda x: torch.randn(x.shape) + x, 0.0, 1.0),
    "randn_like": (lambda x: torch.randn_like(x), 0.0, 1.0),
    "randint": (lambda x: torch.randint(3, 9, x.shape), 5.5, math.sqrt(35 / 12)),
    "randint_like": (lambda x: torch.randint_like(x, 7), 3.0, 2.0),
    "randint_like low": (lambda x: torch.randint_like(x, -2, 7), 2.0, math.sqrt(80 / 12)),
    "random_": (lambda x: x.clone().random_(10), 4.5, math.sqrt(99 / 12)),
    "uniform_": (lambda x: x.clone().uniform_(-1, 3), 1.0, 4 * 12**-0.5),
    "normal": (lambda x: torch.normal(x + 1, x + 2), 1.0, 2.0),
    "normal of a number": (lambda x: torch.normal(3.0, x + 2), 3.0, 2.0),
    "normal by a number": (lambda x: torch.normal(x, 2.0), 0.0, 2.0),
    "normal_": (lambda x: x.clone().normal_(1, 2), 1.0, 2.0),
    "bernoulli": (lambda x: torch.bernoulli(x + 0.3), 0.3, math.sqrt(0.21)),
    "bernoulli of a number": (lambda x: torch.bernoulli(x, 0.3), 0.3, math.sqrt(0.21)),
    "bernoulli_": (lambda x: x.clone().bernoulli_(0.8), 0.8, 0.4),
    "exponential_": (lambda x: x.clone().exponential_(2.0), 0.5, 0.5),
    "geometric_": (lambda x: x.clone().geometric_(0.3), 1 / 0.3, math.sqrt(0.7) / 0.3),
    "log_normal_": (lambda x: x.clone().log_normal_(0.3, 0.5), 1.5296, 0.8152),
    "randperm": (lambda x: torch.randperm(20000).view(x.shape), 9999.5, 5773.5),
    "multinomial": (lambda x: torch.multinomial(x[:, :3] + torch.tensor([0.1, 0.0, 0.9]), 200, True), 1.8, 0.6),
    "multinomial without replacement": (
        lambda x: torch.multinomial(x[0, :4].repeat(5000, 1) + torch.tensor([0.0, 1.0, 2.0, 1.0]), 2)[:, 0],
        2.0,
        math.sqrt(0.5),
    ),
}


@pytest.mark.parametrize("opset", [18, 23])
def test_random_numbers(opset: int) -> None:
    x = torch.zeros(100, 200)
    program = opbridge.export(
        lambda x: [function(x) for function, _, _ in RANDOM.values()], (x,), verify=False, opset_version=opset
    )
    session = program.session()
    feed = {session.get_inputs()[0].name: x.numpy()}
    first, second = session.run(None, feed), session.run(None, feed)
    for name, one, other in zip(RANDOM, first, second, strict=True):
        _, mean, deviation = RANDOM[name]
        count = math.sqrt(one.size)
        assert abs(one.mean(dtype=np.float64) - mean) < 5 * deviation / count, name
        assert abs(one.std(dtype=np.float64) / deviation - 1) < 0.06, name
        assert not np.array_equal(one, other), name


def test_random_numbers_keep_their_bounds() -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.rand_like(x), torch.randint_like(x, 3), torch.randperm(50) + x[0, 0], torch.rand_like(x).half()

    for opset in (18, 23):
        program = opbridge.export(model, (torch.zeros(100, 100),), verify=False, opset_version=opset)
        session = program.session()
        feed = {session.get_inputs()[0].name: np.zeros((100, 100), np.float32)}
        rand, randint, randperm, half = session.run(None, feed)
        assert rand.min() >= 0 and rand.max() < 1
        assert sorted(set(randint.ravel())) == [0, 1, 2]
        assert sorted(randperm) == list(range(50))
        assert half.dtype == np.float16


def test_random_numbers_of_a_dynamic_size() -> None:
    batch = torch.export.Dim("batch", min=2)
    program = opbridge.export(
        lambda x: (torch.rand(x.shape[0], 3), torch.randn_like(x), torch.randint(0, 5, (x.shape[0],))),
        (torch.zeros(5, 3),),
        dynamic_shapes={"x": {0: batch}},
        verify=False,
    )
    session = program.session()
    outputs = session.run(None, {session.get_inputs()[0].name: np.zeros((7, 3), np.float32)})
    assert [output.shape for output in outputs] == [(7, 3), (7, 3), (7,)]


_BOUNDS = [(8.5,), (1.5, 8.2), (1.7, 8.2, 1.5), (0.0, 8.0, 2.5), (8.5, 0.2, -2.5), (-3.5, 3.5, 1.0)]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int16, torch.float32, torch.float16, None], ids=str)
def test_arange_by_fractions_of_data(dtype: torch.dtype | None) -> None:
    def model(*bounds: torch.Tensor) -> list[torch.Tensor]:
        found = iter(bound.item() for bound in bounds)
        # torch 2.13 and 2.14 take no step of data beside a start and an end of data.
        return [torch.arange(*(next(found) for _ in given[:2]), *given[2:], dtype=dtype) for given in _BOUNDS]

    assert_matches(model, *(torch.tensor(bound, dtype=torch.float64) for given in _BOUNDS for bound in given[:2]))


def test_a_tensor_as_the_number_of_a_scalar_tensor() -> None:
    assert_matches(
        lambda y, x: (torch.full((), y), x.new_full((), y), torch.full_like(x, y), x.clone().fill_(y)),
        torch.tensor(2.5),
        torch.tensor(1.0),
        others=[(torch.tensor(-3.5), torch.tensor(2.0))],
    )


def test_numbers_of_the_default_dtype() -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        size, whole = x.shape[0], x.to(torch.int64)
        return (
            torch.full((size,), 0.1),
            torch.arange(0.1, size, 0.3),
            torch.scalar_tensor(size / 3),
            torch.where(x > 0, 0.1, 0.2),
            torch.where(x > 0, whole, 0.1),
            torch.special.i0(whole),
        )

    torch.set_default_dtype(torch.float64)
    try:
        assert_matches(
            model,
            torch.randn(5),
            others=[(torch.randn(3),)],
            dynamic_shapes=({0: torch.export.Dim("n")},),
            rtol=1e-12,
            atol=1e-12,
        )
    finally:
        torch.set_default_dtype(torch.float32)
