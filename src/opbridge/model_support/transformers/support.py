"""What opbridge knows of transformers, as the entry point says."""

from __future__ import annotations

from opbridge.model_support.entries import CaptureContext, CodeReplacement, ModelSupport
from opbridge.model_support.transformers import (
    block_selection,
    caches,
    chunk_loops,
    comparison_inputs,
    expert_loops,
    export_branches,
    functions,
    image_list_inputs,
    image_lists,
    indicator_embeddings,
    masks,
    model_outputs,
    packed_attention,
    rotary_functions,
    window_attention,
)
from opbridge.model_support.transformers.targets import modeling

__all__ = ["SUPPORT"]

_MASKING = "transformers.masking_utils"
_GATED_DELTA_RULES = modeling(
    "qwen3_next:torch_chunk_gated_delta_rule",
    "qwen3_5:torch_chunk_gated_delta_rule",
    "qwen3_5_moe:torch_chunk_gated_delta_rule",
    "qwen4_exp:torch_chunk_gated_delta_rule",
    "lara_mini:torch_chunk_gated_delta_rule",
    "olmo_hybrid:torch_chunk_gated_delta_rule",
)

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
        *image_lists.FUNCTIONS,
        CaptureContext(
            targets=_GATED_DELTA_RULES,
            sources=("591091493f93c670",),
            context=export_branches.as_outside_of_exports,
        ),
        CodeReplacement(
            targets=_GATED_DELTA_RULES,
            sources=("591091493f93c670",),
            replacement=chunk_loops.of_gated_delta_rule,
            inputs=comparison_inputs.gated_delta_rule,
        ),
        CodeReplacement(
            targets=modeling(
                "kimi_linear:chunk_kimi_delta_attention",
                "bailing_hybrid:chunk_kimi_delta_attention",
                "glm5_next:chunk_kimi_delta_attention",
            ),
            sources=("d91dcfeee6f01320",),
            replacement=chunk_loops.of_kimi_delta_rule,
            inputs=comparison_inputs.delta_attention,
        ),
        CodeReplacement(
            targets=modeling(
                "cohere_compass:CohereCompassVisionAttention.forward",
                "dots3_note:Dots3NoteVisionAttention.forward",
                "ernie4_5_vl_moe:Ernie4_5_VLMoeVisionAttention.forward",
                "exaone4_5:Exaone4_5_VisionAttention.forward",
                "glm4v:Glm4vVisionAttention.forward",
                "glm4v_moe:Glm4vMoeVisionAttention.forward",
                "glm5_next:Glm5NextVisionAttention.forward",
                "glm_image:GlmImageVisionAttention.forward",
                "glm_ocr:GlmOcrVisionAttention.forward",
                "kimi_k25:Kimi_K25VisionAttention.forward",
                "minicpm_ocr:MiniCPMOcrVisionAttention.forward",
                "minicpmv4_6:MiniCPMV4_6VisionAttention.forward",
                "minicpmv4_7:MiniCPMV4_7VisionAttention.forward",
                "muse_glimmer:MuseGlimmerVisionAttention.forward",
                "muse_spark:MuseSparkVisionAttention.forward",
                "qwen2_5_omni:Qwen2_5OmniAudioAttention.forward",
                "qwen2_5_omni:Qwen2_5OmniVisionAttention.forward",
                "qwen2_5_vl:Qwen2_5_VLVisionAttention.forward",
                "qwen2_vl:VisionAttention.forward",
                "qwen3_5:Qwen3_5VisionAttention.forward",
                "qwen3_5_moe:Qwen3_5MoeVisionAttention.forward",
                "qwen3_asr:Qwen3ASRAudioAttention.forward",
                "qwen3_omni_moe:Qwen3OmniMoeAudioAttention.forward",
                "qwen3_omni_moe:Qwen3OmniMoeVisionAttention.forward",
                "qwen3_vl:Qwen3VLVisionAttention.forward",
                "qwen3_vl_moe:Qwen3VLMoeVisionAttention.forward",
                "qwen4_exp:Qwen4ExpVisionAttention.forward",
            ),
            sources=(
                "2372aa9003683a62",
                "283ce952732721c0",
                "3addd7428fa8687f",
                "6a8108e60926f95c",
                "9e411f2d6443d857",
                "bddaaceae0b9c65a",
                "ebbb52e22ec4f6f9",
                "facb93aec2a88797",
            ),
            replacement=packed_attention.in_one_product,
            variable="cu_seqlens",
            inputs=comparison_inputs.packed_tokens,
        ),
        CodeReplacement(
            targets=modeling("qwen4_exp:Qwen4ExpTextQSAIndexer.forward"),
            sources=("8516667e7ed480f8",),
            replacement=block_selection.for_all_queries,
            variable="selected_token_indices",
            inputs=comparison_inputs.seen_blocks,
        ),
        CodeReplacement(
            targets=modeling("longformer:LongformerEncoder.forward"),
            sources=("d89ddaffadf482bf",),
            replacement=window_attention.asking_nothing,
            variable="is_index_global_attn",
            inputs=comparison_inputs.encoder_with_windows,
        ),
        CodeReplacement(
            targets=modeling("led:LEDEncoder.forward"),
            sources=("1f3e9275979bfa74",),
            replacement=window_attention.asking_nothing_of_led,
            variable="is_index_global_attn",
            inputs=comparison_inputs.encoder_with_windows,
        ),
        CodeReplacement(
            targets=modeling(
                "switch_transformers:SwitchTransformersExperts.forward", "nllb_moe:NllbMoeExperts.forward"
            ),
            sources=("6afb0bf86813e691", "5179732c82664c75"),
            replacement=expert_loops.over_all_modules,
            variable="expert_hit",
            inputs=comparison_inputs.modules_of_experts,
        ),
        CodeReplacement(
            targets=modeling("ovis2:Ovis2Model.forward"),
            sources=("0a58b002eb282973",),
            replacement=indicator_embeddings.without_questions,
            variable="visual_indicator_id",
            inputs=image_list_inputs.indicators,
        ),
    ),
)
