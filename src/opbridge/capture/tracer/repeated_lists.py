"""`[value] * n` with a symbolic number `n`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from opbridge.capture.tracer.sized_sequences import SizedSequence
from opbridge.capture.tracer.tensor_sequences import Numbers, chained_tensors

__all__ = ["Repeated"]


class Repeated(SizedSequence):
    """`[value] * times`, with a symbolic number of times."""

    def __init__(self, values: list[Any], times: Any) -> None:
        self.values, self.times = values, times
        self.is_indexed = len(values) == 1

    def at(self, index: Any) -> Any:
        return self.values[0] if self.is_indexed else super().at(index)

    @property
    def length(self) -> Any:
        return self.times * len(self.values)

    def tensor(self, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
        once = torch._refs.tensor(self.values, dtype=dtype, device=device)
        return once.repeat(self.times, *(1 for _ in range(once.dim() - 1)))

    def rank(self) -> int | None:
        ranks = {each.dim() if isinstance(each, torch.Tensor) else None for each in self.values}
        return ranks.pop() if len(ranks) == 1 else None

    def joined(self, dim: int) -> torch.Tensor | None:
        rank = self.rank()
        if not rank:
            return None
        once = torch.cat(self.values, dim)
        return once.repeat([self.times if axis == dim % rank else 1 for axis in range(rank)])

    def stacked(self, dim: int) -> torch.Tensor | None:
        if self.rank() is None:
            return None
        once = torch.stack(self.values)
        return once.repeat([self.times, *(1 for _ in once.shape[1:])]).movedim(0, dim)

    def taken(self, places: torch.Tensor) -> SizedSequence | None:
        return Repeated(self.values, places.shape[0]) if self.is_indexed else None

    def chained(self, pieces: Sequence[Any]) -> SizedSequence | None:
        if all(type(each) is int for each in self.values):
            return Numbers(self.tensor(torch.int64)).chained(pieces)
        return chained_tensors(pieces)

    def integers(self) -> torch.Tensor | None:
        return self.tensor(torch.int64) if all(type(each) is int for each in self.values) else None

    def elements(self) -> list[Any]:
        return self.values * int(self.times)
