"""Lists that the turns of a loop append to, as tensors which the loop carries: each turn adds its elements at the end.

What a loop carries so, and nothing in it reads, an ONNX Loop gives as a scan output, which costs nothing in each turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from opbridge.base.torch_private import torch_proxies, torch_sizes
from opbridge.base.torch_private.torch_decisions import GATHERED, GATHERED_ALONG, GATHERED_NUMBERS
from opbridge.capture.decisions.forms import Pass

__all__ = ["ENDS", "GATHERING", "LENGTH", "LOOP", "Gathering", "no_rows", "no_turn", "rows_of", "rows_with"]

GATHERING = (GATHERED, GATHERED_ALONG, GATHERED_NUMBERS)
"""The operators that make a tensor of the elements of a list that has grown in a loop."""

_ELEMENTS, LENGTH, SIZES, ENDS, LOOP, _DIM = range(6)
"""Their arguments."""


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

    @property
    def dim(self) -> int | None:
        """The dimension that the elements are joined along; None for a new first one."""
        dim: Any = None if self.some.target is GATHERED else self.some.args[_DIM]
        return dim

    def sizes(self, each: Pass) -> Any:
        """The sizes of an element of the loop that a pass is in a turn of, or before the first one; None: not known."""
        way, number = each
        return next((node.args[SIZES] for node in self._of(each)), None) if number < len(way.marks) else None

    def elements(self, each: Pass, is_turn: bool) -> list[Node] | None:
        """The elements of the turn that ends with a pass; None where no operator has them.

        Args:
            each: The pass.
            is_turn: Whether it is a turn of the loop, and not what is before it: of that the elements of all turns that
                end with the pass are meant.
        """
        way, number = each
        if number >= len(way.marks):
            return None
        turn = way.marks[number].turn
        for node in self._of(each):
            ends: Any = (0, *node.args[ENDS])
            found: Any = node.args[_ELEMENTS]
            if (turn or not is_turn) and len(ends) > turn:
                return list(found[ends[turn - 1] if is_turn else 0 : ends[turn]])
        return None

    def _of(self, each: Pass) -> list[Node]:
        way, number = each
        loop = way.marks[number].loop
        return [node for (other, _), node in self.nodes.items() if other is way and node.args[LOOP] == loop]


def no_turn() -> torch.Tensor:
    """The number of turns before the first one."""
    return torch.zeros((), dtype=torch.int64)


def no_rows(sizes: list[Any], dim: int | None, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """What a loop carries before its first turn.

    Args:
        sizes: The sizes of an element.
        dim: The dimension that elements are joined along; None for a new first one.
        dtype: Their dtype.
        device: Their device.
    """
    shape = [0, *sizes] if dim is None else [*sizes[:dim], 0, *sizes[dim + 1 :]]
    return torch.zeros(shape, dtype=dtype, device=device)


def rows_with(rows: torch.Tensor, elements: list[Any], dim: int | None) -> torch.Tensor:
    """What a loop carries with the elements of a turn: tensors, or numbers."""
    if not isinstance(elements[0], torch.Tensor):
        return torch.cat([rows, torch._refs.tensor(elements, dtype=rows.dtype, device=rows.device)])
    if dim is not None:
        return torch.cat([rows, *elements], dim)
    new = elements[0].unsqueeze(0) if len(elements) == 1 else torch.stack(elements)
    return torch.cat([rows, new])


def rows_of(rows: torch.Tensor, length: Any, dim: int | None) -> torch.Tensor:
    """What a loop has carried to its end, of which the length may be known."""
    if length is not None and not torch_sizes.is_equal(rows.shape[dim or 0], length):
        with torch_proxies.Disabled():  # a body that reads the rows of a loop outside of it has no node for their size
            torch._check(rows.shape[dim or 0] == length)
    return rows
