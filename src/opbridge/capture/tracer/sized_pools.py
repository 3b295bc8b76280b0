"""Pools whose windows have a symbolic size, as `avg_pool2d(x, x.shape[2:])`, which the operators take as numbers.

1. A window as long as the dimension is a reduction of that dimension.
2. Any other symbolic window becomes an index of each window's elements, and a reduction of these.
3. Dimensions whose windows have plain sizes are pooled by the operator, with windows of 1 in the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from opbridge.base.torch_private import torch_sizes
from opbridge.capture.tracer.tensors_as_numbers import number

__all__ = ["POOLS"]

_functional: Any = torch.nn.functional


def _average(
    function: Callable[..., torch.Tensor],
    rank: int,
    input: torch.Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> torch.Tensor | None:
    """An average pool; None where its windows have plain sizes, or it is no plain one."""
    if ceil_mode or divisor_override is not None or not input.dtype.is_floating_point:
        return None
    return _pooled(function, torch.mean, rank, input, kernel_size, stride, padding)


def _maximum(
    function: Callable[..., torch.Tensor],
    rank: int,
    input: torch.Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> torch.Tensor | None:
    """A maximum pool; None where its windows have plain sizes, or it is no plain one."""
    if ceil_mode or return_indices or any(each != 1 for each in _each(dilation, rank)):
        return None
    return _pooled(function, torch.amax, rank, input, kernel_size, stride, padding)


def _pooled(
    function: Callable[..., torch.Tensor],
    reduce: Callable[..., torch.Tensor],
    rank: int,
    x: torch.Tensor,
    kernel: Any,
    stride: Any,
    padding: Any,
) -> torch.Tensor | None:
    kernels = _each(kernel, rank)
    is_given = stride is not None and not (isinstance(stride, (list, tuple)) and not stride)
    strides = _each(stride, rank) if is_given else kernels
    symbolic = [any(isinstance(each, torch.SymInt) for each in pair) for pair in zip(kernels, strides, strict=True)]
    if not any(symbolic) or any(each != 0 for each in _each(padding, rank)):
        return None
    if not all(symbolic):
        windows, steps = (
            [1 if one else each for one, each in zip(symbolic, given, strict=True)] for given in (kernels, strides)
        )
        x = function(x, windows, steps)
    whole = []
    for axis in range(rank):
        dim = x.dim() - rank + axis
        if symbolic[axis]:
            if torch_sizes.is_equal(kernels[axis], x.shape[dim]):
                whole.append(dim)
            else:
                x = _reduced(reduce, x, dim, kernels[axis], strides[axis])
    return reduce(x, whole, keepdim=True) if whole else x


def _reduced(reduce: Callable[..., torch.Tensor], x: torch.Tensor, dim: int, kernel: Any, stride: Any) -> torch.Tensor:
    """The reductions of the windows along a dimension."""
    torch._check(kernel > 0, lambda: "The kernel size of a pool must be greater than 0.")
    torch._check(stride > 0, lambda: "The stride of a pool must be greater than 0.")
    torch._check(kernel <= x.shape[dim], lambda: "The kernel of a pool is larger than its input.")
    count = (x.shape[dim] - kernel) // stride + 1
    first = torch.arange(count, device=x.device) * stride
    places = first.unsqueeze(-1) + torch.arange(kernel, device=x.device)
    windows = x.index_select(dim, places.flatten()).unflatten(dim, (count, kernel))
    return reduce(windows, dim + 1)


def _each(value: Any, rank: int) -> Sequence[Any]:
    """A setting for each of the dimensions."""
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    return [number(each) for each in (values * rank if len(values) == 1 else values)]


def _bound(pool: Callable[..., Any], function: Callable[..., Any], rank: int) -> Callable[..., Any]:
    return lambda *args, **settings: pool(function, rank, *args, **settings)


POOLS: dict[Any, Callable[..., Any]] = {
    **{
        function: _bound(_average, function, rank)
        for rank, function in enumerate((_functional.avg_pool1d, _functional.avg_pool2d, _functional.avg_pool3d), 1)
    },
    **{
        function: _bound(_maximum, function, rank)
        for rank in (1, 2, 3)
        for function in (getattr(_functional, f"max_pool{rank}d"), getattr(torch, f"max_pool{rank}d"))
    },
}
"""By the function that is called; each gives None where that is to be called itself."""
