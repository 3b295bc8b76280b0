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


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {_aten.convolution_backward.default: _convolution_backward}
"""By operator. Where torch has one as well, ours is used."""
