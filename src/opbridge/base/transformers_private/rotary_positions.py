"""The rotary positions of tokens of text, images and videos, computed for a whole batch at once.

transformers' `get_rope_index` goes over the texts of a batch, in each over the runs of tokens of one type, and takes
the next grid for each run of an image or a video. How many runs there are is a matter of the values, and Python's
lists, iterators and dicts hold the rest. The same positions follow from cumulative sums, in tensors of the batch's
shape, without a size that data decide:

1. The tokens that the attention mask leaves are moved to the front of their row.
2. Where the type changes, a run begins. Each run has a column in a table: its type, its length, its grid, the position
   it begins with, and how many tokens it gives positions to. That is its length for text, and what the grid says for
   an image.
3. The positions of a row are those of its runs, one after another; each token looks its run up in the table.
4. They are moved back to the tokens that they belong to.

Where `get_rope_index` raises an error, so does this: with no grid for a run, with a type that has none, and with grids
that do not fit the number of tokens. It raises one more: a run of a single position is not repeated for all tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

__all__ = ["Grids", "positions_of_images_in_text", "positions_of_runs"]


@dataclass(frozen=True)
class Grids:
    """The images, or the videos, of a batch.

    Attributes:
        kind: The type of their tokens.
        sizes: For each, its frames, rows and columns of merged patches.
        interval: For each, by how much the positions of two frames differ; None: by one.
    """

    kind: int
    sizes: torch.Tensor
    interval: torch.Tensor | None = None


def positions_of_runs(
    types: torch.Tensor, mask: torch.Tensor | None, grids: Sequence[Grids], *, breaks: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """The positions of tokens, in time, in height and in width.

    Args:
        types: The type of each token, in a row for each text: 0 for text.
        mask: Which tokens there are; None: all.
        grids: The grids that runs of other types take, in order.
        breaks: Whether each row of an image ends with a token more, and frames follow each other in all three.

    Returns:
        The positions, of shape (3, batch, sequence), 0 for tokens that there are not; and by how much the position
        after the last differs from the number of tokens, of shape (batch, 1).
    """
    runs = _Runs(types, mask)
    kind, length = runs.table(runs.types), runs.lengths()
    is_text = runs.are & (kind == 0)
    wrong = runs.wrong | (runs.are & (kind != 0) & ~_any([kind == each.kind for each in grids], kind)).any()

    sizes = torch.zeros_like(kind).unsqueeze(2).expand(-1, -1, 3)
    interval = torch.ones_like(kind)
    for each in grids:
        chosen = runs.are & (kind == each.kind)
        index, is_short = _in_turn(chosen, each.sizes)
        sizes = sizes + _padded(each.sizes)[index]
        wrong = wrong | is_short
        if each.interval is not None:
            at, is_short = _in_turn(chosen, each.interval)
            interval = torch.where(chosen, _padded(each.interval)[at], interval)
            wrong = wrong | is_short
    wrong = wrong | (sizes < 0).any()
    frames, rows, columns = sizes.unbind(2)
    if breaks:
        columns = columns + (runs.are & ~is_text).long()
    count = torch.where(is_text, length, frames * rows * columns)
    larger = torch.maximum(rows, columns)
    if breaks:
        interval = larger
        wrong = wrong | (runs.are & (count == 0)).any()
    advance = torch.where(is_text, length, frames * larger if breaks else larger)
    wrong = wrong | (count.sum(1) != runs.count).any()

    first, begin = count.cumsum(1) - count, advance.cumsum(1) - advance
    owner = runs.owners(first)
    within = runs.places - first.gather(1, owner)
    columns, rows = (each.clamp(min=1).gather(1, owner) for each in (columns, rows))
    frame, rest = within // (rows * columns), within % (rows * columns)
    time = (frame * interval.gather(1, owner)).long()
    shift = time if breaks else torch.zeros_like(time)
    seen = torch.stack([time, rest // columns + shift, rest % columns + shift])
    positions = torch.where(is_text.gather(1, owner), within, seen) + begin.gather(1, owner)
    return runs.put_back(positions, wrong)


def positions_of_images_in_text(
    types: torch.Tensor, mask: torch.Tensor | None, sizes: torch.Tensor | None, axes: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The positions of tokens that count on through images; those of an image's own tokens are in the last three axes.

    A run of an image may have one token more on each side. Each row of an image ends with a token more.

    Args:
        types: The type of each token, in a row for each text: 1 for images.
        mask: Which tokens there are; None: all.
        sizes: The rows and columns of each image; None: there are none, whatever the types are.
        axes: The number of axes.
    """
    runs = _Runs(types, mask)
    counted = runs.places.expand_as(types)
    if sizes is None:
        return runs.put_back(counted.expand(axes, -1, -1), runs.wrong)
    chosen = runs.are & (runs.table(runs.types) == 1)
    index, is_short = _in_turn(chosen, sizes)
    rows, columns = _padded(sizes)[index].unbind(2)
    columns = columns + chosen.long()
    spare = runs.lengths() - rows * columns
    is_wrong = (chosen & (spare != 0) & (spare != 2)) | (rows < 0) | (columns < 0)
    wrong = runs.wrong | is_short | is_wrong.any() | (chosen.sum() != sizes.shape[0])

    run = runs.ordinal.clamp(min=0)
    skipped = torch.where(chosen & (spare == 2), 1, 0)
    begin = runs.table(counted)
    within = counted - (begin + skipped).gather(1, run)
    size = (rows * columns).gather(1, run)
    is_image = runs.inside & chosen.gather(1, run) & (within >= 0) & (within < size)
    across = columns.clamp(min=1).gather(1, run)
    number = index.gather(1, run)
    seen = torch.stack([within % across, within // across, number])
    last = torch.where(is_image, seen, counted)
    return runs.put_back(torch.cat([counted.expand(axes - 3, -1, -1), last]), wrong)


class _Runs:
    """The runs of tokens of one type, in each row of a batch.

    Attributes:
        types: The types, those of the tokens that there are at the front.
        places: The indices of the tokens of a row.
        count: How many tokens there are in each row.
        inside: Whether there is a token at a place.
        ordinal: The number of the run that each is in.
        are: Whether there is a run of a number.
        wrong: Whether a row has no token, as a tensor of one element.
    """

    def __init__(self, types: torch.Tensor, mask: torch.Tensor | None) -> None:
        types = types.long()
        self._sizes = types.shape
        self._mask = None if mask is None else mask.bool()
        self.places = torch.arange(types.shape[1], device=types.device)
        if self._mask is None:
            self.count = torch.full_like(types[:, 0], 1) * types.shape[1]
            self._front = self.places.expand_as(types)
            self.types = types
        else:
            self.count = self._mask.sum(1)
            self._front = (self._mask.long().cumsum(1) - 1).clamp(min=0)
            self.types = self._scattered(torch.where(self._mask, self._front, types.shape[1]), types)
        self.inside = self.places < self.count.unsqueeze(1)
        before = torch.cat([self.types[:, :1] - 1, self.types[:, :-1]], 1)
        begins = self.inside & (self.types != before)
        self.ordinal = begins.long().cumsum(1) - 1
        self._column = torch.where(begins, self.ordinal, types.shape[1])
        self.are = self.places < begins.sum(1, keepdim=True)
        self.wrong = (self.count == 0).any()

    def table(self, values: torch.Tensor) -> torch.Tensor:
        """The values that runs begin with, by the numbers of the runs."""
        return self._scattered(self._column, values)

    def lengths(self) -> torch.Tensor:
        """How many tokens each run has."""
        column = torch.where(self.inside, self.ordinal, self._sizes[1])
        return self._added(column)

    def owners(self, first: torch.Tensor) -> torch.Tensor:
        """The number of the run that each place belongs to, where runs begin at places of their own."""
        begun = self._added(torch.where(self.are, first.clamp(max=self._sizes[1]), self._sizes[1]))
        return (begun.cumsum(1) - 1).clamp(min=0)

    def put_back(self, positions: torch.Tensor, wrong: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The positions of all tokens, and by how much the one after the last differs from the number of tokens."""
        # Where something is wrong, this asks for an element that there is not: an error.
        nothing = torch.zeros(1, dtype=torch.int64, device=wrong.device).index_select(0, wrong.long().reshape(1))
        positions = torch.where(self.inside, positions, 0) + nothing
        after = positions.amax((0, 2)) + 1 - self.count
        if self._mask is not None:
            back = self._front.expand_as(positions)
            positions = torch.where(self._mask, positions.gather(2, back), 0)
        return positions, after.unsqueeze(1)

    def _added(self, columns: torch.Tensor) -> torch.Tensor:
        found = torch.zeros_like(torch.cat([columns, columns[:, :1]], 1))
        return found.scatter_add(1, columns, torch.ones_like(columns))[:, :-1]

    def _scattered(self, columns: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Values at other columns; those of the column after the last are left out."""
        found = torch.zeros_like(torch.cat([values, values[:, :1]], 1))
        return found.scatter(1, columns, values)[:, :-1]


def _in_turn(chosen: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The index of the row that each run takes, which is the one after the last for runs that take none.

    Also whether there are too few of them.
    """
    count = rows.shape[0]
    number = chosen.flatten().long().cumsum(0).reshape(chosen.shape) - 1
    return torch.where(chosen, number.clamp(max=count), count), (chosen & (number >= count)).any()


def _padded(rows: torch.Tensor) -> torch.Tensor:
    return torch.cat([rows, rows.new_zeros((1, *rows.shape[1:]))])


def _any(conditions: Sequence[torch.Tensor], like: torch.Tensor) -> torch.Tensor:
    found = torch.zeros_like(like, dtype=torch.bool)
    for each in conditions:
        found = found | each
    return found
