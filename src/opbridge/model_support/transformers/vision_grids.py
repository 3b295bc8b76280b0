"""The indices of patches of images and videos, by their grids, computed for all of them at once.

The functions of transformers go over the grids of a batch in a Python loop, and make for each as many indices as it
has patches. The same follow from `repeat_interleave`: the number of a patch within its grid, and the sizes of that.

In all of them, `grids` has a row for each image or video: its frames, rows and columns of patches, or rows and columns
alone. Sides of grids that do not fit raise an error, as in transformers: an index out of range.
"""

from __future__ import annotations

import torch

__all__ = ["block_indices", "checked", "frame_pairs", "nearest_positions", "positions_in_blocks", "repeated", "windows"]


def positions_in_blocks(grids: torch.Tensor, side: int | torch.Tensor, *, with_frames: bool) -> torch.Tensor:
    """The row and the column of each patch, those of a block that is merged one after another.

    Args:
        grids: Frames, rows and columns, of shape (n, 3).
        side: How many rows and columns a block has: of all, or a number for each, of shape (n,).
        with_frames: Whether the number of the frame comes before them.

    Returns:
        Of shape (patches, 2), or (patches, 3) with frames.
    """
    frames, rows, columns = grids.long().unbind(1)
    sides = torch.full_like(rows, side) if isinstance(side, int) else side.long()
    rows = checked(rows, ((rows % sides != 0) | (columns % sides != 0)).any())
    of, within = repeated(frames * rows * columns)
    rows, columns, sides = rows[of], columns[of], sides[of]
    frame, within = within // (rows * columns), within % (rows * columns)
    block, inside = within // (sides * sides), within % (sides * sides)
    across = columns // sides
    row = block // across * sides + inside // sides
    column = block % across * sides + inside % sides
    return torch.stack([frame, row, column] if with_frames else [row, column], 1)


def block_indices(grids: torch.Tensor, side: int) -> torch.Tensor:
    """The indices of patches, row by row in each frame, in the order in which blocks are merged one after another.

    Args:
        grids: Frames, rows and columns, of shape (n, 3).
        side: How many rows and columns a block has.

    Returns:
        int64 of shape (patches,).
    """
    frames, rows, columns = grids.long().unbind(1)
    count = frames * rows * columns
    of, _ = repeated(count)
    frame, row, column = positions_in_blocks(grids, side, with_frames=True).unbind(1)
    return (count.cumsum(0) - count)[of] + (frame * rows[of] + row) * columns[of] + column


def windows(grids: torch.Tensor, merged: int, side: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The indices of merged patches in the order of windows, and where windows begin and end.

    A window has `side` rows and columns of merged patches; those at the end of a grid have fewer.

    Args:
        grids: Frames, rows and columns, of shape (n, 3).
        merged: How many rows and columns of patches are merged to one.
        side: The rows and the columns of a window.

    Returns:
        The indices, int64 of shape (merged patches,); 0 and the ends of windows in patches that are not merged, int32
        of shape (windows + 1,).
    """
    frames, rows, columns = grids.long().unbind(1)
    rows, columns = rows // merged, columns // merged
    count = frames * rows * columns
    first = count.cumsum(0) - count
    down, across = (rows + side - 1) // side, (columns + side - 1) // side

    of, number = repeated(frames * down * across)  # the grid of each window, and its number there
    frame, number = number // (down * across)[of], number % (down * across)[of]
    top, left = number // across[of] * side, number % across[of] * side
    rows, columns = rows[of], columns[of]
    height, width = (rows - top).clamp(max=side), (columns - left).clamp(max=side)
    begin = first[of] + (frame * rows + top) * columns + left
    ends = (height * width).cumsum(0) * merged**2

    window, within = repeated(height * width)
    index = begin[window] + within // width[window] * columns[window] + within % width[window]
    return index, torch.nn.functional.pad(ends, (1, 0)).int()


def nearest_positions(sizes: torch.Tensor, side: int) -> torch.Tensor:
    """The index of the nearest place in a square table for each patch.

    Args:
        sizes: Rows and columns, of shape (n, 2).
        side: The rows and the columns of the table.

    Returns:
        int64 of shape (patches,).
    """
    rows, columns = sizes.long().unbind(1)
    of, within = repeated(rows * columns)
    rows, columns = rows[of], columns[of]
    bounds = torch.arange(1 / side, 1.0, 1 / side, device=sizes.device)
    row = torch.bucketize(within // columns / rows, bounds, right=True)
    column = torch.bucketize(within % columns / columns, bounds, right=True)
    return row * side + column


def frame_pairs(grids: torch.Tensor, merged: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The indices of merged patches of the first and of the second frame of each pair; an image is both of its pair.

    Args:
        grids: Frames, rows and columns, of shape (n, 3).
        merged: How many rows and columns of patches are merged to one.

    Returns:
        Both int64, of shape (merged patches of pairs,). The last of an odd number of frames above one has no pair.
    """
    frames, rows, columns = grids.long().unbind(1)
    area, total = rows * columns // merged**2, frames * rows * columns // merged**2
    first, is_video = total.cumsum(0) - total, frames > 1
    of, within = repeated(torch.where(is_video, frames // 2, frames.clamp(max=1)) * area)
    area = area[of]
    even = first[of] + within // area * (2 * area) + within % area
    return even, even + torch.where(is_video[of], area, 0)


def repeated(counts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """For the elements that each count asks for: the index of the count, and their own numbers from 0."""
    of = torch.repeat_interleave(torch.arange(counts.shape[0], device=counts.device), counts)
    first = counts.cumsum(0) - counts
    return of, torch.arange(of.shape[0], device=counts.device) - first[of]


def checked(values: torch.Tensor, wrong: torch.Tensor) -> torch.Tensor:
    """The values; where something is wrong, an element that there is not is asked for, which is an error."""
    return values + values.new_zeros(1).index_select(0, wrong.long().reshape(1))
