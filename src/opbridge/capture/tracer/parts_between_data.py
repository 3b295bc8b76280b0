"""The lengths of parts of tensors between numbers that data decide, as in `x[:, start:stop]`.

torch makes a new size for each such part: `x[:, start:stop]` would not be seen to be as long as `mask[:, start:stop]`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch

from opbridge.base.torch_private import torch_sizes
from opbridge.base.torch_private.torch_overrides import new_view
from opbridge.capture.tracer.made_once import since_decision
from opbridge.capture.tracer.shapes_of_parts import is_plain_slice

__all__ = ["PartsBetweenData"]

_slice = torch.ops.aten.slice.Tensor


class PartsBetweenData:
    """The parts of one graph. After a decision of the model, whose other branch may lack a part, they are new ones."""

    def __init__(self) -> None:
        self._lengths: dict[Hashable, Any] = {}

    def shape(self, function: Any, fakes: Sequence[Any]) -> Callable[..., torch.Tensor] | None:
        """What gives the shape of such a part; None for any other operator.

        Args:
            function: The operator.
            fakes: Its arguments, without values.
        """
        if function is not _slice or not any(map(torch_sizes.is_of_data, fakes[2:4])):
            return None
        x = fakes[0]
        is_strided = x.layout == torch.strided and not x.is_quantized
        return self._part if is_strided and x.dim() and not is_plain_slice(*fakes) else None

    def _part(self, x: torch.Tensor, dim: int, start: Any, end: Any = None, step: Any = 1) -> torch.Tensor:
        part = _slice(x, dim, start, end, step)
        limits = (x.shape[dim], start, end, step)
        length = self._lengths.setdefault((since_decision(), *map(str, limits)), part.shape[dim])
        if torch_sizes.is_equal(length, part.shape[dim]):
            return part
        torch_sizes.forget_fresh_symbol(part.shape[dim])
        sizes = [length if axis == dim % x.dim() else size for axis, size in enumerate(part.shape)]
        return new_view(part, sizes, part.stride(), part.storage_offset())
