"""The features of images that were cut to tiles, put together for all images at once.

`pack_image_features` of LLaVA-NeXT and those like it goes over the images: it puts the tiles of one together, takes
what was padded away, adds a feature at the end of each row, and puts the whole image, scaled down, before them. Here
each feature of the result is looked up among all features, by its number within its image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from opbridge.model_support.transformers import image_resolutions
from opbridge.model_support.transformers.vision_grids import checked, repeated

__all__ = ["packed"]


def packed(
    features: torch.Tensor,
    tiles: torch.Tensor,
    sizes: torch.Tensor,
    resolutions: Sequence[Sequence[int]],
    side: int,
    newline: torch.Tensor | None,
    *,
    most: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The features of all images, one after another, and how many each has.

    Args:
        features: Those of all tiles, of shape (tiles, places, channels), with a square number of places.
        tiles: How many tiles each image has, the first being the whole image, of shape (n,).
        sizes: Heights and widths of images before they were cut, of shape (n, 2).
        resolutions: Heights and widths that images are cut to.
        side: The height and width of a tile.
        newline: The feature that ends each row, of shape (channels,).
        most: Images with many more features than those of so many tiles are scaled down; None: no image is.
    """
    places = features.shape[1]
    across = round(places**0.5)
    grids = torch.tensor([[each // side for each in pair] for pair in resolutions], device=sizes.device)
    grid = grids[image_resolutions.best(sizes, resolutions)]
    is_whole = tiles == 1
    is_known = is_whole | ((tiles == 1 + grid[:, 0] * grid[:, 1]) & image_resolutions.is_size(sizes))
    tiles = checked(tiles, ~is_known.all())

    whole = grid * across  # of an image without a size, or without tiles, it has no meaning
    is_cut = ~is_whole[:, None]
    left_out = image_resolutions.unpadded(torch.where(is_cut, sizes.long(), 1), whole.clamp(min=1))
    kept = torch.where(is_cut, whole - 2 * left_out, torch.tensor([1, 0], device=sizes.device))
    result = kept if most is None else _scaled_down(kept, most * places)
    ends = int(newline is not None)
    counts = places + result[:, 0] * (result[:, 1] + ends)

    of, within = repeated(counts)
    first = (tiles.cumsum(0) - tiles) * places
    inside = within - places
    is_base = inside < 0
    row_length = (result[:, 1] + ends).clamp(min=1)[of]
    row, column = inside // row_length, inside % row_length
    is_end = ~is_base & (column == result[:, 1][of])

    def index(row: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
        """The features at some places of their images; any other ones where there are none."""
        row, column = row + left_out[:, 0][of], column + left_out[:, 1][of]
        tile = 1 + row // across * grid[:, 1][of] + column // across
        cut = first[of] + tile * places + row % across * across + column % across
        return torch.where(is_base, first[of] + within, torch.where(is_end, 0, cut))

    table = features.flatten(0, 1)
    if most is None:
        found = table[index(row, column)]
    else:
        found = _interpolated(table, index, (row, column), kept[of], result[of], is_base | is_end)
    if newline is not None:
        found = torch.where(is_end[:, None], newline.to(found), found)
    return found, counts


def _scaled_down(sides: torch.Tensor, most: int) -> torch.Tensor:
    """Heights and widths of images that have `most` features or few more, of shape (n, 2)."""
    ratio = torch.sqrt((sides[:, 0] * sides[:, 1]).double() / most)
    is_large = (ratio > 1.1)[:, None]
    ratio = torch.where(is_large, ratio[:, None], 1.0)
    # Python's `//` of floats: of what is left, without the error of a quotient close to an integer.
    scaled = torch.round((sides.double() - torch.fmod(sides.double(), ratio)) / ratio).long()
    found = torch.where(is_large, scaled, sides)
    return checked(found, (is_large & (found < 1)).any())  # `interpolate` refuses images without elements


def _interpolated(
    table: torch.Tensor,
    index: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    places: tuple[torch.Tensor, torch.Tensor],
    sides: torch.Tensor,
    scaled: torch.Tensor,
    is_outside: torch.Tensor,
) -> torch.Tensor:
    """The features at some places of images, between which are those of larger images: `mode="bilinear"`.

    Args:
        table: The features.
        index: Their indices, by rows and columns of the larger images.
        places: Rows and columns, each of shape (m,).
        sides: Heights and widths of the larger images, for each place.
        scaled: Those of the images.
        is_outside: Where a place is in none.
    """
    is_same = is_outside | (sides == scaled).all(1)
    precision = torch.float64 if table.dtype is torch.float64 else torch.float32
    ways: list[list[tuple[torch.Tensor, torch.Tensor]]] = []
    for axis, place in enumerate(places):
        scale = sides[:, axis].to(precision) / scaled[:, axis].clamp(min=1).to(precision)
        at = (scale * (place.to(precision) + 0.5) - 0.5).clamp(min=0)
        last = (sides[:, axis] - 1).clamp(min=0)
        before = torch.minimum(at.long(), last)
        weight = (at - before.to(precision)).clamp(0, 1)
        ways.append([(before, 1 - weight), (torch.minimum(before + 1, last), weight)])
    found = torch.zeros((), dtype=precision, device=table.device)
    for row, down in ways[0]:
        for column, across in ways[1]:
            found = found + table[index(row, column)].to(precision) * (down * across)[:, None]
    return torch.where(is_same[:, None], table[index(*places)], found.to(table.dtype))
