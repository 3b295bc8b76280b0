"""Decompositions of operators that are another form of others, of which torch has none.

Most are the parts of a public operator that PyTorch's dispatcher has on the CPU; who calls `torch.ops` meets them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from opbridge.base.torch_private import torch_operators

__all__ = ["DECOMPOSITIONS"]

_aten = torch.ops.aten


def _add_relu(x: torch.Tensor, other: Any, alpha: Any = 1) -> torch.Tensor:
    return torch.relu(torch.add(x, other, alpha=alpha))


def _aminmax(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.amin(), x.amax()


def _aminmax_of_dim(x: torch.Tensor, dim: int, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    return x.amin(dim, keepdim), x.amax(dim, keepdim)


def _masked_softmax(
    x: torch.Tensor, mask: torch.Tensor, dim: int | None = None, mask_type: int | None = None
) -> torch.Tensor:
    """The softmax of what a mask leaves; nan where it leaves nothing, as in torch 2.13 to 2.15.

    Args:
        x: Of shape (batch, heads, length, length) where the mask has fewer dimensions.
        mask: True for what is left out.
        dim: The dimension of the softmax, the last by default.
        mask_type: 0 for a mask of shape (length, length), 1 for one of (batch, length), 2 for one of the shape of `x`.

    Raises:
        NotImplementedError: The mask is of another shape.
    """
    if mask_type == 1 and mask.dim() == 2 and x.dim() == 4:
        mask = mask[:, None, None, :]
    elif mask_type == 1 or (mask_type == 2 and mask.dim() != x.dim()):
        raise NotImplementedError("The shape of the mask does not match its type.")
    dim = x.dim() - 1 if dim is None else dim
    return torch.softmax(x.masked_fill(mask, float("-inf")), dim)


def _transform_bias_rescale_qkv(
    qkv: torch.Tensor, qkv_bias: torch.Tensor, num_heads: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries, keys and values by head, of shape (3, batch, heads, length, width) together; the queries are scaled."""
    batch, length, total = qkv.shape
    width = total // (3 * num_heads)
    parts = (qkv + qkv_bias).view(batch, length, 3, num_heads, width).permute(2, 0, 3, 1, 4)
    query, key, value = (parts.select(0, place).contiguous() for place in range(3))
    return query * (1.0 / width**0.5), key, value


def _batch_norm_update_stats(
    x: torch.Tensor, running_mean: torch.Tensor | None, running_var: torch.Tensor | None, momentum: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean and the variance of each channel; what it does to the running ones is left out, as in every file."""
    dims = [dim for dim in range(x.dim()) if dim != 1]
    return x.mean(dims), x.var(dims, correction=0)


def _convolved(transposed: bool, spatial: int) -> Callable[..., torch.Tensor]:
    """A convolution of the CPU's own, as the general one."""

    def plain(
        x: torch.Tensor,
        weight: torch.Tensor,
        kernel_size: Sequence[int],
        bias: torch.Tensor | None = None,
        stride: Sequence[Any] = (1,),
        padding: Sequence[Any] = (0,),
        dilation: Sequence[Any] = (1,),
    ) -> torch.Tensor:
        return _general(x, weight, bias, stride, padding, dilation, [0] * spatial)

    def turned(
        x: torch.Tensor,
        weight: torch.Tensor,
        kernel_size: Sequence[int],
        bias: torch.Tensor | None = None,
        stride: Sequence[Any] = (1,),
        padding: Sequence[Any] = (0,),
        output_padding: Sequence[Any] = (0,),
        dilation: Sequence[Any] = (1,),
    ) -> torch.Tensor:
        return _general(x, weight, bias, stride, padding, dilation, output_padding)

    def _general(
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        stride: Sequence[Any],
        padding: Sequence[Any],
        dilation: Sequence[Any],
        output_padding: Sequence[Any],
    ) -> torch.Tensor:
        stride, padding, dilation, output_padding = (
            [*given] * (spatial if len(given) == 1 else 1) for given in (stride, padding, dilation, output_padding)
        )
        has_batch = x.dim() == spatial + 2
        given = x if has_batch else x.unsqueeze(0)
        found = _aten.convolution(given, weight, bias, stride, padding, dilation, transposed, output_padding, 1)
        return found if has_batch else found.squeeze(0)

    return turned if transposed else plain


def _cholesky_solve_helper(x: torch.Tensor, factor: torch.Tensor, upper: bool) -> torch.Tensor:
    return _aten.cholesky_solve(x, factor, upper)


def _compute_linear_combination(x: torch.Tensor, coefficients: torch.Tensor) -> torch.Tensor:
    """Sums of the items of `x` along the first dimension, weighed by each row of the coefficients."""
    return torch.tensordot(coefficients, x, dims=([1], [0]))


def _logcumsumexp(x: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.logcumsumexp(x, dim)


def _reshape_alias_copy(x: torch.Tensor, size: Sequence[Any], stride: Sequence[Any]) -> torch.Tensor:
    return torch.as_strided(x, size, stride).clone()


def _neg_view(x: torch.Tensor) -> torch.Tensor:
    return torch.neg(x)


def _zeros(size: Sequence[Any], **options: Any) -> torch.Tensor:
    return torch.zeros(size, **options)


def _powsum(
    x: torch.Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """The sum of the absolute values to a power."""
    x = x if dtype is None else x.to(dtype)
    dims = list(range(x.dim())) if dim is None else dim
    return x.abs().pow(ord).sum(dims, keepdim=keepdim)


def _pinv(
    x: torch.Tensor, *, atol: torch.Tensor | None = None, rtol: torch.Tensor | None = None, hermitian: bool = False
) -> torch.Tensor:
    """The pseudoinverse: singular values up to max(atol, rtol * the largest) count as 0.

    Args:
        x: Of shape (..., rows, columns).
        atol: The absolute tolerance, 0 by default.
        rtol: The relative one; by default epsilon times the larger size, and 0 where `atol` is above 0.
        hermitian: Whether the matrices are symmetric.
    """
    rows, columns = x.shape[-2:]
    if rows == 0 or columns == 0:
        return x.new_zeros([*x.shape[:-2], columns, rows])
    if rtol is None:
        rtol = torch.finfo(x.dtype).eps * torch.ones((), dtype=torch.float64) * torch.sym_max(rows, columns)
        rtol = rtol if atol is None else torch.where(atol > 0, torch.zeros((), dtype=torch.float64), rtol)
    atol = torch.zeros((), dtype=torch.float64) if atol is None else atol
    if hermitian:
        values, right = torch.linalg.eigh(x)
        left = right.mT
    else:
        left, values, right = torch.linalg.svd(x, full_matrices=False)
        left, right = left.mT, right.mT
    sizes = values.abs()
    least = torch.maximum(atol.unsqueeze(-1), rtol.unsqueeze(-1) * sizes.amax(-1, keepdim=True))
    inverse = torch.where(sizes > least, values.reciprocal(), torch.zeros((), dtype=x.dtype))
    return right @ (inverse.unsqueeze(-1) * left)


def _lstsq(
    x: torch.Tensor, b: torch.Tensor, rcond: float | None = None, *, driver: str | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The least solution of least squares, by singular values: up to rcond times the largest, they count as 0.

    Args:
        x: Of shape (..., rows, columns).
        b: Of shape (..., rows, right-hand sides).
        rcond: By default epsilon times the larger size.
        driver: LAPACK's, which decides what there is beside the solution.

    Returns:
        The solution, the residuals, the rank and the singular values; empty where the driver gives none.

    Raises:
        NotImplementedError: The right-hand side is a vector, or the matrices have no elements.
    """
    rows, columns = x.shape[-2:]
    if b.dim() != x.dim() or rows == 0 or columns == 0:
        raise NotImplementedError("The right-hand sides must be non-empty matrices.")
    left, values, right = torch.linalg.svd(x, full_matrices=False)
    rcond = torch.finfo(x.dtype).eps * max(rows, columns) if rcond is None else rcond
    counts = values > rcond * values.amax(-1, keepdim=True)
    inverse = torch.where(counts, values.reciprocal(), torch.zeros((), dtype=x.dtype))
    solution = right.mT @ (inverse.unsqueeze(-1) * (left.mT @ b))
    nothing = x.new_zeros([0])
    has_residuals = driver not in (None, "gelsy") and rows > columns
    residuals = (x @ solution - b).square().sum(-2) if has_residuals else nothing
    rank = counts.sum(-1) if driver != "gels" else nothing.to(torch.int64)
    return solution, residuals, rank, values if driver in ("gelsd", "gelss") else nothing


def _polar(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """U, of orthonormal columns, and H, symmetric, of x = U @ H."""
    left, values, right = torch.linalg.svd(x, full_matrices=False)
    return left @ right, right.mT @ (values.unsqueeze(-1) * right)


def _square_root(x: torch.Tensor) -> torch.Tensor:
    """The symmetric square root of symmetric matrices."""
    values, vectors = torch.linalg.eigh(x)
    return vectors @ (values.sqrt().unsqueeze(-1) * vectors.mT)


def _fake_quantized(
    x: torch.Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rounded to multiples of the scale, and whether a number was within the range."""
    steps = torch.round(x.float() * (1.0 / scale)) + zero_point
    is_within = (steps >= quant_min) & (steps <= quant_max)
    return ((steps.clamp(quant_min, quant_max) - zero_point) * scale).to(x.dtype), is_within


def _fake_quantized_by_channel(
    x: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, axis: int, quant_min: int, quant_max: int
) -> tuple[torch.Tensor, torch.Tensor]:
    shape = [1] * x.dim()
    shape[axis] = -1
    return _fake_quantized(x, scale.view(shape), zero_point.view(shape), quant_min, quant_max)


def _product_with_bytes(x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """The product with a weight of int8, of shape (columns, K), and a scale for each column."""
    return (x @ weight.to(x.dtype).mT) * scales


def _segment_reduce(
    data: torch.Tensor,
    reduce: str,
    *,
    lengths: torch.Tensor | None = None,
    indices: torch.Tensor | None = None,
    offsets: torch.Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> torch.Tensor:
    """Reductions of segments along a dimension.

    Args:
        data: What is reduced.
        reduce: "sum", "mean", "prod", "max" or "min".
        lengths: How long each segment is, of shape (*data.shape[:axis], segments).
        indices: Not implemented in torch.
        offsets: Where each segment starts, and where the last ends, in the place of the lengths.
        axis: The dimension.
        unsafe: Whether torch checks the lengths.
        initial: What each reduction starts with; by default what an empty one gives, and nan for a mean.

    Raises:
        NotImplementedError: Only torch knows what it asks for.
    """
    if indices is not None or (lengths is None) == (offsets is None):
        raise NotImplementedError("Segments require lengths or offsets.")
    if lengths is not None:
        ends = lengths.cumsum(axis)
        starts = ends - lengths
    elif offsets is not None:
        count = offsets.shape[axis] - 1
        starts, ends = offsets.narrow(axis, 0, count), offsets.narrow(axis, 1, count)
    places = torch.arange(data.shape[axis])
    # (..., segments, elements), and the rest of the data's dimensions behind.
    is_inside = (places >= starts.unsqueeze(-1)) & (places < ends.unsqueeze(-1))
    is_inside = is_inside.view([*is_inside.shape, *[1] * (data.dim() - axis - 1)])
    neutral = {"sum": 0, "mean": 0, "prod": 1, "max": float("-inf"), "min": float("inf")}[reduce]
    chosen = torch.where(is_inside, data.unsqueeze(axis), torch.full((), neutral, dtype=data.dtype))
    dim = axis + 1
    if reduce in ("max", "min"):
        found = chosen.amax(dim) if reduce == "max" else chosen.amin(dim)
        if initial is not None:
            limit = torch.full((), initial, dtype=data.dtype)
            found = torch.maximum(found, limit) if reduce == "max" else torch.minimum(found, limit)
        return found
    if reduce == "prod":
        return chosen.prod(dim) * (1 if initial is None else initial)
    total = chosen.sum(dim) + (0 if initial is None else initial)
    if reduce == "sum":
        return total
    count = is_inside.sum(dim).to(data.dtype)
    if initial is None:
        return total / count  # nan for an empty segment
    return torch.where(count == 0, total, total / count)


def _padded_from_jagged(
    values: torch.Tensor, offsets: Sequence[torch.Tensor], max_lengths: Sequence[Any], padding_value: float = 0.0
) -> torch.Tensor:
    """Sequences one after the other, as rows of equal length.

    Args:
        values: Of shape (total, ...).
        offsets: One vector: where each sequence starts, and where the last ends.
        max_lengths: The length of the rows.
        padding_value: What fills the rows.

    Raises:
        NotImplementedError: There are several jagged dimensions.
    """
    if len(offsets) != 1:
        raise NotImplementedError("Several jagged dimensions are not supported.")
    (edges,), (length,) = offsets, max_lengths
    places = torch.arange(length)
    starts, ends = edges[:-1].unsqueeze(1), edges[1:].unsqueeze(1)
    index = starts + places
    is_there = index < ends
    # One row more, so that there is one to point at where there are none.
    extended = torch.cat([values, values.new_zeros([1, *values.shape[1:]])])
    rows = extended[torch.where(is_there, index, values.shape[0])]
    return torch.where(is_there.view([*is_there.shape, *[1] * (values.dim() - 1)]), rows, padding_value)


_BY_NAME: dict[str, Callable[..., Any]] = {
    "_add_relu.Tensor": _add_relu,
    "_add_relu.Scalar": _add_relu,
    "_aminmax": _aminmax,
    "_aminmax.dim": _aminmax_of_dim,
    "_cholesky_solve_helper": _cholesky_solve_helper,
    "_compute_linear_combination": _compute_linear_combination,
    "_efficientzerotensor": _zeros,
    "_jagged_to_padded_dense_forward": _padded_from_jagged,
    "_logcumsumexp": _logcumsumexp,
    "_masked_softmax": _masked_softmax,
    "_neg_view": _neg_view,
    "_neg_view_copy": _neg_view,
    "_reshape_alias_copy": _reshape_alias_copy,
    "_weight_int8pack_mm": _product_with_bytes,
    "segment_reduce": _segment_reduce,
    "_slow_conv2d_forward": _convolved(False, 2),
    "_transform_bias_rescale_qkv": _transform_bias_rescale_qkv,
    "batch_norm_update_stats": _batch_norm_update_stats,
    "fake_quantize_per_channel_affine_cachemask": _fake_quantized_by_channel,
    "fake_quantize_per_tensor_affine_cachemask": _fake_quantized,
    "linalg__powsum": _powsum,
    "linalg_lstsq": _lstsq,
    "linalg_matrix_sqrth": _square_root,
    "linalg_pinv.atol_rtol_tensor": _pinv,
    "linalg_polar": _polar,
    "slow_conv3d_forward": _convolved(False, 3),
    "slow_conv_dilated2d": _convolved(False, 2),
    "slow_conv_dilated3d": _convolved(False, 3),
    "slow_conv_transpose2d": _convolved(True, 2),
    "slow_conv_transpose3d": _convolved(True, 3),
}

DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    target: function
    for name, function in _BY_NAME.items()
    if (target := torch_operators.operator_object(f"aten::{name}")) is not None
}
"""By operator, of those that this torch has."""
