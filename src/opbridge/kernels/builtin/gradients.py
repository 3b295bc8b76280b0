"""The gradients of built-in kernels: kernels where there are some, PyTorch's own operators elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from opbridge.kernels.builtin import region_gradients, sampling_gradients
from opbridge.kernels.load import Operators

__all__ = ["register"]

_CONVOLUTIONS = ("dynamic_conv", "lightweight_conv")


def register(operators: Operators) -> None:
    """Tells PyTorch the gradients of built-in operators; once, after they are loaded."""
    for operator in operators:
        name = operator.name.partition("::")[2]
        if name in _CONVOLUTIONS:
            operator.register_autograd(_convolution(getattr(operators, f"{name}_backward")))
        elif name in _FORMULAS:
            operator.register_autograd(_FORMULAS[name])


_FORMULAS: dict[str, Callable[..., Any]] = {
    "deform_conv2d": sampling_gradients.deform_conv2d,
    "grid_sample": sampling_gradients.grid_sample,
    "ms_deform_attn": sampling_gradients.ms_deform_attn,
    "upsample_bicubic": sampling_gradients.upsample_bicubic,
    "roi_align": region_gradients.roi_align,
    "roi_align_rotated": region_gradients.roi_align_rotated,
}


def _convolution(kernel: Callable[..., tuple[torch.Tensor, torch.Tensor]]) -> Callable[..., Any]:
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        x_grad, weight_grad = kernel(grad, *ctx.saved_tensors, ctx.padding_l)
        return x_grad, weight_grad, None

    return backward
