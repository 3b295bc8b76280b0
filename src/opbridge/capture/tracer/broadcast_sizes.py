"""Sizes of inputs that an operator broadcasts to sizes that only data decide.

    hidden = patches + positions[index]
    hidden = hidden.reshape(1, hidden.shape[0], heads, -1)

Where data decide how many rows there are on the right, torch describes the sum as if both had as many, and from then on
takes both sizes for the same number. If there is one row on the left, it is added to all of them, and the sum has as
many rows as there are on the right. So what is computed with that number from there on is computed with the size of the
sum, which is right for both.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch

from opbridge.base.torch_private import torch_sizes
from opbridge.capture.tracer.symbolic_loops import active_loops

__all__ = ["dims_beside_data"]


def dims_beside_data(function: Any, args: Sequence[Any]) -> dict[int, list[torch.SymInt]]:
    """The dimensions of a result in which a size of an input that may be 1 meets one that data decide.

    Args:
        function: The operator.
        args: Its positional arguments, without values.

    Returns:
        For each, counted from the last, the symbolic sizes that meet there. There is none for an operator that is not
        computed element by element, and in a loop, whose iterations would each have a size of their own.
    """
    if torch.Tag.pointwise not in getattr(function, "tags", ()):
        return {}
    shapes = [each.shape[::-1] for each in args if isinstance(each, torch.Tensor)]
    found = {
        -1 - index: [size for size in sizes if isinstance(size, torch.SymInt)]
        for index, sizes in enumerate(itertools.zip_longest(*shapes, fillvalue=1))
        if any(map(torch_sizes.is_of_data, sizes)) and any(map(_is_open_input, sizes))
    }
    loops = active_loops() if found else None
    return {} if loops is not None and loops.running else found


def _is_open_input(size: Any) -> bool:
    """Whether a size is one of the inputs' that may be 1."""
    return not torch_sizes.is_of_data(size) and torch_sizes.may_be_one(size)
