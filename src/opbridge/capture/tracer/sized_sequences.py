"""Python's sequences of a symbolic length: `range(n)` and `[value] * n`, which become tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch

__all__ = ["Range", "Repeated", "SizedSequence", "repeating_lists"]


class SizedSequence(Sequence[Any]):
    """A sequence whose length is a symbolic size.

    It becomes a tensor where one is made of it, or where it is an index. Anything else needs its elements, and so fixes
    the size.
    """

    @property
    def length(self) -> Any:
        """The length, which may be symbolic."""
        raise NotImplementedError

    def tensor(self, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
        """The elements as a tensor of one or more dimensions."""
        raise NotImplementedError

    def elements(self) -> list[Any]:
        """The elements, of which there are as many as in the example."""
        raise NotImplementedError

    def __len__(self) -> int:
        return int(self.length)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.elements())

    def __getitem__(self, index: Any) -> Any:
        return self.elements()[index]


class Range(SizedSequence):
    """`range(start, stop, step)`, of which the first two may be symbolic."""

    def __init__(self, start: Any, stop: Any, step: int) -> None:
        self.start, self.stop, self.step = start, stop, step

    @property
    def length(self) -> Any:
        further = self.step - 1 if self.step > 0 else self.step + 1
        return torch.sym_max((self.stop - self.start + further) // self.step, 0)

    def tensor(self, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
        numbers = torch.arange(self.length, device=device)
        return (numbers * self.step + self.start).to(dtype or torch.int64)

    def elements(self) -> list[Any]:
        return list(range(int(self.start), int(self.stop), self.step))

    def __getitem__(self, index: Any) -> Any:
        if type(index) is int:  # as torch asks for the first, whatever there is
            return (self.start if index >= 0 else self.start + self.length * self.step) + index * self.step
        return super().__getitem__(index)


class Repeated(SizedSequence):
    """`[value] * times`, with a symbolic number of times."""

    def __init__(self, values: list[Any], times: Any) -> None:
        self.values, self.times = values, times

    @property
    def length(self) -> Any:
        return self.times * len(self.values)

    def tensor(self, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
        once = torch._refs.tensor(self.values, dtype=dtype, device=device)
        return once.repeat(self.times, *(1 for _ in range(once.dim() - 1)))

    def elements(self) -> list[Any]:
        return self.values * int(self.times)


@contextlib.contextmanager
def repeating_lists() -> Iterator[None]:
    """Within this context, a list times a symbolic size is a list of a symbolic length."""
    kept = {name: getattr(torch.SymInt, name) for name in ("__mul__", "__rmul__")}

    def replaced(name: str) -> Any:
        original = kept[name]

        def multiplied(size: torch.SymInt, other: Any) -> Any:
            if isinstance(other, list):
                return Repeated(list(other), torch.sym_max(size, 0))
            return original(size, other)

        return multiplied

    for name in kept:
        setattr(torch.SymInt, name, replaced(name))
    try:
        yield
    finally:
        for name, original in kept.items():
            setattr(torch.SymInt, name, original)
