"""Samples of distributions: their moments and, by a test of Kolmogorov and Smirnov, their shapes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.distributions as distributions
from helpers.running import run

import opbridge

N = 20_000


def drawn(function, *args: torch.Tensor, opset: int = 18) -> np.ndarray:
    program = opbridge.export(function, args, opset_version=opset, verify=False)
    (result,) = run(program, args)
    return np.asarray(result)


def assert_same_distribution(samples: np.ndarray, expected: np.ndarray) -> None:
    """That two samples come from one distribution, which a fair test says wrongly once in a million times."""
    samples, expected = np.sort(samples.ravel()), np.sort(expected.ravel())
    values = np.concatenate([samples, expected])
    shares = [np.searchsorted(each, values, side="right") / len(each) for each in (samples, expected)]
    bound = math.sqrt(math.log(2e6) / 2) * math.sqrt((len(samples) + len(expected)) / (len(samples) * len(expected)))
    assert np.abs(shares[0] - shares[1]).max() < bound


# At opset 18, ONNX Runtime's random operators; at 23, the same formulas of numbers made of random bits.


@pytest.mark.parametrize(
    ("shape", "opset"), [(0.05, 18), (0.5, 18), (1.0, 18), (3.0, 18), (200.0, 18), (0.5, 23), (3.0, 23)]
)
def test_gamma(shape, opset):
    alpha = torch.full((N,), shape)
    assert_same_distribution(drawn(torch._standard_gamma, alpha, opset=opset), torch._standard_gamma(alpha).numpy())


def test_gamma_of_zero_and_nan():
    result = drawn(torch._standard_gamma, torch.tensor([0.0, float("nan"), 2.0]))
    assert result[0] == torch.finfo(torch.float32).tiny
    assert np.isnan(result[1])
    assert result[2] > 0


def test_dirichlet():
    alpha = torch.tensor([0.5, 1.0, 4.0]).expand(N, 3).contiguous()
    result, expected = drawn(torch._sample_dirichlet, alpha), torch._sample_dirichlet(alpha).numpy()
    np.testing.assert_allclose(result.sum(-1), 1, rtol=1e-5)
    assert ((result > 0) & (result < 1)).all()
    for place in range(3):
        assert_same_distribution(result[:, place], expected[:, place])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "opset"), [(0.0, 18), (0.3, 18), (9.9, 18), (10.0, 18), (35.0, 18), (5000.0, 18), (9.9, 23), (35.0, 23)]
)
def test_poisson(rate, opset):
    rates = torch.full((N,), rate)
    result = drawn(torch.poisson, rates, opset=opset)
    assert (result == np.floor(result)).all()
    assert_same_distribution(result, torch.poisson(rates).numpy())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "chance"), [(0, 0.5), (10, 0.0), (10, 1.0), (10, 0.3), (40, 0.9), (100, 0.5), (1000, 0.02), (100000, 0.3)]
)
def test_binomial(count, chance):
    counts, chances = torch.full((N,), float(count)), torch.full((N,), chance)
    result = drawn(torch.binomial, counts, chances)
    assert ((result >= 0) & (result <= count)).all()
    assert_same_distribution(result, torch.binomial(counts, chances).numpy())


@pytest.mark.parametrize("function", [torch._standard_gamma, torch.poisson])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dtypes_and_shapes(function, dtype):
    for shape in ((), (0,), (1,), (2, 0, 3), (2, 3)):
        result = drawn(function, torch.ones(shape, dtype=dtype))
        assert result.shape == shape
        assert torch.from_numpy(np.array(result)).dtype == dtype


def test_numbers_of_a_generator():
    generator = torch.Generator()
    for function in (
        lambda x: x + torch.rand(N, generator=generator),
        lambda x: x + torch.randint(0, 2, (N,), generator=generator),
    ):
        result = drawn(function, torch.zeros(N))
        assert 0.45 < result.mean() < 0.55


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8, torch.int8, torch.bool])
def test_numbers_of_a_type(dtype):
    x = torch.zeros(N, dtype=dtype)
    result = drawn(lambda x: torch.zeros_like(x).random_().double() + x, x)
    expected = torch.zeros_like(x).random_().double().numpy()
    assert_same_distribution(result, expected)


SAMPLED = {
    "Bernoulli": lambda x: distributions.Bernoulli(x.sigmoid()).sample(),
    "Beta": lambda x: distributions.Beta(x.abs() + 1, x.abs() + 1).sample(),
    "Binomial": lambda x: distributions.Binomial(10, x.sigmoid()).sample(),
    "Categorical": lambda x: distributions.Categorical(logits=x).sample(),
    "Cauchy": lambda x: distributions.Cauchy(x, x.abs() + 1).sample(),
    "Dirichlet": lambda x: distributions.Dirichlet(x.abs() + 1).sample(),
    "Exponential": lambda x: distributions.Exponential(x.abs() + 1).sample(),
    "Gamma": lambda x: distributions.Gamma(x.abs() + 1, x.abs() + 1).sample((2,)),
    "LogNormal": lambda x: distributions.LogNormal(x, x.abs() + 1).sample(),
    "Multinomial": lambda x: distributions.Multinomial(10, logits=x).sample(),
    "Normal": lambda x: distributions.Normal(x, x.abs() + 1).rsample(),
    "Poisson": lambda x: distributions.Poisson(x.abs() + 1).sample(),
    "StudentT": lambda x: distributions.StudentT(x.abs() + 3).sample(),
    "Uniform": lambda x: distributions.Uniform(x, x + 1).sample(),
}


@pytest.fixture
def _validated():
    """Arguments are validated, as they are in a process that has not compiled anything."""
    kept = distributions.Distribution._validate_args
    distributions.Distribution.set_default_validate_args(True)
    yield
    distributions.Distribution.set_default_validate_args(kept)


@pytest.mark.usefixtures("_validated")
@pytest.mark.parametrize("name", SAMPLED)
def test_distributions_of_torch(name):
    """The validation of the arguments asks for truth values of tensors, which is no obstacle."""
    x = torch.randn(3, 4)
    assert drawn(SAMPLED[name], x).shape == tuple(SAMPLED[name](x).shape)
