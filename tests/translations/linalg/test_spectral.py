"""Singular values, eigenvalues and functions of matrices.

Singular vectors and eigenvectors are compared by what does not depend on their signs: the products that they make up.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.matching import assert_matches
from torch.export import Dim

import opbridge

SHAPES = [(4, 3), (3, 4), (5, 5), (1, 1), (2, 7, 4), (1, 6), (6, 1), (0, 3), (3, 0), (2, 0, 0)]
SQUARES = [(3, 3), (1, 1), (2, 6, 6), (0, 0)]
VECTORS = {"rtol": 1e-4, "atol": 1e-4}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_singular_values(shape):
    assert_matches(torch.linalg.svdvals, torch.randn(shape), others=[(torch.randn(shape),)])


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_singular_vectors(shape):
    def reduced(x: torch.Tensor) -> Any:
        left, values, right = torch.linalg.svd(x, full_matrices=False)
        return (left * values.unsqueeze(-2)) @ right, values, left.mT @ left, right @ right.mT

    def full(x: torch.Tensor) -> Any:
        left, values, right = torch.linalg.svd(x)
        return values, left.mT @ left, right @ right.mT

    for model in (reduced, full):
        assert_matches(model, torch.randn(shape), others=[(torch.zeros(shape),), (torch.ones(shape),)], **VECTORS)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_singular_values_of_any_size(dtype):
    shapes = ({0: Dim("batch"), 1: Dim("rows"), 2: Dim("columns")},)
    others = [(torch.randn(2, 3, 9, dtype=dtype),), (torch.randn(1, 1, 1, dtype=dtype),)]
    assert_matches(torch.linalg.svdvals, torch.randn(3, 6, 4, dtype=dtype), dynamic_shapes=shapes, others=others)


@pytest.mark.slow
def test_singular_vectors_where_the_run_tells_the_longer_side():
    def reduced(x: torch.Tensor) -> Any:
        left, values, right = torch.linalg.svd(x, full_matrices=False)
        return (left * values.unsqueeze(-2)) @ right, values, left.mT @ left, right @ right.mT

    shapes = ({0: Dim("batch"), 1: Dim("rows"), 2: Dim("columns")},)
    sizes = [(2, 3, 9), (3, 9, 3), (1, 5, 5), (2, 1, 4), (2, 4, 1)]
    others = [(make(size),) for size in sizes for make in (torch.randn, torch.zeros, torch.ones)]
    assert_matches(reduced, torch.randn(3, 6, 4), dynamic_shapes=shapes, others=others, **VECTORS)


@pytest.mark.slow
def test_all_singular_vectors_need_to_know_the_longer_side():
    shapes = ({0: Dim("rows"), 1: Dim("columns")},)
    with pytest.raises(opbridge.MissingOperators, match="more rows or more columns"):
        opbridge.export(lambda x: torch.linalg.svd(x)[0], (torch.randn(6, 4),), dynamic_shapes=shapes)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SQUARES, ids=str)
@pytest.mark.parametrize("triangle", ["L", "U"])
def test_eigenvalues(shape, triangle):
    def vectors(x: torch.Tensor) -> Any:
        values, vectors = torch.linalg.eigh(x, UPLO=triangle)
        return values, (vectors * values.unsqueeze(-2)) @ vectors.mT, vectors.mT @ vectors

    assert_matches(lambda x: torch.linalg.eigvalsh(x, UPLO=triangle), torch.randn(shape))
    assert_matches(vectors, torch.randn(shape), others=[(torch.zeros(shape),), (torch.ones(shape),)], **VECTORS)


def test_eigenvalues_in_double():
    assert_matches(torch.linalg.eigvalsh, torch.randn(7, 7, dtype=torch.float64))
    assert_matches(torch.linalg.eigvalsh, torch.diag(torch.tensor([3.0, 1.0, 1.0, -2.0])))


@pytest.mark.slow
@pytest.mark.parametrize(
    "function",
    [
        torch.linalg.pinv,
        lambda x: torch.linalg.pinv(x, atol=0.5),
        lambda x: torch.linalg.pinv(x, rtol=0.2),
        lambda x: torch.linalg.pinv(x.mT @ x + torch.eye(3), hermitian=True),
        torch.linalg.matrix_rank,
        torch.linalg.cond,
        lambda x: torch.linalg.matrix_norm(x, "nuc"),
        lambda x: torch.linalg.matrix_norm(x, 2),
        lambda x: torch.linalg.matrix_norm(x, -2),
    ],
)
def test_functions_of_singular_values(function):
    assert_matches(function, torch.randn(4, 3), others=[(torch.randn(4, 3),)], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 0)], ids=str)
def test_pseudoinverses_of_nothing(shape):
    assert_matches(torch.linalg.pinv, torch.randn(shape))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", SQUARES, ids=str)
def test_matrix_exponential(shape, dtype):
    matrix = torch.randn(shape, dtype=dtype)
    others = [(torch.zeros(shape, dtype=dtype),), (3 * matrix,), (0.01 * matrix,)]
    # Elements of the result that are small beside the largest one are as inexact as that one, in PyTorch too.
    digits = 2e-4 if dtype == torch.float32 else 1e-9
    assert_matches(torch.linalg.matrix_exp, matrix, others=others, rtol=digits, atol=10 * digits)


@pytest.mark.slow
def test_vectors_of_libtorch_come_first():
    """Where aten is allowed, it gives the vectors that PyTorch gives, signs included."""
    for function in (torch.linalg.eigh, torch.linalg.svd):
        plan = opbridge.check(function, (torch.randn(3, 3),))
        assert [row.route for row in plan.rows] == ["standard"]
        assert any("may differ from PyTorch's in sign; allow the route aten" in note for note in plan.notes)
        allowed = opbridge.check(function, (torch.randn(3, 3),), allow=("standard", "function", "kernel", "aten"))
        assert [row.route for row in allowed.rows] == ["aten"]
        assert not any("in sign" in note for note in allowed.notes)
    values = opbridge.check(torch.linalg.svdvals, (torch.randn(3, 3),), allow=("standard", "function", "aten"))
    assert [row.route for row in values.rows] != ["aten"]
