"""What `get_rope_index` of the Omni models computes: positions of text with images, videos and audio in it.

Audio in videos, whose tokens take turns with theirs, is left to transformers' own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from opbridge.model_support.transformers.rotary_rows import Rows
from opbridge.model_support.transformers.rotary_spans import Search, Spans, Timing, positions_of_spans

__all__ = ["between_marks", "from_marks", "takes"]

_TOKENS = ("image", "video", "audio", "vision_start", "audio_start")


def takes(model: Any, named: Mapping[str, Any]) -> bool:
    """Whether arguments are of the usual form, and ask for positions of images or videos."""
    ids, mask = named["input_ids"], named["attention_mask"]
    grids = [named[name] for name in ("image_grid_thw", "video_grid_thw") if named[name] is not None]
    numbers = [named[name] for name in ("audio_seqlens", "second_per_grids") if named[name] is not None]
    given = [ids, *grids, *numbers] if mask is None else [ids, mask, *grids, *numbers]
    return (
        all(isinstance(getattr(model.config, f"{name}_token_id"), int) for name in _TOKENS)
        and not named["use_audio_in_video"]
        and len(grids) > 0
        and all(isinstance(each, torch.Tensor) for each in given)
        and all(each.dim() == 2 for each in given[: len(given) - len(numbers)])
        and all(each.dim() == 1 for each in numbers)
        and all(each.shape[1] == 3 for each in grids)
        and len({each.device for each in given}) == 1
    )


def between_marks(model: Any, named: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Of Qwen2.5-Omni: each begins with its first token, and there are as many as tokens that announce them."""
    ids, mask, settings = named["input_ids"], named["attention_mask"], model.config
    rows = Rows(ids, None if mask is None else mask == 1)
    follows, wrong = _following(rows, [settings.vision_start_token_id])
    announced = {
        "image": follows[settings.vision_start_token_id] & (_next(rows) == settings.image_token_id),
        "video": follows[settings.vision_start_token_id] & (_next(rows) == settings.video_token_id),
        "audio": rows.inside & (rows.tokens == settings.audio_start_token_id),
    }
    begins, searches = {}, []
    for kind, announces in announced.items():
        marks = rows.inside & (rows.tokens == getattr(settings, f"{kind}_token_id"))
        first = marks & ~torch.cat([torch.zeros_like(marks[:, :1]), marks[:, :-1]], 1)
        count = announces.sum(1, keepdim=True)
        begins[kind] = first & (first.long().cumsum(1) <= count)
        wrong = wrong | (begins[kind].sum(1, keepdim=True) != count).any()
        searches.append(Search(marks & ~begins[kind], begins[kind]))
    lengths = named["audio_seqlens"]
    if lengths is not None:
        lengths = _halved(_halved(lengths.long(), 1), 2)
    timing = Timing(settings.position_id_per_seconds, whole=True)
    positions, is_misfit = positions_of_spans(rows, _spans(model, named, begins, lengths), searches, timing)
    positions, after = rows.put_back(positions, rows.wrong | wrong | is_misfit, padding=1)
    return positions.to(ids.dtype), after


def from_marks(model: Any, named: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Of Qwen3-Omni: each begins after a token that announces it, and positions need not be whole."""
    settings = model.config
    rows = Rows(named["input_ids"], named["attention_mask"] == 1)
    vision, audio = settings.vision_start_token_id, settings.audio_start_token_id
    follows, wrong = _following(rows, [vision, audio])
    following = _next(rows)
    announced = {
        "image": follows[vision] & (following == settings.image_token_id),
        "video": follows[vision] & (following == settings.video_token_id),
        "audio": follows[audio],
    }
    # Without a token of audio, it looks for none.
    has_audio = (rows.inside & (rows.tokens == settings.audio_token_id)).any(1)
    wrong = wrong | (follows[audio].any(1) & ~has_audio).any()
    begins = {kind: torch.cat([torch.zeros_like(each[:, :1]), each[:, :-1]], 1) for kind, each in announced.items()}
    other = follows[vision] & ~announced["image"] & ~announced["video"]
    searches = [Search(other, begins["image"] | begins["video"])]
    lengths = named["audio_seqlens"]
    if lengths is not None:
        chunk, lengths = settings.audio_config.n_window * 2, lengths.long()
        rest = _halved(_halved(_halved(lengths % chunk, 1), 1), 1)
        lengths = rest + lengths // chunk * 13
    timing = Timing(settings.position_id_per_seconds, whole=False)
    positions, is_misfit = positions_of_spans(rows, _spans(model, named, begins, lengths), searches, timing)
    return rows.put_back(positions.float(), rows.wrong | wrong | is_misfit)


def _spans(
    model: Any, named: Mapping[str, Any], begins: Mapping[str, torch.Tensor], lengths: torch.Tensor | None
) -> list[Spans]:
    merge, spans = model.spatial_merge_size, []
    none = torch.zeros_like(named["input_ids"][0, :0], dtype=torch.int64)
    for kind in ("image", "video"):
        grids = named[f"{kind}_grid_thw"]
        grids = none.unsqueeze(1).expand(0, 3) if grids is None else grids.long()
        sizes = torch.cat([grids[:, :1], grids[:, 1:] // merge], 1)
        is_video = kind == "video"
        seconds = named["second_per_grids"] if is_video else None
        spans.append(Spans(begins[kind], grids.prod(1) // merge**2, sizes, seconds, has_seconds=is_video))
    return [*spans, Spans(begins["audio"], none if lengths is None else lengths)]


def _next(rows: Rows) -> torch.Tensor:
    """The token after each, in its row."""
    return torch.cat([rows.tokens[:, 1:], rows.tokens[:, :1]], 1)


def _following(rows: Rows, tokens: list[int]) -> tuple[dict[int, torch.Tensor], torch.Tensor]:
    """Where tokens of some kinds are; and whether one of them is the last of its row, with none after it."""
    found = {each: rows.inside & (rows.tokens == each) for each in tokens}
    is_last = rows.places == rows.count.unsqueeze(1) - 1
    return found, torch.stack([(each & is_last).any() for each in found.values()]).any()


def _halved(lengths: torch.Tensor, less: int) -> torch.Tensor:
    return (lengths - less) // 2 + 1
