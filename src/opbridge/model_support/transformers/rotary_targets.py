"""What `get_rope_index` of GLM-Image computes: positions of text with images in it, and more grids for images to come.

It keeps the positions of the tokens to come for later calls, which a captured graph does not: whoever takes them
meanwhile gets an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from opbridge.model_support.transformers.rotary_rows import Rows, padded
from opbridge.model_support.transformers.rotary_spans import Spans, Timing, positions_of_spans

__all__ = ["among_targets", "takes"]


def takes(model: Any, named: Mapping[str, Any]) -> bool:
    """Whether arguments are of the usual form, with grids."""
    ids, mask, grids = named["input_ids"], named["attention_mask"], named["image_grid_thw"]
    counts = named["images_per_sample"]
    tensors = [each for each in (ids, mask, grids, counts) if each is not None]
    return (
        all(isinstance(getattr(model.config, f"image_{name}_token_id"), int) for name in ("start", "end"))
        and grids is not None
        and all(isinstance(each, torch.Tensor) for each in (ids, *tensors))
        and all(each.dim() == 2 for each in (ids, grids))
        and (mask is None or mask.dim() == 2)
        and grids.shape[1] == 3
        and (counts is None or counts.dim() == 1)
        and len({each.device for each in tensors}) == 1
    )


def among_targets(model: Any, named: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """The images of a text are those that have both tokens, the one before and the one after, and a grid."""
    ids, mask, grids = named["input_ids"], named["attention_mask"], named["image_grid_thw"].long()
    counts = named["images_per_sample"]
    rows = Rows(ids, None if mask is None else mask == 1)
    starts = rows.inside & (rows.tokens == model.config.image_start_token_id)
    ends = rows.inside & (rows.tokens == model.config.image_end_token_id)
    wrong = (grids < 0).any()
    if counts is None:
        # Each text takes the grids from the first one on.
        given = torch.full_like(rows.count, 1) * grids.shape[0]
        before = torch.zeros_like(given)
    else:
        torch._check(counts.shape[0] == ids.shape[0], lambda: "images_per_sample is of another size than input_ids")
        given = counts.long()
        before = given.cumsum(0) - given
        wrong = wrong | (given.sum() != grids.shape[0]) | (given < 0).any()
    count = torch.minimum(torch.minimum(starts.sum(1), ends.sum(1)), given).unsqueeze(1)

    begins = starts & (starts.long().cumsum(1) <= count)
    begins = torch.cat([torch.zeros_like(begins[:, :1]), begins[:, :-1]], 1)
    counted = rows.places.expand_as(begins)
    first, end = (rows.table(rows.columns(each), counted) for each in (begins, ends))
    are, number = counted < count, before.unsqueeze(1) + counted
    lengths = grids.prod(1)
    misfit = are & (end - first != padded(lengths)[torch.where(are, number, grids.shape[0])])
    wrong = wrong | misfit.any() | (begins.sum(1, keepdim=True) != count).any()
    spans = [Spans(begins, lengths, grids, taken=number)]
    positions, is_misfit = positions_of_spans(rows, spans, [], Timing(1, whole=True), over_frames=False)
    positions, _ = rows.put_back(positions, wrong | is_misfit, padding=1)
    model._prefill_len = ids.shape[1]
    model._cached_decode_position_ids = _Uncomputed()
    return positions.to(ids.dtype), torch.zeros_like(ids[:, :1])


class _Uncomputed:
    """Positions that a capture does not compute."""

    def __getitem__(self, index: object) -> object:
        # They are of as many tokens as the grids of images to come say, which only calls after this one read.
        raise NotImplementedError(
            "the positions of the tokens of an image to come are not captured: export a call that does not read them, "
            "and compute them outside of the file"
        )
