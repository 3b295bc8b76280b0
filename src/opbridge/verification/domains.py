"""Domains of floats and integers that a model relies on, which an example shows and random values leave.

Each is recognised by its values alone, and has a way to draw others of the same domain:

| domain | recognised by | drawn |
| --- | --- | --- |
| identity matrices | squares, 1 on the diagonal and 0 elsewhere | as they are |
| one-hot | zeros and ones, one 1 along one dimension | another 1; another permutation where they are one |
| affine matrices | squares from 3x3 on whose last row is 0, ..., 0, 1 | changed a little; offsets scaled |
| orthogonal matrices | squares `A A^T = I` | rotated by a small random rotation |
| near the identity | squares from 3x3 on, off it by less than 0.5 if the last element is 1 | changed a little |
| triangular matrices | squares with zeros on one side | the diagonal scaled, the others from the example's |
| positive definite | symmetric squares with positive eigenvalues | `M A M^T`, with M near the identity |
| symmetric matrices | squares `A = A^T` | the upper half from the example's |
| probabilities | in [0, 1], and 1 is the sum along one dimension | from the example's, divided by their sum |
| log-probabilities | whose exponentials are probabilities | from the example's, less their log-sum-exp |
| unit vectors | of norm 1 along one dimension | from the example's, divided by their norm |
| ordered offsets | one dimension of integers from 0 on, in rising order | sorted; the first and the last stay |
| lengths | one dimension of positive integers, in falling order | sorted; the first stays |

Matrices are the last two dimensions, and squares of one element are none. The first domain that fits applies.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

__all__ = ["DOMAINS", "Domain", "Draw", "domain_of", "resized"]

Draw = Callable[[torch.Tensor, torch.Generator, tuple[int, ...]], torch.Tensor]
"""Draws values from the distribution of the first argument's, in the given shape."""

_CHANGE = 0.1
"""How much of a matrix a random change is."""

_MATRICES_UP_TO = 1024
"""The largest matrices that are looked at: eigenvalues of larger ones take long."""


@dataclass(frozen=True)
class Domain:
    """A domain of values.

    Attributes:
        name: What it is called in reports.
        recognises: Whether the values of an example are of this domain.
        draw: Draws other ones: gets the example's values, the generator, the shape, and what draws like them.
        is_kept: Whether the example's values stay.
        is_matrix: Whether it is a domain of square matrices.
    """

    name: str
    recognises: Callable[[torch.Tensor], bool]
    draw: Callable[[torch.Tensor, torch.Generator, tuple[int, ...], Draw], torch.Tensor]
    is_kept: bool = False
    is_matrix: bool = False


def domain_of(values: torch.Tensor) -> Domain | None:
    """The first domain that an example is of.

    Args:
        values: Its values, finite and not all equal: int64, float32 or float64.
    """
    is_square = values.dim() >= 2 and 2 <= values.shape[-1] == values.shape[-2] <= _MATRICES_UP_TO
    # Most images are no such matrices, which the first of them tells quickly.
    first = values.reshape(-1, *values.shape[-2:])[0] if is_square else values
    for domain in DOMAINS:
        if domain.is_matrix and not (is_square and values.is_floating_point() and domain.recognises(first)):
            continue
        if domain.recognises(values):
            return domain
    return None


def resized(values: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """A tensor in another shape of the same rank, by nearest-neighbour sampling."""
    for dim, size in enumerate(shape):
        if size != values.shape[dim]:
            if values.shape[dim] == 0:
                return values.new_zeros(()).expand(shape).clone()  # there are no values to sample
            values = values.index_select(dim, torch.arange(size) * values.shape[dim] // max(size, 1))
    return values


def _tolerance(values: torch.Tensor) -> float:
    """How far sums of probabilities and products of matrices may be off: the example may be of a narrower dtype."""
    return 1e-3 if values.dtype == torch.float32 else 1e-6


def _identity(values: torch.Tensor) -> torch.Tensor:
    return torch.eye(values.shape[-1], dtype=values.dtype)


def _is_identity(values: torch.Tensor) -> bool:
    return bool((values == _identity(values)).all())


def _is_affine(values: torch.Tensor) -> bool:
    return values.shape[-1] >= 3 and bool((values[..., -1, :] == _identity(values)[-1]).all())


def _is_orthogonal(values: torch.Tensor) -> bool:
    return bool(((values @ values.mT - _identity(values)).abs() < _tolerance(values)).all())


def _is_near_identity(values: torch.Tensor) -> bool:
    if values.shape[-1] < 3 or not bool((values[..., -1:, -1:] != 0).all()):
        return False
    linear = (values / values[..., -1:, -1:])[..., :-1, :-1]
    # The offsets of a homography, in its last column, are pixels; its last row is much smaller than 1.
    is_near = (linear - torch.eye(linear.shape[-1], dtype=values.dtype)).abs() < 0.5
    return bool(is_near.all()) and bool((values[..., -1, :-1].abs() < 0.5).all())


def _is_triangular(values: torch.Tensor) -> bool:
    if not bool((values.diagonal(dim1=-2, dim2=-1) != 0).all()):
        return False
    return any(bool((values == half).all()) for half in (values.tril(), values.triu()))


def _is_symmetric(values: torch.Tensor) -> bool:
    size = values.abs().amax()
    return bool(((values - values.mT).abs() <= 1e-5 * size).all())


def _is_positive_definite(values: torch.Tensor) -> bool:
    if not _is_symmetric(values):
        return False
    diagonal = values.diagonal(dim1=-2, dim2=-1)
    return bool((diagonal > 0).all()) and bool(torch.linalg.cholesky_ex(values.double()).info.eq(0).all())


def _along(values: torch.Tensor, holds: Callable[[int], bool]) -> int | None:
    """The dimension, the last first and then the first after the batch, for which something holds."""
    dims = [dim for dim in dict.fromkeys((values.dim() - 1, 1, 0)) if dim < values.dim()]
    return next((dim for dim in dims if values.shape[dim] >= 2 and holds(dim)), None)


def _one_hot_dim(values: torch.Tensor) -> int | None:
    if values.numel() < 3 or not bool(((values == 0) | (values == 1)).all()):
        return None
    return _along(values, lambda dim: bool((values.sum(dim) == 1).all()))


def _probability_dim(values: torch.Tensor) -> int | None:
    if not values.is_floating_point() or values.numel() < 3 or not bool(((values >= 0) & (values <= 1)).all()):
        return None
    return _along(values, lambda dim: bool(((values.sum(dim) - 1).abs() < _tolerance(values)).all()))


def _log_probability_dim(values: torch.Tensor) -> int | None:
    return _probability_dim(values.exp()) if values.is_floating_point() and bool((values <= 0).all()) else None


def _unit_dim(values: torch.Tensor) -> int | None:
    if not values.is_floating_point() or values.numel() < 3:
        return None
    return _along(values, lambda dim: bool(((values.norm(dim=dim) - 1).abs() < _tolerance(values)).all()))


def _is_offsets(values: torch.Tensor) -> bool:
    if values.is_floating_point() or values.dim() != 1 or values.numel() < 2:
        return False
    return int(values[0]) == 0 and bool((values.diff() >= 0).all())


def _is_lengths(values: torch.Tensor) -> bool:
    if values.is_floating_point() or values.dim() != 1 or values.numel() < 2:
        return False
    return int(values[-1]) > 0 and bool((values.diff() <= 0).all())


def _is_permutation(values: torch.Tensor) -> bool:
    is_square = values.dim() >= 2 and values.shape[-1] == values.shape[-2]
    return is_square and all(bool((values.sum(dim) == 1).all()) for dim in (-1, -2))


def _normal(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(like.shape, generator=generator, dtype=like.dtype)


def _near_identity(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Random matrices near the identity, which are well-conditioned."""
    return _identity(like) + _normal(like, generator) * (_CHANGE / math.sqrt(like.shape[-1]))


def _resized_matrices(values: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Matrices in another shape; those of another size have the identity beside the example's part."""
    size = shape[-1]
    if tuple(shape[-2:]) == tuple(values.shape[-2:]):
        return resized(values, shape)
    batch = resized(values, (*shape[:-2], *values.shape[-2:]))
    result = torch.eye(shape[-2], size, dtype=values.dtype).expand(shape).clone()
    kept = min(size, shape[-2], values.shape[-1])
    result[..., :kept, :kept] = batch[..., :kept, :kept]
    return result


def _draw_identity(
    values: torch.Tensor, generator: torch.Generator, shape: tuple[int, ...], like: Draw
) -> torch.Tensor:
    return torch.eye(shape[-2], shape[-1]).to(values.dtype).expand(shape).clone()


def _draw_affine(values: torch.Tensor, generator: torch.Generator, shape: tuple[int, ...], like: Draw) -> torch.Tensor:
    drawn = _resized_matrices(values, shape).clone()
    linear = drawn[..., :-1, :-1]
    changed = _rotated if _is_orthogonal(linear) else _changed
    drawn[..., :-1, :-1] = changed(linear.clone(), generator)
    offsets = drawn[..., :-1, -1:]
    drawn[..., :-1, -1:] = offsets * (0.5 + torch.rand(offsets.shape, generator=generator) / 2).to(values.dtype)
    row = drawn[..., -1, :-1]
    drawn[..., -1, :-1] = row * (0.5 + torch.rand(row.shape, generator=generator) / 2).to(values.dtype)
    return drawn


def _changed(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return values @ _near_identity(values, generator)


def _rotated(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    noise = _normal(values, generator)
    return values @ torch.linalg.matrix_exp((noise - noise.mT) * _CHANGE)


def _draw_orthogonal(
    values: torch.Tensor, generator: torch.Generator, shape: tuple[int, ...], like: Draw
) -> torch.Tensor:
    return _rotated(_resized_matrices(values, shape), generator) if shape[-1] == shape[-2] else resized(values, shape)


def _draw_triangular(
    values: torch.Tensor, generator: torch.Generator, shape: tuple[int, ...], like: Draw
) -> torch.Tensor:
    drawn = _resized_matrices(values, shape).clone()
    is_inside = drawn != 0
    drawn = torch.where(is_inside, like(values[values != 0], generator, (drawn.numel(),)).reshape(shape), drawn)
    diagonal = _resized_matrices(values, shape).diagonal(dim1=-2, dim2=-1)
    if not bool((diagonal == 1).all()):
        diagonal = diagonal * (0.75 + torch.rand(diagonal.shape, generator=generator) / 2).to(values.dtype)
    drawn.diagonal(dim1=-2, dim2=-1).copy_(diagonal)
    return drawn


def _draw_positive_definite(
    values: torch.Tensor, generator: torch.Generator, shape: tuple[int, ...], like: Draw
) -> torch.Tensor:
    drawn = _resized_matrices(values, shape)
    change = _near_identity(drawn, generator)
    product = change @ drawn @ change.mT
    return (product + product.mT) / 2


def _draw_symmetric(
    values: torch.Tensor, generator: torch.Generator, shape: tuple[int, ...], like: Draw
) -> torch.Tensor:
    upper = like(values[~torch.eye(values.shape[-1], dtype=torch.bool).expand_as(values)], generator, shape).triu(1)
    diagonal = like(values.diagonal(dim1=-2, dim2=-1), generator, shape[:-1])
    return upper + upper.mT + torch.diag_embed(diagonal)


def _draw_one_hot(values: torch.Tensor, generator: torch.Generator, shape: tuple[int, ...], like: Draw) -> torch.Tensor:
    dim = _one_hot_dim(values) or 0
    if _is_permutation(values) and shape[-1] == shape[-2]:
        order = torch.rand(shape[:-1], generator=generator).argsort(-1)
        return torch.nn.functional.one_hot(order, shape[-1]).to(values.dtype)
    place = torch.rand(shape, generator=generator).argmax(dim, keepdim=True)
    return torch.zeros(shape, dtype=values.dtype).scatter_(dim, place, 1)


def _draw_probabilities(
    values: torch.Tensor, generator: torch.Generator, shape: tuple[int, ...], like: Draw
) -> torch.Tensor:
    dim = _probability_dim(values) or 0
    drawn = like(values, generator, shape) + torch.finfo(values.dtype).tiny
    return drawn / drawn.sum(dim, keepdim=True)


def _draw_log_probabilities(
    values: torch.Tensor, generator: torch.Generator, shape: tuple[int, ...], like: Draw
) -> torch.Tensor:
    return like(values, generator, shape).log_softmax(_log_probability_dim(values) or 0)


def _draw_units(values: torch.Tensor, generator: torch.Generator, shape: tuple[int, ...], like: Draw) -> torch.Tensor:
    drawn, dim = like(values, generator, shape), _unit_dim(values) or 0
    length = drawn.norm(dim=dim, keepdim=True)
    return torch.where(length > 1e-3, drawn / length, resized(values, shape))


def _draw_offsets(values: torch.Tensor, generator: torch.Generator, shape: tuple[int, ...], like: Draw) -> torch.Tensor:
    return _sorted_integers(values, generator, shape, first=True, last=True)


def _draw_lengths(values: torch.Tensor, generator: torch.Generator, shape: tuple[int, ...], like: Draw) -> torch.Tensor:
    return _sorted_integers(values.flip(0), generator, shape, first=False, last=True).flip(0)


def _sorted_integers(
    values: torch.Tensor, generator: torch.Generator, shape: tuple[int, ...], *, first: bool, last: bool
) -> torch.Tensor:
    """Sorted integers in the example's range, distinct where the example's are and there is room."""
    least, greatest, count = int(values[0]), int(values[-1]), shape[0]
    span = greatest - least + 1
    is_distinct = bool((values.diff() > 0).all()) and count <= span
    if is_distinct:
        inner = torch.randperm(span - first - last, generator=generator)[: max(count - first - last, 0)] + first
    else:
        inner = torch.randint(span, (max(count - first - last, 0),), generator=generator)
    ends = [0] * first + [span - 1] * last
    return least + torch.cat([inner, torch.tensor(ends, dtype=torch.int64)])[:count].sort().values


DOMAINS = (
    Domain("identity matrices", _is_identity, _draw_identity, is_kept=True, is_matrix=True),
    Domain("one-hot", lambda values: _one_hot_dim(values) is not None, _draw_one_hot),
    Domain("affine matrices", _is_affine, _draw_affine, is_matrix=True),
    Domain("orthogonal matrices", _is_orthogonal, _draw_orthogonal, is_matrix=True),
    Domain("matrices near the identity", _is_near_identity, _draw_affine, is_matrix=True),
    Domain("triangular matrices", _is_triangular, _draw_triangular, is_matrix=True),
    Domain("positive definite matrices", _is_positive_definite, _draw_positive_definite, is_matrix=True),
    Domain("symmetric matrices", _is_symmetric, _draw_symmetric, is_matrix=True),
    Domain("probabilities", lambda values: _probability_dim(values) is not None, _draw_probabilities),
    Domain("log-probabilities", lambda values: _log_probability_dim(values) is not None, _draw_log_probabilities),
    Domain("unit vectors", lambda values: _unit_dim(values) is not None, _draw_units),
    Domain("ordered offsets", _is_offsets, _draw_offsets),
    Domain("lengths", _is_lengths, _draw_lengths),
)
