"""Equations, inverses and factorisations of matrices."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.matching import assert_matches
from helpers.tables import assert_all_match
from torch.export import Dim

import opbridge

linalg = torch.linalg


def matrices(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype)


def definite(*batch: int, size: int = 4, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    root = matrices(*batch, size, size, dtype=dtype)
    return root @ root.mT + torch.eye(size, dtype=dtype)


SQUARE = {
    "inverse": lambda a, b: (linalg.inv(a), torch.inverse(a), *linalg.inv_ex(a)),
    "equations": lambda a, b: (linalg.solve(a, b), linalg.solve(a, b[..., 0]), *linalg.solve_ex(a, b)),
    "equations on the right": lambda a, b: linalg.solve(a, b.mT, left=False),
    "determinant": lambda a, b: (linalg.det(a), *linalg.slogdet(a), torch.logdet(a @ a.mT), torch.det(a)),
    "lower": lambda a, b: (
        linalg.solve_triangular(a, b, upper=False),
        linalg.solve_triangular(a, b, upper=False, unitriangular=True),
        linalg.solve_triangular(a, b.mT, upper=False, left=False),
    ),
    "upper": lambda a, b: (
        linalg.solve_triangular(a, b, upper=True),
        linalg.solve_triangular(a, b.mT, upper=True, left=False, unitriangular=True),
        torch.triangular_solve(b, a, transpose=True)[0],
    ),
    "lu": lambda a, b: (*linalg.lu(a), *linalg.lu_factor(a), *linalg.lu(a[..., :3]), *linalg.lu(b)),
    "lu unpacked": lambda a, b: torch.lu_unpack(*linalg.lu_factor(a)),
    "lu solved": lambda a, b: (
        linalg.lu_solve(*linalg.lu_factor(a), b),
        linalg.lu_solve(*linalg.lu_factor(a), b.mT, left=False),
        linalg.lu_solve(*linalg.lu_factor(a), b, adjoint=True),
        linalg.lu_solve(*linalg.lu_factor(a), b.mT, left=False, adjoint=True),
    ),
    "qr": lambda a, b: (*linalg.qr(a), *linalg.qr(b), *linalg.qr(b, mode="complete"), linalg.qr(b.mT)[1]),
    "qr r": lambda a, b: linalg.qr(b, mode="r")[1],
    "powers": lambda a, b: (linalg.matrix_power(a, -2), linalg.matrix_power(a, 3), linalg.matrix_power(a, 0)),
    "reflections": lambda a, b: linalg.householder_product(b, b[..., 0, :]),
    "tensors": lambda a, b: linalg.tensorsolve(a, b[..., 0]) if a.ndim == 2 else a,
}

DEFINITE = {
    "cholesky": lambda a, b: (linalg.cholesky(a), linalg.cholesky(a, upper=True), *linalg.cholesky_ex(a)),
    "solved": lambda a, b: (
        torch.cholesky_solve(b, linalg.cholesky(a)),
        torch.cholesky_solve(b, linalg.cholesky(a, upper=True), upper=True),
    ),
    "inverse": lambda a, b: (
        torch.cholesky_inverse(linalg.cholesky(a)),
        torch.cholesky_inverse(linalg.cholesky(a, upper=True), upper=True),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("batch", [(), (2, 3)], ids=str)
def test_square(batch: tuple[int, ...]) -> None:
    inputs = [(matrices(*batch, 4, 4), matrices(*batch, 4, 2)) for _ in range(3)]
    assert_all_match(SQUARE, *inputs[0], others=inputs[1:], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("batch", [(), (2, 3)], ids=str)
def test_definite(batch: tuple[int, ...]) -> None:
    assert_all_match(DEFINITE, definite(*batch), matrices(*batch, 4, 2), rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("opset", [18, 23])
def test_single_precision(opset: int) -> None:
    single = torch.float32
    safe = matrices(4, 4, dtype=single) + 4 * torch.eye(4)
    assert_all_match(SQUARE, safe, matrices(4, 2, dtype=single), rtol=1e-3, atol=1e-4, opset_version=opset)
    assert_all_match(DEFINITE, definite(dtype=single), matrices(4, 2, dtype=single), rtol=1e-3, atol=1e-3)


def test_batches_that_are_repeated() -> None:
    table = {
        "equations": lambda a, b: linalg.solve(a, b[None]),
        "triangle": lambda a, b: linalg.solve_triangular(a, b, upper=True),
        "factors": lambda a, b: linalg.lu_solve(*linalg.lu_factor(a[0]), b[None]),
    }
    assert_all_match(table, matrices(3, 4, 4), matrices(4, 2), rtol=1e-8, atol=1e-8)


@pytest.mark.slow
def test_any_batch_and_size() -> None:
    batch, size = Dim("batch"), Dim("size", min=2, max=64)

    def inputs(batch: int, size: int) -> tuple[torch.Tensor, ...]:
        return definite(batch, size=size), matrices(batch, size, 2)

    def model(a: torch.Tensor, b: torch.Tensor) -> Any:
        return linalg.inv(a), linalg.solve(a, b), linalg.cholesky(a), linalg.slogdet(a), linalg.qr(a)

    shapes = ({0: batch, 1: size, 2: size}, {0: batch, 1: size})
    others = [inputs(2, 7), inputs(5, 2)]
    assert_matches(model, *inputs(3, 4), dynamic_shapes=shapes, others=others, rtol=1e-7, atol=1e-7)


@pytest.mark.slow
def test_pivots_that_are_zero() -> None:
    singular = torch.tensor([[0.0, 1.0], [0.0, 2.0]], dtype=torch.float64)
    table = {
        "info": lambda a: (linalg.inv_ex(a)[1], linalg.lu_factor_ex(a)[2], linalg.cholesky_ex(a)[1]),
        "lu": lambda a: linalg.lu(a),
        "determinant": lambda a: (linalg.det(a), *linalg.slogdet(a)),
        "swapped": lambda a: linalg.inv(a.flip(0) + torch.tensor([[0, 0], [1.0, 0]])),
    }
    assert_all_match(table, singular)


def test_nothing() -> None:
    table = {
        "inverse": lambda a: linalg.inv_ex(a),
        "cholesky": lambda a: linalg.cholesky_ex(a),
        "equations": lambda a: linalg.solve(a, a),
    }
    assert_all_match(table, matrices(0, 0))
    assert_all_match(table, matrices(0, 3, 3))


def test_no_pivots_is_refused() -> None:
    with pytest.raises(opbridge.MissingOperators, match="pivots"):
        opbridge.export(lambda a: linalg.lu(a, pivot=False)[1:], (matrices(3, 3),), verify=False)
