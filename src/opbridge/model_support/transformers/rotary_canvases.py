"""What `get_rope_index` of MiniCPM-V 4.7 computes: positions of text with images on canvases in it.

An image, or a frame of a video, is a thumbnail and may have slices, which are parts of it in more detail. Each is a
run of tokens of the image's type. Their positions are those on a canvas, the markers around them lie at its borders,
and the text goes on after it. `get_rope_index` goes from one frame to the next in Python's lists. The same follows from
cumulative sums:

1. The tokens that the attention mask leaves are moved to the front of their row.
2. Each run has a column in a table: where it begins and ends, its size, the frame it is of, its number in it.
3. Each frame has a column in another: its slices, how they are laid out, its canvas, and where that begins, after the
   text and the canvases before it.
4. Each token looks up the last run that began, that one's frame, and the run that begins after it.
5. Positions are moved back to the tokens that they belong to.

More is an error than in `get_rope_index`, and nothing less: where a slice is of another type than its thumbnail, and
where a run of several tokens has a single position.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from opbridge.model_support.transformers.rotary_rows import Rows, in_turn, padded

__all__ = ["on_canvases", "takes"]

_TARGETS = {1: "target_sizes", 2: "target_sizes_videos"}
_MARKERS = ("slice_start_id", "slice_end_id", "image_start_id", "image_end_id", "newline_id")
_BETWEEN_SLICES = 2  # tokens, in a row of slices


def takes(model: Any, named: Mapping[str, Any]) -> bool:
    """Whether arguments are of the usual form."""
    ids, kinds, mask = named["input_ids"], named["mm_token_type_ids"], named["attention_mask"]
    targets = [named[name] for name in _TARGETS.values() if named[name] is not None]
    given = [ids, kinds, *targets] if mask is None else [ids, kinds, mask, *targets]
    return (
        all(isinstance(getattr(model.config, name), int) for name in _MARKERS)
        and all(isinstance(each, torch.Tensor) and each.dim() == 2 for each in given)
        and all(each.shape[1] == 2 for each in targets)
        and len({each.device for each in given}) == 1
    )


def on_canvases(model: Any, named: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """The positions of tokens, and by how much the one after the last differs from the number of tokens."""
    merged = 2 if (named["downsample_mode"] or model.config.downsample_mode) == "4x" else 4
    targets = {}
    for kind, name in _TARGETS.items():
        given = named[name]
        given = torch.zeros_like(named["input_ids"][:0, :1]).expand(0, 2) if given is None else given
        targets[kind] = given.long() // merged
    mask = named["attention_mask"]
    rows, kinds = Rows(named["input_ids"], mask), Rows(named["mm_token_type_ids"], mask).tokens
    runs = _Runs(rows, kinds, model.config.slice_start_id, targets)
    frames = _Frames(rows, runs)
    markers = torch.stack([rows.tokens == getattr(model.config, name) for name in _MARKERS]).any(0)
    return rows.put_back(_positions(rows, runs, frames, markers), runs.wrong)


class _Runs:
    """The thumbnails and slices, in a column for each of a row.

    Attributes:
        are: Whether there is one.
        first: The place that it begins at.
        end: The place after it.
        height: How many rows of tokens it has.
        width: How many tokens a row of it has.
        is_slice: Whether it is a slice.
        frame: The number of its frame in the row of tokens.
        last: The number of the last run that began, for each place; -1 before them.
        begins: Whether one begins at a place.
        are_parts: Whether a place is one of theirs.
        wrong: Whether there is an error, as a tensor of one element.
    """

    def __init__(self, rows: Rows, kinds: torch.Tensor, slice_start: int, targets: Mapping[int, torch.Tensor]) -> None:
        none = torch.zeros_like(kinds[:, :1])
        before = torch.cat([none, kinds[:, :-1]], 1)
        self.are_parts = rows.inside & (kinds != 0)
        self.begins = self.are_parts & (kinds != before)
        self.last = self.begins.long().cumsum(1) - 1
        columns = rows.columns(self.begins)
        size = kinds.shape[1]
        self.are = rows.places < self.begins.sum(1, keepdim=True)
        self.first = rows.table(columns, rows.places.expand_as(kinds))
        length = rows.numbers(torch.where(self.are_parts, self.last, size))
        self.end = self.first + length
        kind = rows.table(columns, kinds)
        follows = rows.table(columns, (torch.cat([none - 1, rows.tokens[:, :-1]], 1) == slice_start).long()).bool()
        self.is_slice = self.are & follows & (rows.places > 0)
        self.frame = (self.are & ~self.is_slice).long().cumsum(1) - 1

        sizes = torch.zeros_like(kind).unsqueeze(2).expand(-1, -1, 2)
        known = torch.zeros_like(self.are)
        self.wrong = torch.zeros_like(rows.wrong)
        for number, given in targets.items():
            chosen = self.are & (kind == number)
            index, is_short = in_turn(chosen, given)
            sizes, known = sizes + padded(given)[index], known | chosen
            self.wrong = self.wrong | is_short
        self.height, self.width = sizes.unbind(2)
        other = self.is_slice & (kind != torch.cat([none, kind[:, :-1]], 1))
        misfit = ~known | other | (sizes < 1).any(2) | (self.height * self.width != length)
        self.wrong = self.wrong | (self.are & misfit).any()


class _Frames:
    """The frames, in a column for each of a row.

    Attributes:
        head: The number of the run that is its thumbnail.
        columns: How many slices there are in a row of slices.
        height: How many rows its canvas has.
        width: How many columns it has.
        slice_height: The height of its first slice.
        slice_width: The width of its first slice.
        advance: How far positions go on over it.
        number: For each run, the number of the slice in its frame; -1 for a thumbnail.
        has_next: For each run, whether there is another one in its frame.
    """

    def __init__(self, rows: Rows, runs: _Runs) -> None:
        size = runs.are.shape[1]
        of_run = runs.frame.clamp(min=0)
        heads = runs.are & ~runs.is_slice
        column = rows.columns(heads)
        self.head = rows.table(column, rows.places.expand_as(column))
        slices = rows.numbers(torch.where(runs.is_slice, runs.frame, size))
        self.number = torch.where(runs.are, rows.places - self.head.gather(1, of_run) - 1, 0)
        self.has_next = torch.cat([runs.is_slice[:, 1:], torch.zeros_like(runs.is_slice[:, :1])], 1)

        # The first wide gap between two slices ends the first row of them.
        gap = torch.cat([runs.first[:, 1:], runs.first[:, :1]], 1) - runs.end
        ends = runs.is_slice & self.has_next & (gap > _BETWEEN_SLICES)
        counted = ends.long().cumsum(1)
        is_first = ends & (counted - counted.gather(1, self.head.gather(1, of_run)) == 1)
        whole = rows.numbers(torch.where(is_first, runs.frame, size)) > 0
        # Those of the first row are the slices up to there.
        remain = runs.is_slice & ((counted - ends.long()) == counted.gather(1, self.head.gather(1, of_run)))
        columns = torch.where(whole, rows.numbers(torch.where(remain, runs.frame, size)), slices)
        lines = slices // columns.clamp(min=1)
        is_even = lines * columns == slices
        self.columns = torch.where(is_even, columns, slices).clamp(min=1)
        lines = torch.where(is_even, lines, 1)

        has_slices = slices > 0
        following = (self.head + 1).clamp(max=size - 1)
        self.slice_height, self.slice_width = (each.gather(1, following) for each in (runs.height, runs.width))
        self.height = torch.where(has_slices, lines * self.slice_height, runs.height.gather(1, self.head))
        self.width = torch.where(has_slices, self.columns * self.slice_width, runs.width.gather(1, self.head))
        are = rows.places < heads.sum(1, keepdim=True)
        self.height, self.width = (torch.where(are, each, 0) for each in (self.height, self.width))
        self.advance = torch.where(are, torch.maximum(self.height, self.width) + 1, 0)


def _positions(rows: Rows, runs: _Runs, frames: _Frames, markers: torch.Tensor) -> torch.Tensor:
    size = markers.shape[1]
    run, has_run = runs.last.clamp(min=0), runs.last >= 0
    next_run = (runs.last + 1).clamp(max=size - 1)
    is_before = torch.cat([runs.begins[:, 1:], torch.zeros_like(markers[:, :1])], 1)
    next_is_slice = runs.is_slice.gather(1, next_run)
    starts_slice, starts_frame = is_before & next_is_slice, is_before & ~next_is_slice

    # What stands between two runs of a frame belongs to it, and so do the markers after the last one.
    others = (rows.inside & ~markers).long().cumsum(1)
    end = runs.end.gather(1, run)
    is_marked = others == others.gather(1, (end - 1).clamp(min=0))
    is_after = rows.inside & has_run & ~runs.are_parts & (frames.has_next.gather(1, run) | is_marked)
    is_text = rows.inside & ~(runs.are_parts | is_after | starts_frame)

    texts = is_text.long().cumsum(1)
    passed = frames.advance.cumsum(1)
    first = runs.first.gather(1, frames.head)
    origin = texts.gather(1, first) + passed - frames.advance
    of_run = runs.frame.clamp(min=0)
    text = texts - 1 + torch.where(has_run, passed.gather(1, of_run.gather(1, run)), 0)

    # The frame of each run, and where it lies on the canvas.
    columns, slice_height, slice_width, height, width = (
        each.gather(1, of_run)
        for each in (frames.columns, frames.slice_height, frames.slice_width, frames.height, frames.width)
    )
    is_slice, number = runs.is_slice, frames.number.clamp(min=0)
    down = torch.where(is_slice, number // columns * slice_height, 0)
    right = torch.where(is_slice, number % columns * slice_width, 0)
    # The end of a thumbnail lies beyond the canvas, that of a slice on its last element.
    low = torch.where(is_slice, down + runs.height - 1, height)
    far = torch.where(is_slice, right + runs.width - 1, width)
    line_end = (number // columns + 1) * slice_height - 1
    line_width = columns * slice_width

    def here(values: torch.Tensor) -> torch.Tensor:
        return values.gather(1, run)

    def following(values: torch.Tensor) -> torch.Tensor:
        return values.gather(1, next_run)

    within = rows.places - here(runs.first)
    across = here(runs.width).clamp(min=1)
    is_end, is_part = rows.places == end, runs.are_parts
    is_line_end = here(is_slice & frames.has_next) & ~is_end

    def along(index: torch.Tensor, runs_size: torch.Tensor, canvas: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
        stretched = _stretched(index, here(runs_size), here(canvas))
        return torch.where(here(is_slice), index + here(offset), stretched)

    seen = (
        along(within // across, runs.height, height, down),
        along(within % across, runs.width, width, right),
    )
    beside = []
    for part, offset, last, line in zip(seen, (down, right), (low, far), (line_end, line_width), strict=True):
        found = torch.where(is_line_end, here(line), 0)
        found = torch.where(is_end, here(last), found)
        found = torch.where(starts_slice, following(offset), found)
        beside.append(torch.where(is_part, part, found))
    time = torch.where(starts_frame, following(of_run), here(of_run))
    time = origin.gather(1, time)
    both = [torch.where(starts_frame, (time - 1).clamp(min=0), time + each) for each in beside]
    return torch.where(is_text, text, torch.stack([time, *both]))


def _stretched(index: torch.Tensor, size: torch.Tensor, canvas: torch.Tensor) -> torch.Tensor:
    """The rounded elements of `torch.linspace(0, canvas - 1, size)`, which are computed from the nearer end."""
    last = (canvas - 1).float()
    step = last / (size - 1).clamp(min=1).float()
    from_first = step * index.float()
    from_last = last - step * (size - index - 1).float()
    return torch.where((index < size // 2) | (size == 1), from_first, from_last).round().long()
