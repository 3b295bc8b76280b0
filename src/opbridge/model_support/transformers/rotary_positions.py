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

from opbridge.model_support.transformers.rotary_rows import Rows, in_turn, padded

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
    kind, length = runs.of_first(runs.tokens), runs.lengths()
    is_text = runs.are & (kind == 0)
    wrong = runs.wrong | (runs.are & (kind != 0) & ~_any([kind == each.kind for each in grids], kind)).any()

    sizes = torch.zeros_like(kind).unsqueeze(2).expand(-1, -1, 3)
    interval = torch.ones_like(kind)
    for each in grids:
        chosen = runs.are & (kind == each.kind)
        index, is_short = in_turn(chosen, each.sizes)
        sizes = sizes + padded(each.sizes)[index]
        wrong = wrong | is_short
        if each.interval is not None:
            at, is_short = in_turn(chosen, each.interval)
            interval = torch.where(chosen, padded(each.interval)[at], interval)
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
    chosen = runs.are & (runs.of_first(runs.tokens) == 1)
    index, is_short = in_turn(chosen, sizes)
    rows, columns = padded(sizes)[index].unbind(2)
    columns = columns + chosen.long()
    spare = runs.lengths() - rows * columns
    is_wrong = (chosen & (spare != 0) & (spare != 2)) | (rows < 0) | (columns < 0)
    wrong = runs.wrong | is_short | is_wrong.any() | (chosen.sum() != sizes.shape[0])

    run = runs.ordinal.clamp(min=0)
    skipped = torch.where(chosen & (spare == 2), 1, 0)
    begin = runs.of_first(counted)
    within = counted - (begin + skipped).gather(1, run)
    size = (rows * columns).gather(1, run)
    is_image = runs.inside & chosen.gather(1, run) & (within >= 0) & (within < size)
    across = columns.clamp(min=1).gather(1, run)
    number = index.gather(1, run)
    seen = torch.stack([within % across, within // across, number])
    last = torch.where(is_image, seen, counted)
    return runs.put_back(torch.cat([counted.expand(axes - 3, -1, -1), last]), wrong)


class _Runs(Rows):
    """The runs of tokens of one type, in each row of a batch.

    Attributes:
        ordinal: The number of the run that each token is in.
        are: Whether there is a run of a number.
    """

    def __init__(self, types: torch.Tensor, mask: torch.Tensor | None) -> None:
        super().__init__(types, mask)
        before = torch.cat([self.tokens[:, :1] - 1, self.tokens[:, :-1]], 1)
        begins = self.inside & (self.tokens != before)
        self.ordinal = begins.long().cumsum(1) - 1
        self._begin = self.columns(begins)
        self.are = self.places < begins.sum(1, keepdim=True)

    def of_first(self, values: torch.Tensor) -> torch.Tensor:
        """The values that runs begin with, by the numbers of the runs."""
        return self.table(self._begin, values)

    def lengths(self) -> torch.Tensor:
        """How many tokens each run has."""
        return self.numbers(torch.where(self.inside, self.ordinal, self.ordinal.shape[1]))

    def owners(self, first: torch.Tensor) -> torch.Tensor:
        """The number of the run that each place belongs to, where runs begin at places of their own."""
        size = self.ordinal.shape[1]
        begun = self.numbers(torch.where(self.are, first.clamp(max=size), size))
        return (begun.cumsum(1) - 1).clamp(min=0)


def _any(conditions: Sequence[torch.Tensor], like: torch.Tensor) -> torch.Tensor:
    found = torch.zeros_like(like, dtype=torch.bool)
    for each in conditions:
        found = found | each
    return found
