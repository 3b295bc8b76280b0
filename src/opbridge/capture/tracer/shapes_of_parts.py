"""The shapes of parts of tensors with dynamic sizes, without what torch asks about these."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from opbridge.base.torch_private import torch_sizes
from opbridge.base.torch_private.torch_overrides import new_view
from opbridge.capture.tracer.ends_of_parts import asks_about, length_of_part
from opbridge.capture.tracer.symbolic_loops import active_loops

__all__ = ["OF_PARTS", "is_dynamic", "is_plain_slice"]

_aten = torch.ops.aten


def is_dynamic(x: torch.Tensor) -> bool:
    return x.layout == torch.strided and not x.is_quantized and any(type(each) is torch.SymInt for each in x.shape)


def _is_plain_select(x: torch.Tensor, dim: int, index: Any) -> bool:
    return is_dynamic(x) and type(index) is int and type(size := x.shape[dim]) is int and -size <= index < size


def _select(x: torch.Tensor, dim: int, index: int) -> torch.Tensor:
    dim %= x.dim()
    offset = x.storage_offset() + index % x.shape[dim] * x.stride(dim)
    rest = [axis for axis in range(x.dim()) if axis != dim]
    return new_view(x, [x.shape[axis] for axis in rest], [x.stride(axis) for axis in rest], offset)


def _is_plain_unsqueeze(x: torch.Tensor, dim: int) -> bool:
    return is_dynamic(x) and -x.dim() - 1 <= dim <= x.dim()


def _unsqueeze(x: torch.Tensor, dim: int) -> torch.Tensor:
    dim %= x.dim() + 1
    sizes, strides = list(x.shape), list(x.stride())
    stride = sizes[dim] * strides[dim] if dim < x.dim() else 1
    sizes.insert(dim, 1)
    strides.insert(dim, stride)
    return new_view(x, sizes, strides, x.storage_offset())


def _is_plain_tensor_split(x: torch.Tensor, sections: Any, dim: int = 0) -> bool:
    """Along a dynamic dimension, for which torch would ask how many parts are longer than others."""
    return type(sections) is int and sections > 0 and x.dim() > 0 and isinstance(x.shape[dim], torch.SymInt)


def _tensor_split(x: torch.Tensor, sections: int, dim: int = 0) -> list[torch.Tensor]:
    start: Any = 0
    parts = []
    for number in range(sections):
        size = (x.shape[dim] + sections - 1 - number) // sections
        sizes = [size if axis == dim % x.dim() else other for axis, other in enumerate(x.shape)]
        parts.append(new_view(x, sizes, x.stride(), x.storage_offset() + start * x.stride(dim)))
        start = start + size
    return parts


def is_plain_slice(x: torch.Tensor, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1) -> bool:
    """Between sizes that are seen to be in order, of which torch would take the minimum with the size."""
    if type(step) is not int or step != 1 or not x.dim():
        return False
    size = x.shape[dim]
    if _is_empty(size):  # torch would make a size for what is 0 all the same
        return True
    if _from_end(size, start) is not None:
        return end is None or _is_endless(end)
    if not any(type(each) is torch.SymInt for each in (start, end)):
        return type(size) is int and is_dynamic(x)
    start, end = 0 if start is None else start, size if end is None or _is_endless(end) else end
    return all(map(torch_sizes.is_at_most, (0, start, end), (start, end, size)))


def _from_end(size: Any, start: Any) -> Any:
    """Where a part begins that is counted from the end, as in `x[-n:]`, and is seen to be no longer than the whole.

    None for any other start, and where all is known.
    """
    if type(start) is int and (start >= 0 or type(size) is int):
        return None
    if type(start) not in (int, torch.SymInt) or not torch_sizes.steps_forward([-start]):
        return None
    return size + start if torch_sizes.is_at_most_here(-start, size) else None


def _is_empty(size: Any) -> bool:
    return type(size) is int and size == 0


def _is_endless(end: Any) -> bool:
    return type(end) is int and end == sys.maxsize


def _slice(x: torch.Tensor, dim: int, start: Any, end: Any) -> torch.Tensor:
    size, stride = x.shape[dim], x.stride(dim)
    if _is_empty(size):
        return new_view(x, list(x.shape), x.stride(), x.storage_offset())
    begin = _from_end(size, start)
    if begin is not None:
        start = begin
    elif not any(type(each) is torch.SymInt for each in (size, start, end)):
        start, end, _ = slice(start, end).indices(size)
        end = max(start, end)
    start, end = 0 if start is None else start, size if end is None or _is_endless(end) else end
    sizes = [end - start if axis == dim % x.dim() else other for axis, other in enumerate(x.shape)]
    return new_view(x, sizes, x.stride(), x.storage_offset() + start * stride)


def _is_slice(x: torch.Tensor, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1) -> bool:
    if is_plain_slice(x, dim, start, end, step):
        return True
    return x.dim() > 0 and is_dynamic(x) and asks_about(x, dim, start, end, step)


def _sliced(x: torch.Tensor, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1) -> torch.Tensor:
    if is_plain_slice(x, dim, start, end, step):
        return _slice(x, dim, start, end)
    first, length = length_of_part(x.shape[dim], start, end, step)
    sizes, strides = list(x.shape), list(x.stride())
    offset = x.storage_offset() + first * strides[dim]
    sizes[dim], strides[dim] = length, strides[dim] * step
    return new_view(x, sizes, strides, offset)


def _is_narrowed_by_data(x: torch.Tensor, dim: int, start: Any, length: Any) -> bool:
    """To a length that data decide, which is that of the part or an error; torch would make another size for it.

    Not in an execution of the model whose loops are followed: they carry the sizes of tensors, and not the numbers that
    one of their iterations has read.
    """
    is_followed = active_loops() is not None
    return not is_followed and x.dim() > 0 and type(start) in (int, torch.SymInt) and torch_sizes.is_of_data(length)


def _narrow(x: torch.Tensor, dim: int, start: Any, length: Any) -> torch.Tensor:
    torch._check(length >= 0)
    sizes = [length if axis == dim % x.dim() else other for axis, other in enumerate(x.shape)]
    return new_view(x, sizes, x.stride(), x.storage_offset() + start * x.stride(dim))


OF_PARTS: dict[Any, tuple[Callable[..., bool], Callable[..., Any]]] = {
    _aten.select.int: (_is_plain_select, _select),
    _aten.unsqueeze.default: (_is_plain_unsqueeze, _unsqueeze),
    _aten.tensor_split.sections: (_is_plain_tensor_split, _tensor_split),
    _aten.slice.Tensor: (_is_slice, _sliced),
    _aten.narrow.default: (_is_narrowed_by_data, _narrow),
}
"""Whether a function gives the shape of an operator's result, and the function."""
