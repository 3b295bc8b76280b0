"""Linear algebra by factorisations: singular values, inverses, determinants, solvers."""

from __future__ import annotations

import torch
from models.forms.form import floats, form
from torch import nn

__all__: list[str] = []

_SQUARE = floats("batch", 4, 4)
_TALL = floats("batch", 5, 3)
# ONNX has no operator for these factorisations: libtorch computes them.
_BY_LIBTORCH = {"export": {"allow": ("standard", "function", "kernel", "aten")}}


@form(_TALL, **_BY_LIBTORCH)
def singular_values(x):
    return torch.linalg.svdvals(x), torch.linalg.svd(x, full_matrices=False).S, torch.linalg.norm(x, 2, dim=(1, 2))


@form(_TALL, **_BY_LIBTORCH)
def low_rank_approximation(x):
    left, values, right = torch.linalg.svd(x, full_matrices=False)
    values = torch.cat([values[:, :2], torch.zeros_like(values[:, 2:])], dim=1)
    return left @ torch.diag_embed(values) @ right


@form(_TALL, **_BY_LIBTORCH)
def norms_of_matrices(x):
    return (
        torch.linalg.matrix_norm(x, "nuc"),
        torch.linalg.matrix_norm(x),
        torch.linalg.matrix_norm(x, 1),
        torch.linalg.cond(x[:, :3] + torch.eye(3) * 5),
        torch.linalg.vector_norm(x, dim=-1),
    )


@form(_TALL, **_BY_LIBTORCH)
def pseudo_inverse(x):
    return torch.linalg.pinv(x), torch.linalg.matrix_rank(x)


@form(_TALL, floats("batch", 5, 2), **_BY_LIBTORCH)
def least_squares(x, y):
    return torch.linalg.lstsq(x, y).solution


@form(_SQUARE, **_BY_LIBTORCH)
def procrustes(x):
    """Kabsch: the rotation that is nearest, with a determinant of 1."""
    x = x[:, :3, :3]
    left, _, right = torch.linalg.svd(x)
    sign = torch.det(left @ right).sign()
    fix = torch.diag_embed(torch.stack([torch.ones_like(sign), torch.ones_like(sign), sign], -1))
    return left @ fix @ right


@form(_SQUARE)
def inverses(x):
    x = x + torch.eye(4) * 5
    return torch.linalg.inv(x), torch.inverse(x).det(), torch.linalg.slogdet(x), torch.logdet(x @ x.mT)


@form(_SQUARE, floats("batch", 4))
def solved(x, y):
    x = x + torch.eye(4) * 5
    return torch.linalg.solve(x, y), torch.linalg.solve_triangular(x.triu(), y[..., None], upper=True)


@form(_SQUARE)
def cholesky_factors(x):
    x = x @ x.mT + torch.eye(4)
    factor = torch.linalg.cholesky(x)
    return factor, torch.cholesky_solve(x[..., :1], factor), torch.cholesky_inverse(factor[0])


@form(_SQUARE, **_BY_LIBTORCH)
def eigenvalues(x):
    values, vectors = torch.linalg.eigh(x + x.mT)
    return values, vectors @ torch.diag_embed(values) @ vectors.mT, torch.linalg.eigvalsh(x @ x.mT)


@form(_TALL, **_BY_LIBTORCH)
def orthogonal_factors(x):
    q, r = torch.linalg.qr(x)
    return q @ r, r.diagonal(dim1=-2, dim2=-1).abs(), torch.linalg.householder_product(*torch.geqrf(x)).abs()


@form(_SQUARE, **_BY_LIBTORCH)
def whitened(x):
    """ZCA: the inverse square root of a covariance."""
    centred = x - x.mean(1, keepdim=True)
    values, vectors = torch.linalg.eigh(centred.mT @ centred / 4 + torch.eye(4) * 0.1)
    return centred @ vectors @ torch.diag_embed(values.rsqrt()) @ vectors.mT


@form(_SQUARE, **_BY_LIBTORCH)
def powers_of_matrices(x):
    return torch.linalg.matrix_power(x, 3), torch.matrix_exp(x * 0.1), torch.linalg.multi_dot([x[0], x[0], x[0]])


@form(_SQUARE)
def packed_factors(x):
    factors, pivots = torch.linalg.lu_factor(x + torch.eye(4) * 5)
    p, low, high = torch.linalg.lu(x)
    return p @ low @ high, torch.linalg.lu_solve(factors, pivots, x)


@form(_SQUARE)
class SpectralNormOfWeight(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, x):
        return x @ (self.weight / torch.linalg.matrix_norm(self.weight, 2)).t()


@form(floats("batch", 4), floats("length", 4))
def cross_products(x, y):
    return (
        torch.linalg.cross(x[:, :3], x[:, 1:]),
        torch.einsum("bi,li->bl", x, y),
        torch.tensordot(x, y, dims=([1], [1])),
        torch.kron(x[:, :2], torch.eye(2)),
        torch.cov(y.t()),
        torch.vander(y[:, 0], N=3),
    )
