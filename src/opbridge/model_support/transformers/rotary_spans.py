"""The rotary positions of text with images, videos and audio in it, each between two tokens of its own.

transformers' `get_rope_index` of the Omni models goes over the texts of a batch, in each from one image, video or audio
to the next: it looks for the token that marks the next one after the end of the last, and takes the next grid or length
for it. Where each ends is a matter of the grids and lengths, so that each search depends on those before. Here all are
taken to begin where a marking token stands that nothing before it keeps from being found, and it is an error where the
search after the end of one would have found another token first:

1. The tokens that the attention mask leaves are moved to the front of their row.
2. Each span has a column in a table: the place it begins at, its length, its grid, and how far positions go on over it.
3. Each token looks up the last span that began, and is part of it or comes after it.
4. Positions are moved back to the tokens that they belong to.

More is an error than in `get_rope_index`, and nothing less: where another token stands among those of a span, which it
passes over, and where a grid is no multiple of what is merged. Positions that are not whole, which it sums up as
float32 in order, may differ in the last bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from opbridge.model_support.transformers.rotary_rows import Rows, in_turn, padded

__all__ = ["Search", "Spans", "Timing", "positions_of_spans"]


@dataclass(frozen=True)
class Spans:
    """The images, the videos or the audio of a batch.

    Attributes:
        begins: Whether a token is the first of one of them, in rows whose tokens are at the front.
        lengths: For each, how many tokens it has.
        sizes: For each, its frames, rows and columns of merged patches; None: its positions count on as those of text.
        seconds: For each, how many seconds its frames are apart; None: one.
        has_seconds: Whether it is an error where there are none of `seconds`.
        taken: In each row, for its first span and those after, which of them it is; None: they follow each other.
    """

    begins: torch.Tensor
    lengths: torch.Tensor
    sizes: torch.Tensor | None = None
    seconds: torch.Tensor | None = None
    has_seconds: bool = False
    taken: torch.Tensor | None = None


@dataclass(frozen=True)
class Search:
    """What looks for the next span.

    Attributes:
        marks: The tokens that it takes for one, apart from those that a span begins with.
        begins: What it looks for as long as some of them remain.
    """

    marks: torch.Tensor
    begins: torch.Tensor


@dataclass(frozen=True)
class Timing:
    """How the positions of frames follow from their numbers.

    Attributes:
        per_second: The positions of a second.
        whole: Whether they are rounded down to whole numbers.
    """

    per_second: float
    whole: bool

    def of(self, frames: torch.Tensor, seconds: torch.Tensor | None, has_seconds: torch.Tensor) -> torch.Tensor:
        """The positions of frames, which are some seconds apart where they have seconds.

        Those that are not whole are float64, for sums of them.
        """
        plain = frames * self.per_second
        if seconds is None:
            return self._rounded(plain)
        return torch.where(has_seconds, self._rounded(frames * seconds * self.per_second), self._rounded(plain))

    def _rounded(self, positions: torch.Tensor) -> torch.Tensor:
        if self.whole:
            return positions.long()
        return positions.double() if positions.is_floating_point() else positions


def positions_of_spans(
    rows: Rows, spans: Sequence[Spans], searches: Sequence[Search], timing: Timing, *, over_frames: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    """The positions of tokens at the front of rows, in time, in height and in width.

    Args:
        rows: The rows.
        spans: The spans in them.
        searches: What looked for them, in transformers' own.
        timing: The positions of frames.
        over_frames: Whether positions go on after the last frame, where that is further than height and width.

    Returns:
        The positions, and whether there is an error.
    """
    table = _Table(rows, spans)
    wrong = table.wrong
    frames, height, width = table.sizes.unbind(2)
    larger = torch.maximum(height, width)
    if over_frames:
        last = timing.of((frames - 1).clamp(min=0), table.seconds, table.has_seconds)
        larger = torch.maximum(larger - 1, last) + 1
    skipped = torch.where(table.counts_on, 0, larger - table.length)
    after = skipped.cumsum(1)

    owner = table.owner
    within = rows.places - table.first.gather(1, owner)
    length = table.length.gather(1, owner)
    is_part = table.has_begun & (within < length)
    # The token after the last of a span belongs to it.
    is_covered = table.has_begun & (within <= length)
    for each in searches:
        begun = each.begins.long()
        remain = begun.sum(1, keepdim=True) > begun.cumsum(1)
        wrong = wrong | (each.marks & ~is_covered & remain).any()

    shift = torch.where(is_part, (after - skipped).gather(1, owner), after.gather(1, owner))
    shift = torch.where(table.has_begun, shift, 0)
    is_seen = is_part & ~table.counts_on.gather(1, owner)
    begin = torch.where(is_seen, rows.places - within, rows.places) + shift
    height, width = (each.clamp(min=1).gather(1, owner) for each in (height, width))
    within = within.clamp(min=0)
    seconds = None if table.seconds is None else table.seconds.gather(1, owner)
    time = timing.of(within // (height * width), seconds, table.has_seconds.gather(1, owner))
    rest = within % (height * width)
    seen = [torch.where(is_seen, each, 0) for each in (time, rest // width, rest % width)]
    return torch.stack([begin + each for each in seen]), wrong


class _Table:
    """What is known of each span, in a column for each span of a row.

    Attributes:
        first: The place that it begins at.
        length: How many tokens it has.
        sizes: Its frames, rows and columns; 0 where positions count on.
        counts_on: Whether positions count on as those of text, or there is no span.
        seconds: How many seconds its frames are apart; None: no span says so.
        has_seconds: Whether it says so.
        owner: The column of the last span that began, for each place.
        has_begun: Whether there is one.
        wrong: Whether spans are missing, or do not fit the tokens, as a tensor of one element.
    """

    def __init__(self, rows: Rows, spans: Sequence[Spans]) -> None:
        begins = torch.stack([each.begins for each in spans]).any(0)
        columns = rows.columns(begins)
        self.first = rows.table(columns, rows.places.expand_as(columns))
        are = rows.places < begins.sum(1, keepdim=True)
        ordinal = begins.long().cumsum(1) - 1
        self.owner, self.has_begun = ordinal.clamp(min=0), ordinal >= 0

        self.length = torch.zeros_like(columns)
        self.sizes = torch.zeros_like(columns).unsqueeze(2).expand(-1, -1, 3)
        self.counts_on, self.has_seconds = ~are, torch.zeros_like(are)
        self.seconds: torch.Tensor | None = None
        self.wrong = torch.zeros_like(rows.wrong)
        for each in spans:
            chosen = rows.table(columns, each.begins.long()).bool()
            self._take(each, chosen)
        end = self.first + self.length + 1
        before = torch.cat([torch.zeros_like(end[:, :1]), end[:, :-1]], 1)
        misfit = (self.first <= before) | (end > rows.count.unsqueeze(1)) | (self.length < 1)
        self.wrong = self.wrong | (are & misfit).any()

    def _take(self, spans: Spans, chosen: torch.Tensor) -> None:
        if spans.taken is None:
            index, is_short = in_turn(chosen, spans.lengths)
        else:
            index = torch.where(chosen, spans.taken, spans.lengths.shape[0])
            is_short = torch.zeros_like(self.wrong)
        length = padded(spans.lengths)[index]
        self.length = self.length + length
        self.wrong = self.wrong | is_short
        if spans.sizes is None:
            self.counts_on = self.counts_on | chosen
            return
        sizes = padded(spans.sizes)[index]
        self.sizes = self.sizes + sizes
        misfit = (sizes < 1).any(2) | (sizes.prod(2) != length)
        self.wrong = self.wrong | (chosen & misfit).any()
        if not spans.has_seconds:
            return
        if spans.seconds is None:
            self.wrong = self.wrong | chosen.any()
            return
        index, is_short = in_turn(chosen, spans.seconds)
        self.wrong = self.wrong | is_short
        self.seconds, self.has_seconds = padded(spans.seconds.float())[index], chosen
