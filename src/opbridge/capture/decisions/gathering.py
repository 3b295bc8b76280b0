"""Lists that the turns of a loop append to, as tensors with a row for each element, which the loop carries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from opbridge.base.torch_private import torch_sizes
from opbridge.capture.decisions.forms import Pass

__all__ = ["Gathering", "first_rows", "no_turn", "rows_of", "rows_with"]


@dataclass(frozen=True)
class Gathering:
    """The elements of a list that has grown in a loop, in each pass of a block that makes a tensor of them.

    Attributes:
        nodes: The operators that make the tensor.
        loop: The block that the turns of the loop begin with.
        rows: What stands for the tensor that the loop carries.
    """

    nodes: Mapping[Pass, Node]
    loop: Any
    rows: Any

    @property
    def some(self) -> Node:
        """One of the operators."""
        return next(iter(self.nodes.values()))

    def argument(self, each: Pass, index: int) -> Any:
        """An argument of the operator for the loop that a pass is in a turn of, or before the first one."""
        way, number = each
        return next((node.args[index] for node in self._of(each)), None) if number < len(way.marks) else None

    def elements(self, each: Pass) -> list[Node] | None:
        """The elements of the turn that ends with a pass; None where no operator has them."""
        way, number = each
        turn = way.marks[number].turn
        for node in self._of(each):
            elements, _, _, _, count, _ = node.args
            found: Any = elements
            if turn and len(found) >= turn * count:
                return list(found[(turn - 1) * count : turn * count])
        return None

    def _of(self, each: Pass) -> list[Node]:
        way, number = each
        loop = way.marks[number].loop
        return [node for (other, _), node in self.nodes.items() if other is way and node.args[5] == loop]


def no_turn() -> torch.Tensor:
    """The number of turns before the first one."""
    return torch.zeros((), dtype=torch.int64)


def first_rows(total: Any, sizes: list[Any], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A tensor with a row for each element that there will be."""
    return torch.zeros((total, *sizes), dtype=dtype, device=device)


def rows_with(rows: torch.Tensor, turns: torch.Tensor, elements: list[torch.Tensor]) -> torch.Tensor:
    """The rows with the elements of a turn.

    Args:
        rows: The rows.
        turns: How many turns there have been, with this one.
        elements: Its elements.
    """
    count = len(elements)
    first = ((turns - 1) * count).reshape(1).to(rows.device)
    places = first if count == 1 else first + torch.arange(count, device=rows.device)
    new = elements[0].unsqueeze(0) if count == 1 else torch.stack(elements)
    return rows.index_copy(0, places, new)


def rows_of(rows: torch.Tensor, length: Any, total: Any) -> torch.Tensor:
    """The rows that turns have written."""
    if torch_sizes.is_equal(length, total):
        return rows
    torch._check(length >= 0)
    torch._check(length <= rows.shape[0])
    return rows.narrow(0, 0, length)
