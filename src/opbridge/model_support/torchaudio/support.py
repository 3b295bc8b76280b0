"""What opbridge knows of torchaudio, as the entry point says."""

from __future__ import annotations

from opbridge.model_support.entries import FunctionReplacement, ModelSupport
from opbridge.model_support.torchaudio import delays, segments

__all__ = ["SUPPORT"]

SUPPORT = ModelSupport(
    package="torchaudio",
    entries=(
        FunctionReplacement(
            targets=("torchaudio.models.emformer:_EmformerImpl._gen_right_context",),
            sources=("6a1eee99b753dca2",),
            replacement=segments.right_contexts,
            applies=segments.has_unknown_length,
            inputs=segments.frames_of_right_contexts,
        ),
        FunctionReplacement(
            targets=("torchaudio.models.emformer:_EmformerImpl._gen_attention_mask",),
            sources=("d3318329740b5124",),
            replacement=segments.attention_mask,
            applies=segments.has_unknown_length,
            calls=segments.MASK_CALLS,
            inputs=segments.frames_of_mask,
        ),
        FunctionReplacement(
            targets=("torchaudio.models.emformer:_gen_padding_mask",),
            sources=("94c6e5ae2a8a4dc5",),
            replacement=segments.padding_mask,
            applies=segments.has_unknown_keys,
            inputs=segments.keys_of_mask,
        ),
        FunctionReplacement(
            targets=("torchaudio.functional.filtering:phaser",),
            sources=("098af23d00b9a6b2",),
            replacement=delays.phased,
            applies=delays.has_unknown_length,
            uses=(delays.TABLE,),
            inputs=delays.waves,
        ),
    ),
)
