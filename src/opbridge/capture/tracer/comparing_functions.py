"""Functions of torch that compare tensors and give a bool of Python, which data decide: a tensor in its place.

What asks for its truth, such as an `if` of the model, then has a condition on data like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

__all__ = ["COMPARING"]


def _all_close(
    x: torch.Tensor, y: torch.Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> torch.Tensor | None:
    """`torch.allclose`."""
    if not _are_dense(x, y):
        return None
    return torch.isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan).all()


def _equal(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor | bool | None:
    """`torch.equal`."""
    if not _are_dense(x, y) or x.dtype != y.dtype:
        return None
    if x.dim() != y.dim() or any(one != other for one, other in zip(x.shape, y.shape, strict=True)):
        return False
    return (x == y).all()


def _are_dense(*tensors: Any) -> bool:
    return all(
        isinstance(each, torch.Tensor) and each.layout is torch.strided and not each.is_quantized for each in tensors
    )


COMPARING: dict[Any, Callable[..., Any]] = {
    torch.allclose: _all_close,
    torch.Tensor.allclose: _all_close,
    torch.equal: _equal,
    torch.Tensor.equal: _equal,
}
"""What is called in the place of torch's functions; each gives None where that is to be called itself."""
