"""The shapes of convolutions and pools, without the questions about sizes that torch asks for strides.

torch's own functions select the kernel that would run on the example, and the order of its strides. They ask, for
instance, whether the batch is less than 16, and the capture would be for such batches only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from opbridge.base.torch_private import torch_shape_env
from opbridge.base.torch_private.torch_overrides import new_fake

__all__ = ["COMPOSITE", "REPLACED"]


def _convolution(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[Any],
    padding: Sequence[Any],
    dilation: Sequence[Any],
    transposed: bool,
    output_padding: Sequence[Any],
    groups: int,
) -> Any:
    """The shape of a convolution, as torch.nn.Conv2d and torch.nn.ConvTranspose2d document it.

    The result has the strides of a contiguous tensor, or of a channels_last one where the input or the weight is one.
    """
    if not (input.layout == weight.layout == torch.strided) or input.dtype != weight.dtype:
        return NotImplemented
    if input.device != weight.device or (bias is not None and bias.device != input.device):
        return NotImplemented
    rank = weight.dim() - 2
    batch = input.shape[: -rank - 1]
    if len(batch) > 1 or input.dim() <= rank:
        return NotImplemented
    channels, sizes, kernel = input.shape[-rank - 1], input.shape[-rank:], weight.shape[2:]
    expected = weight.shape[0] if transposed else weight.shape[1] * groups
    torch._check(
        channels == expected,
        lambda: (
            f"Given groups={groups}, weight of size {list(weight.shape)}, expected input{list(input.shape)} to have "
            f"{expected} channels, but got {channels} channels instead"
        ),
    )
    stride, padding, dilation, output_padding = (
        [each[0]] * rank if len(each) == 1 else each for each in (stride, padding, dilation, output_padding)
    )
    spans = [each * (size - 1) + 1 for each, size in zip(dilation, kernel, strict=True)]
    if transposed:
        shape = [
            (size - 1) * step - 2 * pad + span + more
            for size, step, pad, span, more in zip(sizes, stride, padding, spans, output_padding, strict=True)
        ]
        for size in shape:
            torch._check(size > 0, lambda: f"The input of size {list(sizes)} is too small: the output would be empty")
    else:
        shape = []
        for size, step, pad, span in zip(sizes, stride, padding, spans, strict=True):
            room = size + 2 * pad - span
            torch._check(room >= 0, lambda: f"The kernel of size {list(kernel)} is larger than the padded input")
            torch_shape_env.learn_not_negative(room)
            shape.append(room // step + 1)
    made = weight.shape[1] * groups if transposed else weight.shape[0]
    order = torch.contiguous_format
    if batch and rank > 1 and (_is_channels_last(input) or _is_channels_last(weight)):
        order = torch.channels_last if rank == 2 else torch.channels_last_3d
    return new_fake(input, (*batch, made, *shape), memory_format=order)


def _is_channels_last(tensor: torch.Tensor) -> bool:
    """Whether the strides of a tensor have the channels innermost, as far as numbers say it."""
    channels, between, last = tensor.shape[1], tensor.stride(1), tensor.stride(-1)
    if not (type(channels) is type(between) is type(last) is int):
        return False
    return between == 1 and last >= channels > 1


def _adaptive_avg_pool(rank: int) -> Callable[..., Any]:
    def shape(input: torch.Tensor, output_size: Sequence[Any]) -> Any:
        if input.layout != torch.strided or input.dim() - rank not in (1, 2):
            return NotImplemented
        for size in input.shape[-rank:]:
            torch._check(
                size > 0, lambda: f"adaptive_avg_pool{rank}d(): Expected input to have non-zero size, got {input.shape}"
            )
        order = torch.contiguous_format
        if rank == 2 and input.dim() == 4 and _is_channels_last(input):
            order = torch.channels_last
        return new_fake(input, (*input.shape[:-rank], *output_size), memory_format=order)

    return shape


def _adaptive_avg_pool2d(input: torch.Tensor, output_size: Sequence[Any]) -> torch.Tensor:
    """As torch computes it, but for the strides of a result of one by one, which say nothing."""
    if input.dim() in (3, 4) and all(type(size) is int and size == 1 for size in output_size):
        for size in input.shape[-2:]:
            torch._check(
                size > 0, lambda: f"adaptive_avg_pool2d(): Expected input to have non-zero size, got {input.shape}"
            )
        return input.mean((-1, -2), keepdim=True)
    return torch.ops.aten._adaptive_avg_pool2d(input, output_size)


def _max_pool1d(
    input: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> torch.Tensor:
    """As a pool over two dimensions: torch's own code asks for the length as a plain number."""
    given = ([1, *kernel_size], [1, *(stride or kernel_size)], [0, *padding], [1, *dilation])
    pooled, _ = torch.ops.aten.max_pool2d_with_indices(input.unsqueeze(-2), *given, ceil_mode)
    return pooled.squeeze(-2)


COMPOSITE: dict[str, Callable[..., Any]] = {
    "aten::adaptive_avg_pool2d": _adaptive_avg_pool2d,
    "aten::max_pool1d": _max_pool1d,
}
REPLACED: dict[str, Callable[..., Any]] = {
    "aten::convolution": _convolution,
    "aten::_adaptive_avg_pool2d": _adaptive_avg_pool(2),
    "aten::_adaptive_avg_pool3d": _adaptive_avg_pool(3),
}
