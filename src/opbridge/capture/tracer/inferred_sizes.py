"""The size that `reshape` and `view` infer where data decide others: `x.reshape(h // 2, 2, w // 2, 2, -1)`.

torch divides the number of elements by the product of the other sizes, and does not know that `4 * h * w` divided by
`4 * (h // 2) * (w // 2)` is 4, as it is where `h` and `w` are even. Then nothing says that this size is the same in
each iteration of a loop, or in each branch. So the size is written as a number where it is one if each division is
exact. Where a division is not, the sizes do not multiply to the number of elements, which is an error when the file
runs; PyTorch raises one too, or infers a size for which the model is not made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from opbridge.base.torch_private import torch_sizes

__all__ = ["with_inferred_size"]


def with_inferred_size(x: torch.Tensor, form: tuple[Any, ...]) -> tuple[Any, ...]:
    """The sizes of a view of a tensor, with the one that is given as -1 where it is known.

    Args:
        x: The tensor, without values.
        form: What follows the tensor among the arguments: the sizes, or one sequence of them.
    """
    is_sequence = len(form) == 1 and isinstance(form[0], (list, tuple))
    sizes = form[0] if is_sequence else form
    given = [each for each in sizes if not (type(each) is int and each == -1)]
    if len(given) != len(sizes) - 1 or not any(map(torch_sizes.is_of_data, given)):
        return form
    found = _quotient(x.shape, given)
    if found is None:
        return form
    whole = tuple(found if type(each) is int and each == -1 else each for each in sizes)
    return (whole,) if is_sequence else whole


def _quotient(whole: Sequence[Any], parts: Sequence[Any]) -> int | None:
    """The number by which some sizes multiply to others; None where it depends on sizes, or there is none."""
    if not all(type(each) in (int, torch.SymInt) for each in (*whole, *parts)):
        return None
    found = torch_sizes.quotient_if_exact(math.prod(whole), math.prod(parts))
    return found if found is not None and found > 0 else None
