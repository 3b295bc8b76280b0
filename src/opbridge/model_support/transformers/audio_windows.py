"""Where windows of audio begin and end, for all recordings of a batch at once.

The encoders of Qwen3-ASR and Qwen3-Omni go over the recordings in Python, and append a length for each window.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from opbridge.model_support.transformers import vision_grids

__all__ = ["LENGTHS", "bounds"]

LENGTHS = "_get_feat_extract_output_lengths"
"""The function of transformers that gives lengths after the convolutions; it has to be among the arguments."""


def bounds(named: Mapping[str, Any]) -> torch.Tensor:
    """What `get_audio_cu_seqlens` returns, of its arguments by name: 0 and the ends of windows.

    A recording has windows of one length, and a shorter one at its end if something is left. The result is int32, of
    shape (windows + 1,).
    """
    of_length, half = named[LENGTHS], named["n_window"]
    longest = of_length(named["chunk_lengths"], half).max()
    window = (longest * (named["n_window_infer"] // (half * 2))).clamp(min=1)  # transformers divides by 0 otherwise
    lengths = of_length(named["feature_lens"], half)
    of, within = vision_grids.repeated((lengths + window - 1) // window)
    ends = torch.minimum((within + 1) * window, lengths[of])
    ends = ends + (lengths.cumsum(0) - lengths)[of]
    return torch.nn.functional.pad(ends, (1, 0)).int()
