"""The functions of transformers that compute rotary positions run by run, replaced while a model is captured.

Python's `itertools.groupby` over the types of tokens, `next` of an iterator over grids and a dict of such iterators
make as many passes, and hold as many numbers, as the values of the example say. `rotary_positions` and others give the
same for all of them. Only functions whose source is one of those that it was compared with are replaced, by a hash of
the source without comments and documentation: one that a release has changed stays as it is, and is refused where it
cannot be captured.

Checked on transformers 5.24.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from opbridge.model_support.fingerprints import fingerprint
from opbridge.model_support.transformers import rotary_canvases, rotary_omni, rotary_targets
from opbridge.model_support.transformers.rotary_positions import (
    Grids,
    positions_of_images_in_text,
    positions_of_runs,
)

__all__ = ["computing_positions_at_once", "known"]

_INDEX, _IMAGE = "get_rope_index", "get_vision_position_ids"
_OF_VISION, _OF_AUDIO = "get_llm_pos_ids_for_vision", "_get_feat_extract_output_lengths"


@dataclass(frozen=True)
class _Known:
    """What is known of a function that computes positions.

    Attributes:
        computed: What computes the same for a whole batch, from the model and the arguments by name.
        calls: By name, what tells the sources of the methods and functions that it calls.
        takes: Whether a model and arguments by name are of the form that `computed` takes.
        of_tokens: The arguments that have an element for each token.
    """

    computed: Callable[[Any, Mapping[str, Any]], Any]
    calls: Mapping[str, str]
    takes: Callable[[Any, Mapping[str, Any]], bool]
    of_tokens: tuple[str, ...] = field(default=("mm_token_type_ids", "attention_mask"))


@contextlib.contextmanager
def computing_positions_at_once(module: torch.nn.Module) -> Iterator[None]:
    """Within this context, the functions of a model's classes that are known compute all positions at once."""
    replaced: list[tuple[type, Any]] = []
    try:
        for kind in {type(each) for each in module.modules()}:
            # Of a class that inherits it, the function is the class's own meanwhile.
            if (found := known(kind)) is not None:
                replaced.append((kind, vars(kind).get(_INDEX)))
                setattr(kind, _INDEX, _following(getattr(kind, _INDEX), found))
        yield
    finally:
        for kind, own in replaced:
            if own is None:
                delattr(kind, _INDEX)
            else:
                setattr(kind, _INDEX, own)


def known(kind: type) -> _Known | None:
    """What is known of a class's `get_rope_index`; None where it is not one that is known."""
    function = inspect.getattr_static(kind, _INDEX, None)
    found = _KNOWN.get(fingerprint(function))
    if found is None:
        return None
    others = getattr(function, "__globals__", {})
    called = {name: inspect.getattr_static(kind, name, others.get(name)) for name in found.calls}
    return found if all(fingerprint(called[name]) == mark for name, mark in found.calls.items()) else None


def _following(original: Callable[..., Any], found: _Known) -> Callable[..., Any]:
    """A function that computes all positions at once, where its arguments are tensors of the usual form."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def get_rope_index(*args: Any, **settings: Any) -> Any:
        given = signature.bind(*args, **settings)
        given.apply_defaults()
        named = dict(given.arguments)
        named.update(named.pop("kwargs", {}))
        model = named.pop("self")
        if {_INDEX, *found.calls} & vars(model).keys() or not found.takes(model, named):
            return original(*args, **settings)
        for name in found.of_tokens:
            if named[name] is not None:
                _check_sizes(name, named[name], named["input_ids"])
        return found.computed(model, named)

    return get_rope_index


def _has_types(model: Any, named: Mapping[str, Any]) -> bool:
    ids, kinds, mask = named["input_ids"], named["mm_token_type_ids"], named["attention_mask"]
    grids = [named.get(name) for name in ("image_grid_thw", "video_grid_thw")]
    seconds = named.get("second_per_grid_ts")
    return (
        all(_has_rank(each, 2) for each in (ids, kinds))
        and (mask is None or _has_rank(mask, 2))
        and all(each is None or (_has_rank(each, 2) and each.shape[1] == 3) for each in grids)
        and (seconds is None or _has_rank(seconds, 1))
        and len({each.device for each in (ids, kinds, mask, *grids, seconds) if each is not None}) == 1
    )


def _takes_masked(model: Any, named: Mapping[str, Any]) -> bool:
    return named["attention_mask"] is not None and rotary_omni.takes(model, named)


def _check_sizes(name: str, tensor: torch.Tensor, ids: torch.Tensor) -> None:
    """Checks that there is an element for each token: `scatter` would leave some out without an error."""
    for axis in (0, 1):
        torch._check(tensor.shape[axis] == ids.shape[axis], lambda: f"{name} is of other sizes than input_ids")


def _has_rank(value: Any, rank: int) -> bool:
    return isinstance(value, torch.Tensor) and value.dim() == rank


@dataclass(frozen=True)
class _ByRuns:
    """What `get_rope_index` does with the grids of runs.

    Attributes:
        splits_videos: Whether each frame of a video is an image with a run of its own.
        merges_frames: Whether frames of videos are merged.
        has_seconds: Whether the frames of a video are some seconds apart.
        breaks: Whether each row of an image ends with a token more.
    """

    splits_videos: bool = False
    merges_frames: bool = False
    has_seconds: bool = False
    breaks: bool = False

    def __call__(self, model: Any, named: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        ids, settings = named["input_ids"], model.config.vision_config
        images, videos = named["image_grid_thw"], named["video_grid_thw"]
        merge, grids = settings.spatial_merge_size, []
        if images is not None:
            grids.append(Grids(1, _merged(images, 1, merge)))
        if videos is not None:
            if self.splits_videos:
                each = torch.repeat_interleave(videos, videos[:, 0], dim=0)
                videos = torch.cat([torch.ones_like(each[:, :1]), each[:, 1:]], 1)
            frames = settings.temporal_merge_size if self.merges_frames else 1
            interval = None
            if self.has_seconds:
                seconds, per_second = named["second_per_grid_ts"], settings.tokens_per_second
                if seconds is None:
                    seconds = torch.ones_like(ids[0], dtype=torch.int64)
                interval = per_second * seconds
            grids.append(Grids(2, _merged(videos, frames, merge), interval))
        found, after = positions_of_runs(named["mm_token_type_ids"], named["attention_mask"], grids, breaks=self.breaks)
        return found.to(ids.dtype), after


def _among_text(model: Any, named: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """What `get_rope_index` does where positions count on through images."""
    ids, grids = named["input_ids"], named["image_grid_thw"]
    axes = len((model.config.text_config.rope_parameters or {}).get("mrope_section", []))
    if axes < 3:
        raise ValueError(f"HunYuanVL expects at least 3 multimodal RoPE axes, got {axes}.")
    merge = model.config.vision_config.spatial_merge_size
    sizes = None if grids is None else torch.div(grids[:, 1:].long(), merge, rounding_mode="floor")
    found, after = positions_of_images_in_text(named["mm_token_type_ids"], named["attention_mask"], sizes, axes)
    return found.to(ids.dtype), after.to(ids.dtype)


def _merged(grids: torch.Tensor, frames: int, side: int) -> torch.Tensor:
    """How many merged patches grids have, in time, height and width."""
    time, space = grids[:, :1].long(), grids[:, 1:].long()
    return torch.cat([time if frames == 1 else time // frames, space // side], 1)


_OF_GRID = "cca0a85995e6bb72"  # positions of an image by its grid, from which time, height and width begin


def _typed(computed: Callable[[Any, Mapping[str, Any]], Any], of_image: str = _OF_GRID) -> _Known:
    """What is known of a function that goes by the types of tokens, and calls another for the positions of an image."""
    return _Known(computed, {_IMAGE: of_image}, _has_types)


_KNOWN: dict[str, _Known] = {
    "b0cb0af87f9eb070": _typed(_ByRuns()),  # Qwen2-VL, PaddleOCR-VL
    "9cef5b67e63f7a30": _typed(_ByRuns(has_seconds=True)),  # Qwen2.5-VL
    "b3be675dd5d44595": _typed(_ByRuns(splits_videos=True)),  # Qwen3-VL, GLM-4V and those like them
    "3cf6763ba651841a": _typed(_ByRuns(splits_videos=True)),  # Cosmos3 Edge
    "1f56305ffc11f557": _typed(_ByRuns(merges_frames=True)),  # Ernie 4.5 VL
    "2bf31efac8d5ee43": _typed(_ByRuns(breaks=True), "948dae6308a33cc6"),  # HY V4 VL
    "046596c2065579b1": _typed(_among_text, "a1a4268dae9c8254"),  # HunYuan VL
    "0edc8ffcdda5ee8a": _Known(  # Qwen2.5-Omni
        rotary_omni.between_marks, {_OF_VISION: "614868dadd1a6c1b"}, rotary_omni.takes, ("attention_mask",)
    ),
    "aedcfe4412af3ca5": _Known(  # Qwen3-Omni
        rotary_omni.from_marks,
        {_OF_VISION: "b40d3f2e3b49672e", _OF_AUDIO: "8ffe88180ce5f8c2"},
        _takes_masked,
        ("attention_mask",),
    ),
    "95f9808fb1c16f15": _Known(  # GLM-Image
        rotary_targets.among_targets, {_IMAGE: _OF_GRID}, rotary_targets.takes, ("attention_mask",)
    ),
    "29787e589ec75d11": _Known(  # MiniCPM-V 4.7
        rotary_canvases.on_canvases,
        {_IMAGE: "0ed64e6cdfb3ebce", "_group_visual_frames": "dceef25e226ffbdf", "_frame_end_idx": "29ade9e7f6f935d4"},
        rotary_canvases.takes,
    ),
}
"""By what tells the source of `get_rope_index`."""
