"""Small models that decide by the sizes of their inputs, each with sizes that take every side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

__all__ = ["DECIDING_BY_SIZE", "DecidingBySize"]


@dataclass(frozen=True)
class DecidingBySize:
    """A model that decides by sizes.

    Attributes:
        model: The model, of one tensor of rows of four.
        example: The sizes of the example, which are all dynamic.
        sizes: Sizes on each side, and beside each bound.
        on_sizes: How many decisions on sizes the file has.
        on_data: How many others it has.
    """

    model: Any
    example: tuple[int, ...]
    sizes: tuple[tuple[int, ...], ...]
    on_sizes: int
    on_data: int = 0

    @property
    def name(self) -> str:
        return type(self.model).__name__


DECIDING_BY_SIZE: list[DecidingBySize] = []


def _deciding(
    example: tuple[int, ...], sizes: tuple[tuple[int, ...], ...], on_sizes: int = 1, on_data: int = 0
) -> Callable[[Any], Any]:
    def add(model: type[nn.Module]) -> type[nn.Module]:
        torch.manual_seed(0)
        DECIDING_BY_SIZE.append(DecidingBySize(model().eval(), example, sizes, on_sizes, on_data))
        return model

    return add


class _Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(4, 4), nn.Linear(4, 4)


@_deciding((3,), ((1,), (2,), (3,), (8,)))
class OneOrMore(_Layers):
    def forward(self, x):
        return self.left(x) if x.shape[0] == 1 else self.right(x)


@_deciding((1,), ((1,), (2,), (8,)))
class OneInTheExample(_Layers):
    def forward(self, x):
        return self.left(x) if len(x) == 1 else self.right(x)


@_deciding((3,), ((0,), (1,), (3,), (8,)))
class NoneOrMore(_Layers):
    def forward(self, x):
        if x.shape[0] == 0:
            return x.new_ones(1, 4)
        return self.left(x).sum(0, keepdim=True)


@_deciding((3, 5), ((1, 20), (1, 21), (3, 5), (3, 7), (4, 5), (7, 3), (1, 1)))
class BoundOnAProduct(_Layers):
    def forward(self, x):
        return self.left(x) if x.shape[0] * x.shape[1] > 20 else self.right(x)


@_deciding((3,), ((1,), (2,), (3,), (4,), (8,)))
class EvenOrOdd(_Layers):
    def forward(self, x):
        return self.left(x) if x.shape[0] % 2 else self.right(x)


@_deciding((3, 5), ((3, 5), (4, 6), (5, 6), (4, 7), (5, 7), (1, 1), (9, 9)), on_sizes=3)
class TwoThatAreIndependent(_Layers):
    def forward(self, x):
        x = self.left(x) if x.shape[0] > 4 else self.right(x)
        return x.relu() if x.shape[1] > 6 else x.tanh()


@_deciding((3,), ((1,), (2,), (3,), (8,)))
class InASubmodule(_Layers):
    def __init__(self) -> None:
        super().__init__()
        self.inner = OneOrMore()

    def forward(self, x):
        return self.right(self.inner(self.left(x))).relu()


@_deciding((3,), ((1,), (4,), (5,), (8,)), on_data=2)
class BesideDataAfterIt(_Layers):
    def forward(self, x):
        x = self.left(x) if x.shape[0] > 4 else self.right(x)
        return x.relu() if x.sum() > 0 else x.tanh()


@_deciding((3,), ((1,), (4,), (5,), (8,)), on_data=1)
class BesideDataBeforeIt(_Layers):
    def forward(self, x):
        x = self.left(x) if x.sum() > 0 else self.right(x).tanh()
        return x.relu() if x.shape[0] > 4 else x.exp()


@_deciding((3,), ((1,), (4,), (5,), (8,)), on_sizes=0)
class TheSameOnBothSides(_Layers):
    def forward(self, x):
        return self.left(x).relu() if x.shape[0] > 4 else self.left(x).relu()  # noqa: RUF034


@_deciding((3,), ((1,), (3,), (4,), (5,), (8,)))
class OtherSizesOfTheOutput(_Layers):
    def forward(self, x):
        if x.shape[0] < 4:
            x = nn.functional.pad(x, (0, 0, 0, 4 - x.shape[0]))
        return self.left(x)


@_deciding((5,), ((1,), (3,), (4,), (5,), (6,), (9,)), on_sizes=2)
class ThreeSides(_Layers):
    def forward(self, x):
        if x.shape[0] < 4:
            return self.left(x)
        return self.right(x) if x.shape[0] < 6 else x * 2


@_deciding((6,), ((1,), (3,), (4,), (5,), (9,)), on_data=1)
class BesideALoop(_Layers):
    """A loop over a size that a decision on it may have fixed before."""

    def forward(self, x):
        if x.shape[0] < 4:
            x = nn.functional.pad(x, (0, 0, 0, 4 - x.shape[0]))
        state, found = x.new_zeros(4), []
        for row in x:
            state = torch.tanh(self.left(row) + state)
            found.append(state)
        return torch.stack(found)


@_deciding((6,), ((1,), (3,), (4,), (5,), (9,)), on_data=1)
class StateBesideALoop(_Layers):
    """A recurrence over the rows, after the last four of them, or zeros in the place of those that there are not."""

    def forward(self, x):
        length, last, kept = x.shape[0], x, x.new_zeros(4, 4)
        if length < 4:
            last = nn.functional.pad(x, (0, 0, 4 - length, 0))
        kept.copy_(last[-4:])
        state, found = x.new_zeros(4), []
        for turn in range(length):
            state = torch.tanh(self.left(x[turn]) + state)
            found.append(state)
        return torch.cat([self.right(kept), torch.stack(found)])


@_deciding((6,), ((6,), (2,), (8,), (11,)))
class WritingToAConstantOnOneSide(_Layers):
    def forward(self, x):
        if x.shape[0] == 6:
            return self.left(x)
        at = torch.arange(4, dtype=torch.float64)
        at /= 2.0
        return self.right(x) * at.float()


@_deciding((3,), ((1,), (3,), (78,), (79,), (80,), (81,)))
class TwoSizesFarAway(_Layers):
    def forward(self, x):
        return self.left(x) if (x.shape[0] + 1) // 2 == 40 else self.right(x)


@_deciding((12, 5), ((12, 5), (15, 5), (14, 5), (11, 1), (5, 15)))
class ADifferenceOfSizes(_Layers):
    def forward(self, x):
        return self.left(x) if x.shape[0] == x.shape[1] + 10 else self.right(x)


@_deciding((7,), ((1,), (2,), (3,), (4,), (8,)), on_sizes=2)
class SizesOfADict(_Layers):
    def forward(self, x):
        return self.left(x) * {1: 2.0, 3: -1.0}.get(x.shape[0], 0.5)
