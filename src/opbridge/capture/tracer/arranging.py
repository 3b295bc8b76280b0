"""`hstack`, `vstack` and the like of lists whose length is known only when the model runs, by `cat` and `stack`."""

from __future__ import annotations

from typing import Protocol

import torch

__all__ = ["ARRANGED", "Elements", "arranged"]

_DIMENSION = {"hstack": 1, "column_stack": 1, "vstack": 0, "row_stack": 0, "dstack": 2}
"""The dimension that tensors with enough dimensions are concatenated along."""

ARRANGED = tuple(_DIMENSION)
"""The names of these functions in `torch`."""


class Elements(Protocol):
    """Tensors of which the number is symbolic."""

    def rank(self) -> int | None:
        """How many dimensions each has; None where that is not known."""

    def joined(self, dim: int) -> torch.Tensor | None:
        """What `torch.cat` gives for them; None where that is not known."""

    def stacked(self, dim: int) -> torch.Tensor | None:
        """What `torch.stack` gives for them; None where that is not known."""


def arranged(name: str, elements: Elements) -> torch.Tensor | None:
    """What one of these functions gives; None where `cat` or `stack` of the tensors is not known.

    Tensors with too few dimensions get more, as torch does it: a row for `vstack`, a column for `column_stack`.

    Args:
        name: The name of the function.
        elements: The tensors.
    """
    rank, dim = elements.rank(), _DIMENSION[name]
    if rank is None:
        return None
    if rank > dim and rank > 1:
        return elements.joined(dim)
    if name == "hstack" and rank == 1:
        return elements.joined(0)
    # A new dimension, among those that the tensors get.
    new = {"hstack": 0, "column_stack": min(rank, 1), "vstack": 0, "row_stack": 0, "dstack": rank}[name]
    found = elements.stacked(new)
    if found is None:
        return None
    if rank == 0:
        return {"column_stack": found.reshape(1, -1), "dstack": found.reshape(1, 1, -1)}.get(
            name, found if name == "hstack" else found.reshape(-1, 1)
        )
    return found.unsqueeze(0) if name == "dstack" and rank == 1 else found
