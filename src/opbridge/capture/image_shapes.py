"""The shapes of resized images, which torch computes by running the whole interpolation on tensors without values.

torch's decompositions are exact, and of a hundred operators or more for a bicubic one; each asks for the strides of its
result. The shape is the requested one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from opbridge.base.torch_private.torch_overrides import memory_format_of, new_dense

__all__ = ["COMPOSITE"]


def _resized(
    input: torch.Tensor,
    output_size: Sequence[Any] | None,
    align_corners: bool,
    scale_factors: Sequence[float] | None = None,
) -> Any:
    """The shape of `upsample_linear1d`, `_bilinear2d`, `_trilinear3d` and `_bicubic2d`, as they document it.

    The result has the memory format of the input, as on a CPU.
    """
    rank = input.dim() - 2
    if input.requires_grad or input.layout != torch.strided or input.device.type not in ("cpu", "meta"):
        return NotImplemented
    given = output_size if output_size is not None else scale_factors
    if given is None or len(given) != rank or (output_size is not None and scale_factors is not None):
        return NotImplemented  # torch raises an error
    sizes = list(output_size) if output_size is not None else _scaled(input.shape[2:], given)
    return new_dense(input, (*input.shape[:2], *sizes), memory_format_of(input))


def _scaled(sizes: Sequence[Any], factors: Sequence[float]) -> list[Any]:
    return [
        size * int(factor) if int(factor) == factor else torch.sym_int(size * factor)
        for size, factor in zip(sizes, factors, strict=True)
    ]


COMPOSITE: dict[str, Callable[..., Any]] = {
    f"aten::upsample_{name}.vec": _resized for name in ("linear1d", "bilinear2d", "trilinear3d", "bicubic2d")
}
