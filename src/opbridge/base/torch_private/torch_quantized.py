"""Private interfaces of torch's eager-mode quantisation: packed weights, and the operators that PT2E writes.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.ao.quantization.fx._decomposed  # defines torch.ops.quantized_decomposed

from opbridge.base.torch_private.torch_overrides import without_modes

__all__ = ["Convolution", "Weight", "convolution", "is_packed", "linear", "operators"]

operators: Any = torch.ops.quantized_decomposed
"""The operators that quantise tensors of integers and floating numbers, which are no quantised tensors to torch."""


class Weight(NamedTuple):
    """A weight that was unpacked.

    Attributes:
        values: The integers, or the floating numbers of a weight that is not quantised.
        scale: The scale: a number, a tensor of one for each channel, or None.
        zero_point: The zero point, in the same way.
        axis: The axis of the channels, None where there is one scale.
        dtype: The quantised dtype.
        bias: The bias.
    """

    values: torch.Tensor
    scale: Any
    zero_point: Any
    axis: int | None
    dtype: torch.dtype
    bias: torch.Tensor | None


class Convolution(NamedTuple):
    """The weight and the parameters of a convolution that were unpacked."""

    weight: Weight
    stride: list[int]
    padding: list[int]
    dilation: list[int]
    groups: int
    output_padding: list[int]
    is_transposed: bool


def is_packed(value: Any) -> bool:
    """Whether a value is a packed weight or the like, which TorchScript holds."""
    return isinstance(value, torch.ScriptObject)


def linear(packed: Any) -> Weight:
    """The weight and the bias of a linear layer."""
    with without_modes():
        weight, bias = packed.unpack()
        return _weight(weight, bias)


def convolution(packed: Any, rank: int) -> Convolution:
    """What a convolution is computed with.

    Args:
        packed: The packed weight.
        rank: How many dimensions the convolution has, 1 to 3.
    """
    quantized: Any = torch.ops.quantized
    with without_modes():
        is_transposed = bool(packed.transpose())
        kind = f"conv_transpose{rank}d_unpack" if is_transposed else f"conv{rank}d_unpack"
        weight, bias = getattr(quantized, kind)(packed)
        lists = (packed.stride(), packed.padding(), packed.dilation(), packed.output_padding())
        # Those of one dimension are kept as two.
        stride, padding, dilation, output_padding = (list(each)[-rank:] for each in lists)
        unpacked = _weight(weight, bias)
        return Convolution(unpacked, stride, padding, dilation, packed.groups(), output_padding, is_transposed)


def _weight(weight: torch.Tensor, bias: torch.Tensor | None) -> Weight:
    bias = None if bias is None else bias.detach()
    if not weight.is_quantized:
        return Weight(weight.detach(), None, None, None, weight.dtype, bias)
    if weight.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return Weight(weight.int_repr(), weight.q_scale(), weight.q_zero_point(), None, weight.dtype, bias)
    scales, zero_points = weight.q_per_channel_scales(), weight.q_per_channel_zero_points()
    axis = weight.q_per_channel_axis()
    return Weight(weight.int_repr(), scales, zero_points, axis, weight.dtype, bias)
