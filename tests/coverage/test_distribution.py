"""Random outputs: those of one distribution pass, others do not."""

from __future__ import annotations

import pytest
import torch

from opbridge.coverage.distribution import difference


def told_apart(left, right, **options):
    generator = torch.Generator().manual_seed(1000)

    def expected(seed):
        return [left(torch.Generator().manual_seed(seed))]

    return difference(expected, lambda: [right(generator)], **options)


def normal(mean=0.0, std=1.0, shape=(10,)):
    return lambda generator: torch.randn(shape, generator=generator) * std + mean


def mask(p, scale=1.0):
    return lambda generator: (torch.rand(20, generator=generator) < p) * torch.arange(1.0, 21) * scale


def blocks(p):
    return lambda generator: (torch.rand(4, 1, generator=generator) < p).float().expand(4, 50)


def geometric(start):
    return lambda generator: start + torch.floor(torch.rand(10, generator=generator).log() / -0.7)


@pytest.mark.parametrize(
    "draw",
    [
        normal(),
        normal(shape=()),
        normal(torch.arange(10.0) * 100, 0.1),
        mask(0.3),
        blocks(0.5),
        geometric(0),
        lambda generator: torch.randperm(8, generator=generator),
        lambda generator: torch.randint(0, 5, (6,), generator=generator),
        lambda generator: torch.randn(5, generator=generator, dtype=torch.complex64),
        lambda generator: torch.randn(3, generator=generator) / torch.randn(3, generator=generator),
        lambda generator: torch.where(torch.rand(9, generator=generator) < 0.5, torch.inf, torch.nan),
        lambda generator: torch.rand(0, generator=generator),
    ],
)
def test_one_distribution(draw):
    assert told_apart(draw, draw) == ""


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (normal(), normal(0.5)),
        (normal(), normal(std=1.5)),
        (normal(shape=(100,)), normal(0.15, shape=(100,))),
        (normal(torch.arange(10.0), 0.1), normal(torch.arange(10.0).flip(0), 0.1)),
        (mask(0.3), mask(0.5)),
        (mask(0.3), mask(0.3, 1.01)),
        (blocks(0.5), blocks(0.9)),
        (geometric(0), geometric(1)),
        (mask(0.3), mask(0.4)),
        (normal(), lambda generator: torch.zeros(10)),
        (lambda generator: torch.randperm(8, generator=generator), lambda generator: torch.arange(8)),
    ],
)
def test_two_distributions(left, right):
    assert told_apart(left, right)


def test_rounding_does_not_tell_apart():
    assert told_apart(mask(0.3), mask(0.3, 1 + 1e-7)) == ""


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rounding_of_narrow_types(dtype):
    def narrow(draw, scale=1.0):
        return lambda generator: (draw(generator) * scale).to(dtype)

    eps = torch.finfo(dtype).eps
    assert told_apart(narrow(mask(0.3)), narrow(mask(0.3), 1 + eps)) == ""
    assert told_apart(narrow(normal()), narrow(normal(), 1 + eps)) == ""
    assert told_apart(narrow(mask(0.3)), narrow(mask(0.3), 1 + 9 * eps))
    assert told_apart(narrow(normal()), narrow(normal(0.5)))
    assert told_apart(narrow(normal(shape=(100,))), narrow(normal(0.3, shape=(100,))))
    assert told_apart(narrow(mask(0.3)), narrow(mask(0.5)))


def test_values_that_came_through_a_narrow_type():
    assert told_apart(mask(0.3), mask(0.3, 1.001))
    assert told_apart(mask(0.3), mask(0.3, 1.001), precision=torch.float16) == ""


def test_whole_numbers_are_not_rounded():
    def drawn(most):
        return lambda generator: torch.randint(998, most, (6,), generator=generator)

    assert told_apart(drawn(1001), drawn(1001), precision=torch.float16) == ""
    assert told_apart(drawn(1001), drawn(1000), precision=torch.float16)
