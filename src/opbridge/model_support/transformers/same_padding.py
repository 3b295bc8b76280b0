"""TensorFlow's padding "SAME" of a convolution, which transformers computes with a question about each size.

`if n % stride == 0: kernel - stride, else: kernel - n % stride` is `stride * ((n - 1) // stride) + kernel - n` for all
sizes, where the stride is no larger than the kernel. Without the question one graph is for all of them, and by this
form the convolution's size is `(n - 1) // stride + 1`, which stays as short from layer to layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

__all__ = ["padded", "padded_with_dilation"]


def padded(named: Mapping[str, Any]) -> torch.Tensor | None:
    """What `apply_tf_padding` of MobileNetV1 gives, of its arguments by name; None where a stride is too large."""
    return _padded(named, scaled=False)


def padded_with_dilation(named: Mapping[str, Any]) -> torch.Tensor | None:
    """What that of MobileNetV2 gives: amounts are multiplied by the dilation."""
    return _padded(named, scaled=True)


def _padded(named: Mapping[str, Any], *, scaled: bool) -> torch.Tensor | None:
    features, layer = named["features"], named["conv_layer"]
    if any(stride > kernel for stride, kernel in zip(layer.stride, layer.kernel_size, strict=True)):
        return None
    amounts: list[Any] = []
    for axis in (1, 0):  # the last dimension is padded first
        size, stride = features.shape[axis - 2], layer.stride[axis]
        amount = stride * ((size - 1) // stride) + layer.kernel_size[axis] - size
        before, times = amount // 2, layer.dilation[axis] if scaled else 1
        amounts += [before * times, (amount - before) * times]
    return torch.nn.functional.pad(features, amounts, "constant", 0.0)
