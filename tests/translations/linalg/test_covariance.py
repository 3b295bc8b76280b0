"""Covariance and correlation."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches

import opbridge

COUNTS, SHARES = torch.tensor([1, 2, 1, 4, 0, 2]), torch.tensor([0.5, 1.0, 0.1, 2.0, 3.0, 0.0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
@pytest.mark.parametrize("correction", [0, 1, 2])
def test_cov(dtype: torch.dtype, correction: int) -> None:
    x = (torch.randn(3, 6) * 5).to(dtype)
    shares = SHARES.to(dtype) if dtype.is_floating_point else SHARES

    def covariances(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            torch.cov(x, correction=correction),
            torch.cov(x, correction=correction, fweights=COUNTS),
            torch.cov(x, correction=correction, aweights=shares),
            torch.cov(x, correction=correction, fweights=COUNTS, aweights=shares),
            torch.cov(x[0], correction=correction),
            torch.cov(x[:1], correction=correction),
        )

    assert_matches(covariances, x, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves(dtype: torch.dtype) -> None:
    def several(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            torch.cov(x),
            torch.cov(x, aweights=SHARES.to(dtype)),
            torch.cov(x, fweights=COUNTS, aweights=SHARES),  # of float32
            torch.corrcoef(x),
        )

    program = opbridge.export(several, (torch.randn(3, 6).to(dtype),))
    assert program.verification is not None and program.verification.ok


def test_cov_of_few_observations() -> None:
    assert_matches(lambda x: (torch.cov(x), torch.cov(x[:, :1])), torch.randn(2, 2), rtol=1e-5, atol=1e-6)
    assert_matches(lambda x: torch.cov(x, correction=5), torch.randn(2, 3))
    assert_matches(torch.cov, torch.tensor(3.0))
    assert_matches(torch.cov, torch.tensor([[1.0, float("nan")], [2.0, 3.0]]))


def test_corrcoef() -> None:
    assert_matches(
        lambda x: (torch.corrcoef(x), torch.corrcoef(x[0]), torch.corrcoef(x[:1])), torch.randn(3, 6),
        rtol=1e-4, atol=1e-5,
    )  # fmt: skip
    assert_matches(torch.corrcoef, torch.randn(4, 3).double())
    others = [[torch.randn(2, 9)]]
    program = assert_matches(
        torch.corrcoef, torch.randn(3, 6), others=others, dynamic_shapes="auto", rtol=1e-4, atol=1e-5
    )
    assert any("shape[0] >= 2" in note for note in program.plan.notes)
