"""The padding of EnCodec's convolutions, from sizes in the place of tensors.

transformers keeps the kernel size and the stride of a convolution as tensors, so that whether an input is shorter than
its padding is a question about data, of each convolution. Both are numbers, and amounts follow from the size: an input
is filled to a multiple of the stride. An input that is too short for a reflection is padded with zeros first, by
nothing where it is not.

transformers computes the amounts in float32, which has no place for lengths from 2**24 on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

__all__ = ["convolved"]


def convolved(named: Mapping[str, Any]) -> torch.Tensor:
    """What a convolution of EnCodec gives for `hidden_states` of shape (batch, channels, length)."""
    layer, x = named["self"], named["hidden_states"]
    (kernel,), (stride,), (dilation,) = layer.conv.kernel_size, layer.conv.stride, layer.conv.dilation
    total, length = (kernel - 1) * dilation + 1 - stride, x.shape[-1]
    fill = stride * ((length + stride - 1) // stride) - length
    right = 0 if layer.causal else total // 2
    x = layer.conv(_padded(x, total - right, right + fill, layer.pad_mode))
    return layer.norm(x) if layer.norm_type == "time_group_norm" else x


def _padded(x: torch.Tensor, left: Any, right: Any, mode: str) -> torch.Tensor:
    if mode != "reflect":
        return torch.nn.functional.pad(x, (left, right), mode, 0.0)
    longest = torch.sym_max(left, right)
    missing = torch.sym_max(longest - x.shape[-1] + 1, 0)
    padded = torch.nn.functional.pad(torch.nn.functional.pad(x, (0, missing)), (left, right), mode)
    return padded[..., : padded.shape[-1] - missing]
