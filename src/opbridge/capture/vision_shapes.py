"""The shapes of torchvision's operators whose arguments ONNX has as attributes, which are numbers and no sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from opbridge.base.torch_private.torch_overrides import new_fake

__all__ = ["REPLACED"]


def _deform_conv2d(
    input: torch.Tensor,
    weight: torch.Tensor,
    offset: torch.Tensor,
    mask: torch.Tensor,
    bias: torch.Tensor,
    stride_h: Any,
    stride_w: Any,
    pad_h: Any,
    pad_w: Any,
    dilation_h: Any,
    dilation_w: Any,
    groups: Any,
    offset_groups: Any,
    use_mask: bool,
) -> Any:
    """The shape, with the conditions that torchvision's kernel has.

    torchvision divides the channels of the input by those of the weight for the number of groups: it is the number that
    it is in the example, and the two sizes are so many times each other. The same is so of the offsets.
    """
    if not (input.dim() == weight.dim() == offset.dim() == 4):
        return NotImplemented
    groups, offset_groups = int(groups), int(offset_groups)
    kernel = [int(size) for size in weight.shape[2:]]
    taps = kernel[0] * kernel[1]
    _check_size("channels of the input", input.shape[1], weight.shape[1] * groups)
    _check_size("channels of the offset", offset.shape[1], 2 * offset_groups * taps)
    _check_size("batch of the offset", offset.shape[0], input.shape[0])
    sizes = []
    settings = ((stride_h, pad_h, dilation_h), (stride_w, pad_w, dilation_w))
    for axis, (step, pad, dilation) in enumerate(settings):
        size = (input.shape[2 + axis] + 2 * pad - (dilation * (kernel[axis] - 1) + 1)) // step + 1
        _check_size(f"size of the offset along axis {2 + axis}", offset.shape[2 + axis], size)
        sizes.append(offset.shape[2 + axis])
    if use_mask:
        _check_size("channels of the mask", mask.shape[1], offset_groups * taps)
        for axis in (0, 2, 3):
            _check_size(f"size of the mask along axis {axis}", mask.shape[axis], offset.shape[axis])
    return new_fake(input, (input.shape[0], weight.shape[0], *sizes))


def _check_size(name: str, size: Any, expected: Any) -> None:
    torch._check(size == expected, lambda: f"deform_conv2d: the {name} should be {expected}, and is {size}")


REPLACED: dict[str, Callable[..., Any]] = {"torchvision::deform_conv2d": _deform_conv2d}
