"""Inputs on which functions of transformers that compute rotary positions are compared with their replacements.

Models have no weights, and of their configuration what the functions read.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from opbridge.model_support.entries import Inputs

__all__ = [
    "canvases",
    "images_and_frames",
    "images_and_merged_frames",
    "images_and_videos",
    "images_to_come",
    "images_videos_and_audio",
    "images_with_breaks",
]

_MERGED = 2
_VISION = types.SimpleNamespace(spatial_merge_size=_MERGED, temporal_merge_size=2, tokens_per_second=3)
_TEXT = types.SimpleNamespace(rope_parameters={"mrope_section": [1, 1, 1, 1]})


def _model(owner: Any, **config: Any) -> Any:
    """A model without weights."""
    model = owner.__new__(owner)
    vars(model)["config"] = types.SimpleNamespace(vision_config=_VISION, text_config=_TEXT, **config)
    return model


def _padded(rows: Sequence[Sequence[int]], padding: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of numbers of one length, filled on the left, int64; and a mask of what is no padding."""
    length = max(map(len, rows))
    filled = [[padding] * (length - len(row)) + [*row] for row in rows]
    mask = [[0] * (length - len(row)) + [1] * len(row) for row in rows]
    return torch.tensor(filled), torch.tensor(mask)


def _typed(owner: Any, image: int, video: Sequence[int] = (), grid: Sequence[int] = ()) -> Iterator[Inputs]:
    """Texts with images of 4 rows and columns of patches, and a video in one of them.

    Args:
        owner: The class.
        image: How many tokens an image has.
        video: The types of the tokens of the video.
        grid: Its frames, rows and columns.
    """
    rows = [[0, 0, *[1] * image, 0, *video, 0], [0, *[1] * image, 0]]
    kinds, mask = _padded(rows, 1)
    images = torch.tensor([[1, 4, 4], [1, 4, 4]])
    given = {"input_ids": torch.zeros_like(kinds), "mm_token_type_ids": kinds.int(), "image_grid_thw": images}
    videos = {"video_grid_thw": torch.tensor([grid])} if grid else {}
    yield (_model(owner),), given | videos | {"attention_mask": mask}
    without = {name: each[1:] for name, each in given.items() if name != "image_grid_thw"}
    alone = {name: each[:, -len(rows[1]) :] for name, each in without.items()}
    nothing = dict.fromkeys(videos)
    yield (_model(owner),), alone | {"image_grid_thw": images[1:]} | nothing | {"attention_mask": None}


def images_and_videos(owner: Any) -> Iterator[Inputs]:
    return _typed(owner, 4, [2] * 8, [2, 4, 4])


def images_and_frames(owner: Any) -> Iterator[Inputs]:
    return _typed(owner, 4, [2, 2, 2, 2, 0, 2, 2, 2, 2], [2, 4, 4])


def images_and_merged_frames(owner: Any) -> Iterator[Inputs]:
    return _typed(owner, 4, [2] * 8, [4, 4, 4])


def images_with_breaks(owner: Any) -> Iterator[Inputs]:
    return _typed(owner, 6)


def images_videos_and_audio(owner: Any) -> Iterator[Inputs]:
    image, video, audio = 11, 12, 13
    tokens = {"image_token_id": image, "video_token_id": video, "audio_token_id": audio}
    starts = {"vision_start_token_id": 20, "audio_start_token_id": 30}
    audio_config = types.SimpleNamespace(n_window=5)
    model = _model(owner, **tokens, **starts, position_id_per_seconds=3, seconds_per_chunk=2, audio_config=audio_config)
    vars(model)["spatial_merge_size"] = _MERGED
    rows = [
        [1, 20, *[image] * 4, 21, 2, 30, audio, audio, 31, 3],
        [1, 2, 20, *[video] * 8, 21, 3],
    ]
    ids, mask = _padded(rows, image)
    yield (
        (model,),
        {
            "input_ids": ids,
            "image_grid_thw": torch.tensor([[1, 4, 4]]),
            "video_grid_thw": torch.tensor([[2, 4, 4]]),
            "attention_mask": mask,
            "audio_seqlens": torch.tensor([9]),
            "second_per_grids": torch.tensor([1.0]),
        },
    )


def images_to_come(owner: Any) -> Iterator[Inputs]:
    start, image, end = 20, 11, 21
    model = _model(owner, image_start_token_id=start, image_end_token_id=end)
    ids, mask = _padded([[5, start, *[image] * 6, end, 7, start], [4, 3, start]], end)
    yield (
        (model,),
        {
            "input_ids": ids,
            "image_grid_thw": torch.tensor([[1, 2, 3], [1, 4, 4], [1, 3, 2]]),
            "images_per_sample": torch.tensor([2, 1]),
            "attention_mask": mask,
        },
    )


def canvases(owner: Any) -> Iterator[Inputs]:
    patch, image, image_end, part, part_end, line = 11, 20, 21, 22, 23, 24
    markers = {"image_start_id": image, "image_end_id": image_end, "slice_start_id": part, "slice_end_id": part_end}
    model = _model(owner, **markers, newline_id=line, downsample_mode="16x")
    thumbnail, slices = [image, *[patch] * 4, image_end], [part, patch, patch, part_end]
    ids, mask = _padded([[5, *thumbnail, *slices, *slices, 7], [6, *thumbnail, 4, 4]], patch)
    yield (
        (model,),
        {
            "input_ids": ids,
            "mm_token_type_ids": (ids == patch).int(),
            "target_sizes": torch.tensor([[8, 8], [4, 8], [4, 8], [8, 8]]),
            "target_sizes_videos": None,
            "attention_mask": mask,
        },
    )
