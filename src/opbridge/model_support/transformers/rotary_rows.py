"""The tokens of a batch, in rows without the padding, for what is computed of each row's tokens in order."""

from __future__ import annotations

import torch

from opbridge.model_support.transformers.vision_grids import checked

__all__ = ["Rows", "in_turn", "padded"]


class Rows:
    """The tokens of a batch, in each row those that there are at the front.

    Attributes:
        tokens: What is said of each token, such as its type; 0 at the places behind.
        places: The indices of the tokens of a row.
        count: How many tokens there are in each row.
        inside: Whether there is a token at a place.
        wrong: Whether a row has no token, as a tensor of one element.
    """

    def __init__(self, tokens: torch.Tensor, mask: torch.Tensor | None) -> None:
        tokens = tokens.long()
        self._size = tokens.shape[1]
        self._mask = None if mask is None else mask.bool()
        self.places = torch.arange(self._size, device=tokens.device)
        if self._mask is None:
            self.count = torch.full_like(tokens[:, 0], 1) * self._size
            self._front = self.places.expand_as(tokens)
            self.tokens = tokens
        else:
            self.count = self._mask.sum(1)
            self._front = (self._mask.long().cumsum(1) - 1).clamp(min=0)
            self.tokens = _scattered(torch.where(self._mask, self._front, self._size), tokens)
        self.inside = self.places < self.count.unsqueeze(1)
        self.wrong = (self.count == 0).any()

    def columns(self, chosen: torch.Tensor) -> torch.Tensor:
        """For `table`: the columns of chosen places, which are their numbers in their row."""
        return torch.where(chosen, chosen.long().cumsum(1) - 1, self._size)

    def table(self, columns: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """The values at chosen places, one after another in each row; 0 behind."""
        return _scattered(columns, values)

    def numbers(self, columns: torch.Tensor) -> torch.Tensor:
        """How many places have a column, for each column of a row."""
        found = torch.zeros_like(torch.cat([columns, columns[:, :1]], 1))
        return found.scatter_add(1, columns, torch.ones_like(columns))[:, :-1]

    def put_back(
        self, positions: torch.Tensor, wrong: torch.Tensor, padding: int = 0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The positions of all tokens, and by how much the one after the last differs from the number of tokens."""
        positions = checked(torch.where(self.inside, positions, 0), wrong)
        after = positions.amax((0, 2)) + 1 - self.count
        if self._mask is not None:
            back = self._front.expand_as(positions)
            positions = torch.where(self._mask, positions.gather(2, back), padding)
        return positions, after.unsqueeze(1)


def in_turn(chosen: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The index of the row that each chosen element takes; the one after the last for those that take none.

    Also whether there are too few of them.
    """
    count = rows.shape[0]
    number = chosen.flatten().long().cumsum(0).reshape(chosen.shape) - 1
    return torch.where(chosen, number.clamp(max=count), count), (chosen & (number >= count)).any()


def padded(rows: torch.Tensor) -> torch.Tensor:
    """The rows and one more of zeros, for what takes none."""
    return torch.cat([rows, rows.new_zeros((1, *rows.shape[1:]))])


def _scattered(columns: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Values at other columns; those of the column after the last are left out."""
    found = torch.zeros_like(torch.cat([values, values[:, :1]], 1))
    return found.scatter(1, columns, values)[:, :-1]
