"""The convolution of Lfm3-VL over the patches of each frame, for all frames at once.

Its encoder reads the grids of images as Python numbers, and each layer with a convolution goes over them. Here all
frames lie on canvases of one size, with zeros beside those that are smaller, as the convolution pads each; the results
are read where the patches lie.

Checked on transformers 5.24.
"""

from __future__ import annotations

import torch

from opbridge.model_support.entries import Arguments
from opbridge.model_support.transformers import vision_grids
from opbridge.model_support.transformers.changed_statements import with_statements
from opbridge.model_support.transformers.sizes_of_data import size_of

__all__ = ["convolved", "with_grids"]

with_grids = with_statements({"grid_thw_list = grid_thw.tolist()": "grid_thw_list = grid_thw"})
"""The code of the encoder that gives its layers the grids as they are; None where it gives them something else."""


def convolved(named: Arguments) -> torch.Tensor | None:
    """What a layer with a convolution returns, of its arguments by name; None where they are not of the usual form.

    The patches are of shape (patches, features), the grids int32 or int64 of shape (n, 3): frames, rows and columns.
    Grids of another number of patches are an error, as they are in the loop.
    """
    module, hidden, grids = named["self"], named["hidden_states"], named["grid_thw"]
    if not isinstance(grids, torch.Tensor) or hidden.dim() != 2 or not all(each % 2 for each in _sides(module)):
        return None
    input_gate, output_gate, states = module.in_proj(hidden).chunk(3, dim=-1)
    grids = vision_grids.checked(grids.long(), grids.prod(1).sum() != hidden.shape[0])
    place = vision_grids.positions_in_blocks(grids, module.spatial_merge_size, with_frames=True)
    torch._check(place.shape[0] == hidden.shape[0], lambda: "grid_thw has another number of patches")
    of, _ = vision_grids.repeated(grids.prod(1))
    frames, rows, columns = grids.unbind(1)
    frame, row, column = place.unbind(1)
    frame = (frames.cumsum(0) - frames)[of] + frame

    sizes = size_of(frames.sum(), 1), size_of(rows.max(), 1), size_of(columns.max(), 1)
    canvas = hidden.new_zeros((*sizes, hidden.shape[1])).index_put((frame, row, column), input_gate * states)
    found = module.spatial_conv(canvas.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
    return module.out_proj(output_gate * found[frame, row, column])


def _sides(module: torch.nn.Module) -> tuple[int, ...]:
    return tuple(module.spatial_conv.kernel_size)
