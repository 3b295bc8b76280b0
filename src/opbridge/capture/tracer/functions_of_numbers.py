"""Functions of torch that take numbers, with symbolic ones: padding, windows, factories, pools."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from opbridge.base.torch_private import torch_paddings, torch_sizes
from opbridge.capture.guards.decisions import implied
from opbridge.capture.guards.expressions import symbols_in
from opbridge.capture.tracer.comparing_functions import COMPARING
from opbridge.capture.tracer.sized_factories import FACTORIES
from opbridge.capture.tracer.sized_pools import POOLS
from opbridge.capture.tracer.sized_spectra import inverse_stft
from opbridge.capture.tracer.tensors_as_numbers import number

__all__ = ["WITH_NUMBERS"]


def _pad(input: torch.Tensor, pad: Any, mode: str = "constant", value: Any = None) -> torch.Tensor | None:
    """What padding gives, with the same amounts in a form that torch can compute with; None where that changes none.

    A symbolic number that is filled in is one of the operator's, which the function takes as a float.
    """
    numbers, filled = map(number, pad), number(value)
    amounts = [_amount(each) if isinstance(each, torch.SymInt) else each for each in numbers]
    if mode == "constant" and isinstance(filled, (torch.SymInt, torch.SymFloat)):
        return torch.ops.aten.constant_pad_nd(input, amounts, filled)
    if all(one is other for one, other in zip(amounts, pad, strict=True)):
        return None
    return torch.nn.functional.pad(input, amounts, mode, value)


def _amount(amount: torch.SymInt) -> torch.SymInt:
    return torch_paddings.continued(torch_paddings.as_fill(amount), _is_implied)


def _is_implied(condition: str, by: list[str]) -> bool:
    """Whether it is proven that a condition holds for all sizes, 0 included, for which others do."""
    ranges: dict[str, tuple[int, int | None]] = {
        symbol: (0, None) for each in (condition, *by) for symbol in symbols_in(each)
    }
    found = implied(condition, by, ranges)
    return found.holds and found.is_proven


def _one_hot(x: torch.Tensor, num_classes: Any = -1) -> Any:
    """What one_hot gives, whose schema has no place for a symbolic number; None where a Python number is given."""
    num_classes = number(num_classes)
    if not isinstance(num_classes, torch.SymInt):
        return None
    torch._check(num_classes >= 0)
    return (x.unsqueeze(-1) == torch.arange(num_classes, device=x.device)).to(torch.int64)


def _unfold(x: torch.Tensor, dimension: int, size: Any, step: Any) -> torch.Tensor | None:
    """Windows of a symbolic size, which the operator takes as a number, where they do not overlap: a view as well."""
    if not isinstance(size, torch.SymInt) or not torch_sizes.is_equal(size, step):
        return None
    dimension = dimension % x.dim()
    torch._check(size <= x.shape[dimension])
    count = x.shape[dimension] // size
    return x.narrow(dimension, 0, count * size).unflatten(dimension, (count, size)).movedim(dimension + 1, -1)


def _diff(
    x: torch.Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: torch.Tensor | None = None,
    append: torch.Tensor | None = None,
) -> torch.Tensor | None:
    """Differences along a dimension of a size that data decide, which the operator takes as a number."""
    parts = [each for each in (prepend, x, append) if each is not None]
    is_of_data = any(torch_sizes.is_of_data(size) for each in parts for size in each.shape)
    if not is_of_data or type(n) is not int or n < 1 or any(each.dim() != x.dim() for each in parts):
        return None
    found = parts[0] if len(parts) == 1 else torch.cat(parts, dim)
    subtract = torch.logical_xor if found.dtype == torch.bool else torch.sub
    for _ in range(n):
        found = subtract(*(torch.ops.aten.slice(found, dim, *ends) for ends in ((1, None), (0, -1))))
    return found


def _trapezoid(
    y: torch.Tensor, x: torch.Tensor | None = None, *, dx: Any = None, dim: int = -1, cumulative: bool = False
) -> torch.Tensor | None:
    """Integrals along a dimension of a size that data decide, of which the operator asks whether it is that of `x`.

    Also those with a symbolic width, which the operator takes as a number.
    """
    given = [each for each in (x, y) if each is not None]
    is_of_data = any(torch_sizes.is_of_data(size) for each in given for size in each.shape)
    if not is_of_data and not isinstance(dx := number(dx), (torch.SymInt, torch.SymFloat)):
        return None
    along = dim % y.dim() - y.dim()

    def ends(points: torch.Tensor) -> list[torch.Tensor]:
        return [torch.ops.aten.slice(points, along, *each) for each in ((0, -1), (1, None))]

    left, right = ends(y)
    if x is None:
        areas = (right + left) * (1 if dx is None else dx)
    else:
        before, after = ends(x.reshape(-1, *[1] * (-1 - along)) if x.dim() == 1 else x)
        areas = (right + left) * (after - before)
    return (areas.cumsum(along) if cumulative else areas.sum(along)) / 2


def _scaled_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *settings: Any, scale: Any = None, **more: Any
) -> torch.Tensor | None:
    """Attention with a symbolic scale, by which the queries are multiplied: the operator takes it as a float."""
    scale = number(scale)
    if not isinstance(scale, (torch.SymInt, torch.SymFloat)):
        return None
    return torch.nn.functional.scaled_dot_product_attention(query * scale, key, value, *settings, scale=1.0, **more)


WITH_NUMBERS: dict[Any, Callable[..., Any]] = {
    **COMPARING,
    **FACTORIES,
    **POOLS,
    torch.nn.functional.one_hot: _one_hot,
    torch.nn.functional.pad: _pad,
    torch.Tensor.unfold: _unfold,
    torch.nn.functional.scaled_dot_product_attention: _scaled_attention,
    torch.trapezoid: _trapezoid,
    torch.trapz: _trapezoid,
    torch.cumulative_trapezoid: functools.partial(_trapezoid, cumulative=True),
    torch.diff: _diff,
    torch.Tensor.diff: _diff,
    torch.istft: inverse_stft,
    torch.Tensor.istft: inverse_stft,
}
