"""Images of several sizes as one sequence of patches, made for the whole batch at once.

The encoder of Pixtral, and what merges its patches in Mistral 3 and others, go over the images of a batch in Python,
and cut each to its own rows and columns. The same follows from the row and the column of each patch. Those of an image
come one after another, row by row.

`sizes` has the height and the width of each image in pixels. Sizes larger than the tensor of images are cut to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from opbridge.model_support.transformers import vision_grids

__all__ = ["encoded", "merged", "projected"]


def encoded(named: Mapping[str, Any]) -> Any:
    """What the encoder of Pixtral returns, of its arguments by name; None where they are not of the usual form.

    The images are of shape (n, channels, height, width), their sizes int32 or int64 of shape (n, 2). Hidden states are
    of shape (1, patches, features).
    """
    encoder, images, sizes = named["self"], named["pixel_values"], named["image_sizes"]
    if encoder.config._attn_implementation not in ("sdpa", "eager") or not (sizes is None or _is_sizes(sizes)):
        return None
    patches = encoder.patch_conv(images.to(encoder.patch_conv.weight.dtype))
    if sizes is None:
        rows, columns = (torch.full((images.shape[0], 1), patches.shape[dim], device=images.device) for dim in (2, 3))
    else:
        torch._check(sizes.shape[0] == images.shape[0], lambda: "image_sizes is not as long as pixel_values")
        rows, columns = (sizes.long() // encoder.patch_size).split(1, 1)
    row, column = (torch.arange(patches.shape[dim], device=images.device) for dim in (2, 3))
    of, row, column = ((row < rows)[:, :, None] & (column < columns)[:, None]).nonzero().unbind(1)
    sequence = encoder.ln_pre(patches[of, :, row, column][None])
    least = torch.finfo(sequence.dtype).min
    mask = torch.where(of[:, None] == of, 0.0, least).to(sequence.dtype)
    return encoder.transformer(
        sequence,
        attention_mask=mask[None, None].expand(sequence.shape[0], 1, -1, -1),
        position_embeddings=encoder.patch_positional_embedding(sequence, torch.stack([row, column], 1)),
        **named["kwargs"],
    )


def merged(named: Mapping[str, Any]) -> torch.Tensor | None:
    """What the merger of patches of Mistral 3 returns, of shape (squares, features): a square of patches is a row.

    The patches are of shape (patches, features), the sizes of images of shape (n, 2); None for any other form. Rows and
    columns that fill no square are left out, as in `torch.nn.functional.unfold`.
    """
    merger, patches, sizes = named["self"], named["image_features"], named["image_sizes"]
    if not _is_sizes(sizes) or patches.dim() != 2:
        return None
    side = merger.spatial_merge_size
    rows, columns = (sizes.long() // merger.patch_size).unbind(1)
    count = rows * columns
    down, across = rows // side, columns // side
    of, within = vision_grids.repeated(down * across)
    row, column = within // across[of] * side, within % across[of] * side
    first = (count.cumsum(0) - count)[of] + row * columns[of] + column
    inside = torch.arange(side, device=patches.device)
    index = first[:, None, None] + inside[:, None] * columns[of][:, None, None] + inside
    squares = patches[index.flatten(1)]
    return merger.merging_layer(squares.transpose(1, 2).flatten(1))


def projected(named: Mapping[str, Any]) -> torch.Tensor | None:
    """What the projector of PaddleOCR-VL returns, of shape (blocks, features): a block of patches is a row.

    The patches are of shape (patches, features), the grids of images int32 or int64, (n, 3): frames, rows and columns;
    None for any other form. Sides of grids that do not fit are an error, as they are in the loop.
    """
    projector, patches, grids = named["self"], named["image_features"], named["image_grid_thw"]
    side, other = projector.merge_kernel_size
    is_usual = grids.dim() == 2 and grids.dtype in (torch.int32, torch.int64) and patches.dim() == 2
    if side != other or not is_usual:
        return None
    grids = vision_grids.checked(grids, grids.prod(1).sum() != patches.shape[0])
    index = vision_grids.block_indices(grids, side)
    torch._check(index.shape[0] == patches.shape[0], lambda: "image_grid_thw has another number of patches")
    blocks = projector.pre_norm(patches)[index].reshape(-1, side * side * patches.shape[1])
    return projector.linear_2(projector.act(projector.linear_1(blocks)))


def _is_sizes(value: Any) -> bool:
    usual = isinstance(value, torch.Tensor) and value.dim() == 2 and value.dtype in (torch.int32, torch.int64)
    return usual and isinstance(value.shape[1], int) and value.shape[1] == 2
