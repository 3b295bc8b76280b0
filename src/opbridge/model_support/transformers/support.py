"""What opbridge knows of transformers, as the entry point says."""

from __future__ import annotations

from opbridge.model_support.entries import CaptureContext, CodeReplacement, ModelSupport
from opbridge.model_support.transformers import (
    caches,
    comparison_inputs,
    export_branches,
    functions,
    masks,
    model_outputs,
    rotary_functions,
    triangular_loops,
)
from opbridge.model_support.transformers.targets import modeling

__all__ = ["SUPPORT"]

_MASKING = "transformers.masking_utils"

SUPPORT = ModelSupport(
    package="transformers",
    caches=(caches.ADAPTER,),
    containers=(model_outputs.CONTAINER,),
    entries=(
        CaptureContext(
            targets=(f"{_MASKING}:_ignore_bidirectional_mask_sdpa",),
            sources=("b4a783e0d0c62b7a",),
            context=lambda model: masks.without_masks_of_ones(),
        ),
        CaptureContext(
            targets=(f"{_MASKING}:_ignore_causal_mask_sdpa",),
            sources=("943fe0ad315fdd9e",),
            context=masks.attending_to_all_where_nothing_is_padded,
        ),
        *rotary_functions.FUNCTIONS,
        *functions.FUNCTIONS,
        CaptureContext(
            targets=modeling(
                "qwen3_next:torch_chunk_gated_delta_rule",
                "qwen3_5:torch_chunk_gated_delta_rule",
                "qwen3_5_moe:torch_chunk_gated_delta_rule",
                "qwen4_exp:torch_chunk_gated_delta_rule",
                "lara_mini:torch_chunk_gated_delta_rule",
                "olmo_hybrid:torch_chunk_gated_delta_rule",
            ),
            sources=("591091493f93c670",),
            context=export_branches.as_outside_of_exports,
        ),
        CodeReplacement(
            targets=modeling(
                "kimi_linear:chunk_kimi_delta_attention",
                "bailing_hybrid:chunk_kimi_delta_attention",
                "glm5_next:chunk_kimi_delta_attention",
            ),
            sources=("d91dcfeee6f01320",),
            replacement=triangular_loops.with_operator,
            inputs=comparison_inputs.delta_attention,
        ),
    ),
)
