"""Lists that a loop appends to, as tensors that the loop carries: each iteration adds its elements at the end.

What a loop carries so, and nothing in it reads, an ONNX Loop gives as a scan output, which costs nothing in each
iteration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from opbridge.base.torch_private import torch_proxies, torch_sizes
from opbridge.base.torch_private.torch_branch_operators import GATHERED, GATHERED_ALONG, GATHERED_NUMBERS
from opbridge.capture.control_flow.unify_arguments import Pass

__all__ = ["ENDS", "GATHERING", "LENGTH", "LOOP", "Gathering", "no_iteration", "no_rows", "rows_of", "rows_with"]

GATHERING = (GATHERED, GATHERED_ALONG, GATHERED_NUMBERS)
"""The operators that make a tensor of the elements of a list that has grown in a loop."""

_ELEMENTS, LENGTH, SIZES, ENDS, LOOP, _DIM = range(6)
"""Their arguments."""


@dataclass(frozen=True)
class Gathering:
    """The elements of a list that has grown in a loop, in each pass of a block that makes a tensor of them.

    Attributes:
        nodes: The operators that make the tensor.
        loop: The block that the iterations of the loop begin with.
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
        """The sizes of an element of the loop that a pass is in, or before its first iteration; None: not known."""
        path, number = each
        return next((node.args[SIZES] for node in self._of(each)), None) if number < len(path.events) else None

    def elements(self, each: Pass, is_iteration: bool) -> list[Node] | None:
        """The elements of the iteration that ends with a pass; None where no operator has them.

        Args:
            each: The pass.
            is_iteration: Whether it is an iteration of the loop, and not what is before it: of that the elements of all
                iterations that end with the pass are meant.
        """
        path, number = each
        if number >= len(path.events):
            return None
        iteration = path.events[number].iteration
        for node in self._of(each):
            ends: Any = (0, *node.args[ENDS])
            found: Any = node.args[_ELEMENTS]
            if (iteration or not is_iteration) and len(ends) > iteration:
                return list(found[ends[iteration - 1] if is_iteration else 0 : ends[iteration]])
        return None

    def _of(self, each: Pass) -> list[Node]:
        path, number = each
        loop = path.events[number].loop
        return [node for (other, _), node in self.nodes.items() if other is path and node.args[LOOP] == loop]


def no_iteration() -> torch.Tensor:
    """The number of iterations before the first one."""
    return torch.zeros((), dtype=torch.int64)


def no_rows(sizes: list[Any], dim: int | None, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """What a loop carries before its first iteration.

    Args:
        sizes: The sizes of an element.
        dim: The dimension that elements are joined along; None for a new first one.
        dtype: Their dtype.
        device: Their device.
    """
    shape = [0, *sizes] if dim is None else [*sizes[:dim], 0, *sizes[dim + 1 :]]
    return torch.zeros(shape, dtype=dtype, device=device)


def rows_with(rows: torch.Tensor, elements: list[Any], dim: int | None) -> torch.Tensor:
    """What a loop carries with the elements of an iteration: tensors, or numbers."""
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
