"""Decompositions of backward operators that torch has none of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

__all__ = ["DECOMPOSITIONS"]

_aten = torch.ops.aten


def _convolution_backward(
    grad_output: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias_sizes: Sequence[Any] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    """The gradients of a convolution's input, weight and bias, as convolutions.

    Args:
        grad_output: The gradient of the result, of shape (N, C_out, *L_out).
        x: The input, of shape (N, C_in, *L_in).
        weight: Of shape (C_out, C_in / groups, *K), and (C_in, C_out / groups, *K) where `transposed`.
        bias_sizes: The shape of the bias, or None.
        stride: One number, or one for each of the spatial dimensions; likewise `padding`, `dilation` and
            `output_padding`.
        padding: See `stride`.
        dilation: See `stride`.
        transposed: Whether it is a transposed convolution.
        output_padding: See `stride`; the results do not depend on it.
        groups: The number of groups.
        output_mask: Which of the three gradients are asked for.

    Returns:
        The gradients; None for those that are not asked for.
    """
    spatial = x.dim() - 2
    stride, padding, dilation = (_each(values, spatial) for values in (stride, padding, dilation))
    by_x = by_weight = by_bias = None
    if output_mask[0]:
        if transposed:
            by_x = _convolution(grad_output, weight, stride, padding, dilation, groups)
        else:
            by_x = _by_input(grad_output, x.shape, weight, stride, padding, dilation, groups)
    if output_mask[1]:
        given, result = (grad_output, x) if transposed else (x, grad_output)
        by_weight = _by_weight(given, result, weight.shape, stride, padding, dilation, groups)
    if output_mask[2]:
        by_bias = grad_output.sum([0, *range(2, spatial + 2)])
    return by_x, by_weight, by_bias


def _each(values: Sequence[int], spatial: int) -> list[int]:
    return [*values] if len(values) == spatial else [*values] * spatial


def _convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    *,
    transposed: bool = False,
) -> torch.Tensor:
    none = [0] * len(stride)
    return _aten.convolution(x, weight, None, stride, padding, dilation, transposed, none, groups)


def _by_input(
    grad_output: torch.Tensor,
    shape: Sequence[Any],
    weight: torch.Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> torch.Tensor:
    """The gradient of a convolution's input: the padded one's, of which the padding is cut off."""
    spatial = range(len(stride))
    padded = _convolution(grad_output, weight, stride, [0] * len(stride), dilation, groups, transposed=True)
    # What a stride greater than 1 leaves out at the end has no gradient.
    missing = [shape[i + 2] + 2 * padding[i] - padded.shape[i + 2] if stride[i] > 1 else 0 for i in spatial]
    if any(isinstance(each, torch.SymInt) or each != 0 for each in missing):
        padded = _aten.constant_pad_nd(padded, [end for each in reversed(missing) for end in (0, each)])
    for i in spatial:
        if padding[i]:
            padded = _aten.slice(padded, i + 2, padding[i], shape[i + 2] + padding[i])
    return padded


def _by_weight(
    x: torch.Tensor,
    grad_output: torch.Tensor,
    shape: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> torch.Tensor:
    """The gradient of a convolution's weight: a convolution over the batch, with the stride as the dilation."""
    batch = x.shape[0]
    if groups == 1:
        given = x.transpose(0, 1)
    else:
        given = x.reshape(batch, groups, shape[1], *x.shape[2:]).permute(2, 1, 0, *range(3, x.dim() + 1))
        given = given.reshape(shape[1], groups * batch, *x.shape[2:])
    found = _convolution(given, grad_output.transpose(0, 1), dilation, padding, stride, groups)
    for i, size in enumerate(shape[2:]):
        if stride[i] > 1:
            found = _aten.slice(found, i + 2, 0, size)
    return found.transpose(0, 1)


def _avg_pool2d_backward(
    grad_output: torch.Tensor,
    x: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> torch.Tensor:
    """The gradient of an average over windows: a transposed convolution with a kernel of ones.

    Args:
        grad_output: The gradient of the result, of shape (..., H_out, W_out).
        x: The input, of shape (..., H, W).
        kernel_size: The window, as one or two numbers; likewise `stride`, where none is the window, and `padding`.
        stride: See `kernel_size`.
        padding: See `kernel_size`.
        ceil_mode: Whether windows may reach beyond the padding.
        count_include_pad: Whether the padding counts as elements.
        divisor_override: The number that the sums are divided by, where it is not that of elements.

    Raises:
        NotImplementedError: Windows reach beyond the padding.
    """
    if ceil_mode:
        raise NotImplementedError("The windows reach beyond the padding.")
    kernel, padding = _each(kernel_size, 2), _each(padding, 2)
    stride = _each(stride, 2) if stride else kernel
    height, width = x.shape[-2:]
    ones = x.new_ones([1, 1, *kernel])
    sums = grad_output.reshape(-1, 1, *grad_output.shape[-2:])
    if divisor_override is not None or count_include_pad or not any(padding):
        sums = sums / (divisor_override or kernel[0] * kernel[1])
    else:
        sums = sums / _convolution(x.new_ones([1, 1, height, width]), ones, stride, padding, [1, 1], 1)
    found = _by_input(sums, [sums.shape[0], 1, height, width], ones, stride, padding, [1, 1], 1)
    return found.reshape(x.shape)


def _adaptive_avg_pool2d_backward(grad_output: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The gradient of an average over windows of equal shares: products with the weights of rows and of columns.

    Args:
        grad_output: The gradient of the result, of shape (..., H_out, W_out).
        x: The input, of shape (..., H, W).
    """
    rows = _shares(grad_output, grad_output.shape[-2], x.shape[-2])
    columns = _shares(grad_output, grad_output.shape[-1], x.shape[-1])
    return rows.transpose(0, 1) @ grad_output @ columns


def _shares(like: torch.Tensor, windows: Any, size: Any) -> torch.Tensor:
    """The share that each of `size` elements has in each window, of shape (windows, size)."""
    window = torch.arange(windows, device=like.device).unsqueeze(1)
    element = torch.arange(size, device=like.device)
    start = torch.div(window * size, windows, rounding_mode="floor")
    end = torch.div((window + 1) * size + windows - 1, windows, rounding_mode="floor")
    return ((element >= start) & (element < end)).to(like.dtype) / (end - start).to(like.dtype)


def _adaptive_max_pool2d_backward(grad_output: torch.Tensor, x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """The gradient of a maximum over windows, at the elements that were the greatest.

    Args:
        grad_output: The gradient of the result, of shape (..., H_out, W_out).
        x: The input, of shape (..., H, W).
        indices: The positions of the greatest elements in the flattened (H, W), of the shape of `grad_output`.
    """
    zeros = torch.zeros_like(x).flatten(-2)
    return zeros.scatter_add(-1, indices.flatten(-2), grad_output.flatten(-2)).reshape(x.shape)


def _replication_pad_backward(grad_output: torch.Tensor, x: torch.Tensor, padding: Sequence[Any]) -> torch.Tensor:
    """The gradient of a padding with the values at the edges.

    Args:
        grad_output: The gradient of the result.
        x: The input.
        padding: The numbers of elements before and after, for the last dimension first.
    """
    found = grad_output
    for i in range(len(padding) // 2):
        dim = x.dim() - 1 - i
        index = torch.arange(found.shape[dim], device=x.device) - padding[2 * i]
        shape = [*found.shape[:dim], x.shape[dim], *found.shape[dim + 1 :]]
        found = found.new_zeros(shape).index_add(dim, index.clamp(0, x.shape[dim] - 1), found)
    return found


def _trilinear(
    i1: torch.Tensor,
    i2: torch.Tensor,
    i3: torch.Tensor,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> torch.Tensor:
    """The product of three tensors, with new dimensions of size 1 in each, summed over some dimensions.

    Args:
        i1: The first factor.
        i2: The second factor.
        i3: The third factor.
        expand1: The dimensions of the product that the first factor lacks; likewise `expand2` and `expand3`.
        expand2: See `expand1`.
        expand3: See `expand1`.
        sumdim: The dimensions of the product that are summed.
        unroll_dim: How torch divides the work; the result does not depend on it.
    """
    product = _with_dims(i1, expand1) * _with_dims(i2, expand2) * _with_dims(i3, expand3)
    return product.sum(list(sumdim)) if sumdim else product


def _with_dims(x: torch.Tensor, dims: Sequence[int]) -> torch.Tensor:
    for dim in sorted(dims):
        x = x.unsqueeze(dim)
    return x


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    _aten._adaptive_avg_pool2d_backward.default: _adaptive_avg_pool2d_backward,
    _aten._trilinear.default: _trilinear,
    _aten.adaptive_max_pool2d_backward.default: _adaptive_max_pool2d_backward,
    _aten.avg_pool2d_backward.default: _avg_pool2d_backward,
    _aten.convolution_backward.default: _convolution_backward,
    _aten.replication_pad1d_backward.default: _replication_pad_backward,
    _aten.replication_pad2d_backward.default: _replication_pad_backward,
    _aten.replication_pad3d_backward.default: _replication_pad_backward,
}
"""By operator. Where torch has one as well, ours is used."""
