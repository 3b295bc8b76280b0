"""Operators that the recorder treats alike, by what they do, and bytes as masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

__all__ = ["ASKING", "METADATA", "NAMESPACES", "PARTS", "with_masks"]

_aten = torch.ops.aten

_MASKS = {
    **dict.fromkeys((_aten.where.self, _aten.where.ScalarOther, _aten.where.ScalarSelf, _aten.where.Scalar), 0),
    **dict.fromkeys((_aten.index.Tensor, _aten.index_put.default, _aten.index_put_.default), 1),
}
"""Operators that take masks, and in which place."""

NAMESPACES = frozenset({"aten", "prim", "prims"})
"""The namespaces of torch's own operators: what describes their results is no code of the model."""

PARTS = frozenset({_aten.select.int, _aten.slice.Tensor})
"""Operators whose result is a part of a tensor in memory."""

ASKING = frozenset({_aten.sym_size.int, _aten.sym_storage_offset.default})
"""Operators whose results are numbers of a tensor."""

METADATA = frozenset(
    {
        torch.ops.prim.device.default,
        *(
            getattr(packet, overload)
            for packet in (
                _aten.size,
                _aten.sym_size,
                _aten.stride,
                _aten.sym_stride,
                _aten.numel,
                _aten.sym_numel,
                _aten.storage_offset,
                _aten.sym_storage_offset,
                _aten.dim,
                _aten.is_contiguous,
                _aten.is_same_size,
                _aten._has_same_storage_numel,
            )
            for overload in packet.overloads()
        ),
    }
)
"""Questions about a tensor's metadata, whose answers are numbers that torch follows by itself."""


def with_masks(function: Any, args: Any, record: Callable[[Any, Any, Any], Any]) -> Any:
    """Arguments with bools in the place of bytes, which are masks as well, but not for tensors without values.

    Args:
        function: The operator.
        args: Its positional arguments.
        record: Records an operator with arguments and keyword arguments.
    """
    if function not in _MASKS:
        return args

    def mask(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(map(mask, value))
        is_bytes = isinstance(value, torch.Tensor) and value.dtype == torch.uint8
        return record(_aten.to.dtype, (value, torch.bool), {}) if is_bytes else value

    position = _MASKS[function]
    return (*args[:position], mask(args[position]), *args[position + 1 :])
