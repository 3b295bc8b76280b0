"""Eigenvalues and eigenvectors of Hermitian matrices."""

from __future__ import annotations

import pytest
import torch
from helpers.matching import assert_matches


def _hermitian(*sizes: int, dtype: torch.dtype = torch.complex64) -> torch.Tensor:
    x = torch.randn(*sizes, sizes[-1], dtype=dtype)
    return x + x.mH


def _composed(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What does not depend on the eigenvectors that are chosen."""
    values, vectors = torch.linalg.eigh(x)
    return values, (vectors * values.unsqueeze(-2)) @ vectors.mH, vectors.mH @ vectors


def _degenerate(size: int) -> torch.Tensor:
    """Two matrices of equal eigenvalues: of rank 1, and a multiple of the identity."""
    x = torch.randn(size, 1, dtype=torch.complex64)
    return torch.stack([x @ x.mH, 3 * torch.eye(size, dtype=torch.complex64)])


@pytest.mark.slow
def test_matrices_of_any_size():
    others = [(x,) for x in (_hermitian(1, 2), _hermitian(3, 1), _hermitian(2, 9), _degenerate(5), _degenerate(4) * 0)]
    shapes = ({0: "batch", 1: "n", 2: "n"},)
    assert_matches(_composed, _hermitian(2, 4), others=others, dynamic_shapes=shapes, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("triangle", ["L", "U"])
def test_eigenvectors_are_those_of_pytorch_but_for_the_sign(triangle):
    """One triangle is read, and of the diagonal the real parts."""

    def with_sign(x):
        vectors = torch.linalg.eigh(x, UPLO=triangle)[1]
        row = vectors[..., :1, :] if triangle == "L" else vectors[..., -1:, :]
        return vectors * row.real.sign()

    x = torch.randn(2, 4, 4, dtype=torch.complex64)
    program = assert_matches(with_sign, x, rtol=1e-4, atol=1e-4)
    assert any("in sign" in each for each in program.plan.notes)


@pytest.mark.parametrize("triangle", ["L", "U"])
def test_eigenvalues_alone(triangle):
    assert_matches(lambda x: torch.linalg.eigvalsh(x, UPLO=triangle), _hermitian(3, dtype=torch.complex128))
    assert_matches(lambda x: torch.linalg.eigvalsh(x, UPLO=triangle), torch.randn(0, 3, 3, dtype=torch.complex64))
