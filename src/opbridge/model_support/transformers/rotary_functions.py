"""The functions of transformers that compute rotary positions run by run, and what computes all at once.

Python's `itertools.groupby` over the types of tokens, `next` of an iterator over grids and a dict of such iterators
make as many passes, and hold as many numbers, as the values of the example say. `rotary_positions` and others give the
same for all of them.

Checked on transformers 5.24.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from opbridge.model_support.entries import Arguments, FunctionReplacement, Inputs
from opbridge.model_support.transformers import rotary_canvases, rotary_inputs, rotary_omni, rotary_targets
from opbridge.model_support.transformers.rotary_positions import (
    Grids,
    positions_of_images_in_text,
    positions_of_runs,
)
from opbridge.model_support.transformers.targets import modeling

__all__ = ["FUNCTIONS"]

_INDEX, _IMAGE = "get_rope_index", "get_vision_position_ids"
_OF_VISION, _OF_AUDIO = "get_llm_pos_ids_for_vision", "_get_feat_extract_output_lengths"

_Compute = Callable[[Any, Mapping[str, Any]], Any]
_Takes = Callable[[Any, Mapping[str, Any]], bool]


@dataclass(frozen=True)
class _AllAtOnce:
    """What computes positions for a whole batch, from the arguments by name.

    Attributes:
        compute: Computes them from the model and the other arguments, of which none is in a dict.
        of_tokens: The arguments that have an element for each token.
    """

    compute: _Compute
    of_tokens: tuple[str, ...]

    def __call__(self, arguments: Arguments) -> Any:
        model, named = _apart(arguments)
        for name in self.of_tokens:
            if named[name] is not None:
                _check_sizes(name, named[name], named["input_ids"])
        return self.compute(model, named)


def _apart(arguments: Arguments) -> tuple[Any, dict[str, Any]]:
    """The model, and the other arguments."""
    named = {**arguments, **arguments.get("kwargs", {})}
    named.pop("kwargs", None)
    return named.pop("self"), named


def _entry(
    source: str,
    compute: _Compute,
    *targets: str,
    calls: Mapping[str, str],
    takes: _Takes,
    inputs: Callable[[Any], Iterable[Inputs]],
    of_tokens: tuple[str, ...] = ("attention_mask",),
) -> FunctionReplacement:
    return FunctionReplacement(
        targets=modeling(*(f"{each}.{_INDEX}" for each in targets)),
        sources=(source,),
        replacement=_AllAtOnce(compute, of_tokens),
        applies=lambda arguments: takes(*_apart(arguments)),
        calls=calls,
        inputs=inputs,
    )


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


def _typed(
    source: str, compute: _Compute, *targets: str, inputs: Callable[[Any], Iterable[Inputs]], of_image: str = _OF_GRID
) -> FunctionReplacement:
    """What is known of a function that goes by the types of tokens, and calls another for the positions of an image."""
    return _entry(
        source,
        compute,
        *targets,
        calls={_IMAGE: of_image},
        takes=_has_types,
        inputs=inputs,
        of_tokens=("mm_token_type_ids", "attention_mask"),
    )


FUNCTIONS = (
    _typed(
        "b0cb0af87f9eb070",
        _ByRuns(),
        "qwen2_vl:Qwen2VLModel",
        "paddleocr_vl:PaddleOCRVLModel",
        inputs=rotary_inputs.images_and_videos,
    ),
    _typed(
        "9cef5b67e63f7a30",
        _ByRuns(has_seconds=True),
        "qwen2_5_vl:Qwen2_5_VLModel",
        inputs=rotary_inputs.images_and_videos,
    ),
    _typed(
        "b3be675dd5d44595",
        _ByRuns(splits_videos=True),
        "qwen3_vl:Qwen3VLModel",
        "qwen3_vl_moe:Qwen3VLMoeModel",
        "qwen3_5:Qwen3_5Model",
        "qwen3_5_moe:Qwen3_5MoeModel",
        "qwen4_exp:Qwen4ExpModel",
        "glm4v:Glm4vModel",
        "glm4v_moe:Glm4vMoeModel",
        "glm46v:Glm46VModel",
        "glm_ocr:GlmOcrModel",
        "cohere_compass:CohereCompassModel",
        "cosmos3_omni:Cosmos3OmniModel",
        inputs=rotary_inputs.images_and_frames,
    ),
    _typed(
        "3cf6763ba651841a",
        _ByRuns(splits_videos=True),
        "cosmos3_edge:Cosmos3EdgeModel",
        inputs=rotary_inputs.images_and_frames,
    ),
    _typed(
        "1f56305ffc11f557",
        _ByRuns(merges_frames=True),
        "ernie4_5_vl_moe:Ernie4_5_VLMoeModel",
        inputs=rotary_inputs.images_and_merged_frames,
    ),
    _typed(
        "2bf31efac8d5ee43",
        _ByRuns(breaks=True),
        "hy_v4_vl:HYV4VLModel",
        inputs=rotary_inputs.images_with_breaks,
        of_image="948dae6308a33cc6",
    ),
    _typed(
        "046596c2065579b1",
        _among_text,
        "hunyuan_vl:HunYuanVLModel",
        inputs=rotary_inputs.images_with_breaks,
        of_image="a1a4268dae9c8254",
    ),
    _entry(
        "0edc8ffcdda5ee8a",
        rotary_omni.between_marks,
        "qwen2_5_omni:Qwen2_5OmniPreTrainedModelForConditionalGeneration",
        calls={_OF_VISION: "614868dadd1a6c1b"},
        takes=rotary_omni.takes,
        inputs=rotary_inputs.images_videos_and_audio,
    ),
    _entry(
        "aedcfe4412af3ca5",
        rotary_omni.from_marks,
        "qwen3_omni_moe:Qwen3OmniMoePreTrainedModelForConditionalGeneration",
        calls={_OF_VISION: "b40d3f2e3b49672e", _OF_AUDIO: "8ffe88180ce5f8c2"},
        takes=_takes_masked,
        inputs=rotary_inputs.images_videos_and_audio,
    ),
    _entry(
        "95f9808fb1c16f15",
        rotary_targets.among_targets,
        "glm_image:GlmImageModel",
        calls={_IMAGE: _OF_GRID},
        takes=rotary_targets.takes,
        inputs=rotary_inputs.images_to_come,
    ),
    _entry(
        "29787e589ec75d11",
        rotary_canvases.on_canvases,
        "minicpmv4_7:MiniCPMV4_7Model",
        calls={
            _IMAGE: "0ed64e6cdfb3ebce",
            "_group_visual_frames": "dceef25e226ffbdf",
            "_frame_end_idx": "29ade9e7f6f935d4",
        },
        takes=rotary_canvases.takes,
        inputs=rotary_inputs.canvases,
        of_tokens=("mm_token_type_ids", "attention_mask"),
    ),
)
