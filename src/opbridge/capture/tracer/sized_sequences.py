"""Python's sequences of a symbolic length: `range(n)` and `[value] * n`, which become tensors."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from opbridge.base.attributes import replacing

__all__ = ["Joined", "Range", "Repeated", "SizedSequence", "repeating_lists"]


class SizedSequence(Sequence[Any]):
    """A sequence whose length is a symbolic size.

    It becomes a tensor where one is made of it, or where it is an index. Anything else needs its elements, and so fixes
    the size.
    """

    @property
    @abstractmethod
    def length(self) -> Any:
        """The length, which may be symbolic."""

    @abstractmethod
    def tensor(self, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
        """The elements as a tensor of one or more dimensions."""

    @abstractmethod
    def elements(self) -> list[Any]:
        """The elements, of which there are as many as in the example."""

    def __len__(self) -> int:
        return int(self.length)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.elements())

    def __getitem__(self, index: Any) -> Any:
        return self.elements()[index]

    def __add__(self, other: Any) -> Any:
        return self.elements() + (other.elements() if isinstance(other, SizedSequence) else other)

    def __radd__(self, other: Any) -> Any:
        return Joined(other, self) if isinstance(other, list) else NotImplemented


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
        length = self.length
        if isinstance(index, slice):
            step = 1 if index.step is None else index.step
            if type(step) is not int or step < 1:
                return self.elements()[index]
            begin = _within(0 if index.start is None else index.start, length)
            end = _within(length if index.stop is None else index.stop, length)
            return Range(self.start + begin * self.step, self.start + end * self.step, self.step * step)
        if not -length <= index < length:
            raise IndexError("range object index out of range")
        return self.start + (index if index >= 0 else length + index) * self.step


def _within(index: Any, length: Any) -> Any:
    """A limit of a slice, from 0 to the length."""
    if type(index) is int:
        return torch.sym_min(index, length) if index >= 0 else torch.sym_max(length + index, 0)
    return torch.sym_max(torch.sym_min(index, length), 0)


class Joined(SizedSequence):
    """`[...] + sequence`, a list before a sequence of a symbolic length."""

    def __init__(self, first: list[Any], rest: SizedSequence) -> None:
        self.first, self.rest = first, rest

    @property
    def length(self) -> Any:
        return len(self.first) + self.rest.length

    def tensor(self, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
        parts = torch._refs.tensor(self.first, dtype=dtype, device=device), self.rest.tensor(dtype, device)
        return torch.cat(parts)

    def elements(self) -> list[Any]:
        return self.first + self.rest.elements()

    def __getitem__(self, index: Any) -> Any:
        count = len(self.first)
        if type(index) is int:
            if index >= 0:
                return self.first[index] if index < count else self.rest[index - count]
            if self.rest.length >= -index:
                return self.rest[index]
        elif type(index.start) is int and index.start >= count and (index.stop is None or index.stop < 0):
            return self.rest[slice(index.start - count, index.stop, index.step)]
        return self.elements()[index]


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

    def following(original: Callable[..., Any]) -> Any:
        def multiplied(size: torch.SymInt, other: Any) -> Any:
            if isinstance(other, list):
                return Repeated(list(other), torch.sym_max(size, 0))
            return original(size, other)

        return multiplied

    kind: Any = torch.SymInt
    with replacing((kind, "__mul__", following(kind.__mul__)), (kind, "__rmul__", following(kind.__rmul__))):
        yield
