"""Functions of transformers that decide, or go over images one by one, and what is computed in their place.

`vision_grids`, `tiled_images` and `packed_images` give the same for all images at once, without a loop that has as many
passes as there are images, `audio_windows` for all recordings, `same_padding` and `audio_padding` for all sizes:
without decisions.

Checked on transformers 5.24.
"""

from __future__ import annotations

from collections.abc import Callable

from opbridge.model_support.entries import Arguments, FunctionReplacement
from opbridge.model_support.transformers import (
    audio_padding,
    audio_windows,
    comparison_inputs,
    expert_loops,
    packed_images,
    patch_convolutions,
    same_padding,
    tiled_images,
    vision_functions,
    window_attention,
)
from opbridge.model_support.transformers.targets import modeling

__all__ = ["FUNCTIONS"]

_VISION = "transformers.vision_utils"


def _none_given(*names: str) -> Callable[[Arguments], bool]:
    """Whether the user has given none of what a function computes, as keyword arguments."""
    return lambda arguments: (arguments.get("kwargs") or {}).keys().isdisjoint(names)


FUNCTIONS = (
    FunctionReplacement(
        targets=modeling("mobilenet_v1:apply_tf_padding"),
        sources=("8bcc3cdeaf8c7bad",),
        replacement=same_padding.padded,
        inputs=comparison_inputs.same_padding,
    ),
    FunctionReplacement(
        targets=modeling("mobilenet_v2:apply_tf_padding"),
        sources=("dce6f91828f20fa5",),
        replacement=same_padding.padded_with_dilation,
        inputs=comparison_inputs.same_padding,
    ),
    FunctionReplacement(
        targets=modeling("qwen3_asr:get_audio_cu_seqlens", "qwen3_omni_moe:get_audio_cu_seqlens"),
        sources=("c48b2284e01eba2c",),
        replacement=audio_windows.bounds,
        applies=_none_given("cu_seqlens"),
        uses=(audio_windows.LENGTHS,),
        inputs=comparison_inputs.audio_windows,
    ),
    FunctionReplacement(
        targets=modeling("pixtral:PixtralVisionModel.forward"),
        sources=("954ad0a6ced5d737",),
        replacement=packed_images.encoded,
        owner_suffix="PixtralVisionModel",
        decorators=("capture_outputs", "merge_with_config_defaults"),
        inputs=comparison_inputs.encoder,
    ),
    FunctionReplacement(
        targets=modeling("encodec:EncodecConv1d.forward"),
        sources=("b5532c78eb5e27a6",),
        replacement=audio_padding.convolved,
        owner_suffix="EncodecConv1d",
        inputs=comparison_inputs.audio_padding,
    ),
    FunctionReplacement(
        targets=modeling(
            "mistral3:Mistral3PatchMerger.forward",
            "lighton_ocr:LightOnOcrPatchMerger.forward",
            "mistral_large4:MistralLarge4PatchMerger.forward",
        ),
        sources=("47f1c3652c38cb22",),
        replacement=packed_images.merged,
        owner_suffix="PatchMerger",
        inputs=comparison_inputs.merger,
    ),
    FunctionReplacement(
        targets=modeling("lfm3_vl:Lfm3VlVisionShortConv.forward"),
        sources=("08e3c5911d59e4a0",),
        replacement=patch_convolutions.convolved,
        owner_suffix="VisionShortConv",
        inputs=comparison_inputs.convolution,
    ),
    FunctionReplacement(
        targets=modeling("paddleocr_vl:PaddleOCRProjector.forward"),
        sources=("0539756e7034ed75",),
        replacement=packed_images.projected,
        owner_suffix="Projector",
        inputs=comparison_inputs.projector,
    ),
    FunctionReplacement(
        targets=(f"{_VISION}:get_vision_position_ids",),
        sources=("d0bbfb2a51be25ad",),
        replacement=vision_functions.positions,
        applies=_none_given("position_ids"),
        inputs=comparison_inputs.positions,
    ),
    FunctionReplacement(
        targets=(f"{_VISION}:get_vision_window_index",),
        sources=("1ceab1c7ae78d3d2",),
        replacement=vision_functions.windows,
        applies=_none_given("window_index", "cu_window_seqlens"),
        inputs=comparison_inputs.windows,
    ),
    FunctionReplacement(
        targets=(f"{_VISION}:get_vision_nearest_position_ids",),
        sources=("b28e499cf51fddc6",),
        replacement=vision_functions.nearest_positions,
        applies=_none_given("position_ids"),
        inputs=comparison_inputs.nearest_positions,
    ),
    FunctionReplacement(
        targets=modeling(
            "muse_glimmer:get_vision_pixel_shuffle_index",
            "muse_spark:get_vision_pixel_shuffle_index",
        ),
        sources=("21e32571dd268b82",),
        replacement=vision_functions.block_indices,
        applies=_none_given("pixel_shuffle_index"),
        inputs=comparison_inputs.blocks,
    ),
    FunctionReplacement(
        targets=modeling("ernie4_5_vl_moe:Ernie4_5_VLMoeVariableResolutionResamplerModel._temporal_slicing"),
        sources=("2c6bbfda14db63c3",),
        replacement=vision_functions.frame_pairs,
        inputs=comparison_inputs.frames,
    ),
    FunctionReplacement(
        targets=("transformers.image_processing_utils:select_best_resolution",),
        sources=("731c630334a545f3",),
        replacement=tiled_images.resolution,
        applies=tiled_images.is_symbolic,
        inputs=comparison_inputs.resolution,
    ),
    FunctionReplacement(
        targets=modeling(
            "llava_next:image_size_to_num_patches",
            "llava_next_video:image_size_to_num_patches",
            "llava_onevision:image_size_to_num_patches",
            "granite4_vision:image_size_to_num_patches",
        ),
        sources=("a0e13448024e5b02",),
        replacement=tiled_images.count,
        inputs=comparison_inputs.count,
    ),
    FunctionReplacement(
        targets=modeling(
            "llava_next:LlavaNextModel.pack_image_features",
            "llava_next_video:LlavaNextVideoModel.pack_image_features",
        ),
        sources=("99de80f91fdddb5d",),
        replacement=tiled_images.packed,
        inputs=comparison_inputs.tiles,
    ),
    FunctionReplacement(
        targets=modeling("llava_onevision:LlavaOnevisionModel.pack_image_features"),
        sources=("c815e70b600bfc5a",),
        replacement=tiled_images.packed_and_scaled,
        inputs=comparison_inputs.scaled_tiles,
    ),
    FunctionReplacement(
        targets=modeling("granite4_vision:Granite4VisionModel.pack_image_features"),
        sources=("c1d71430a29b8e33",),
        replacement=tiled_images.packed_and_projected,
        inputs=comparison_inputs.projected_tiles,
    ),
    FunctionReplacement(
        targets=modeling("longformer:LongformerSelfAttention.forward", "led:LEDEncoderSelfAttention.forward"),
        sources=("bd092f4d9ac5b7e0",),
        replacement=window_attention.attended,
        calls=window_attention.CALLS,
        owner_suffix="SelfAttention",
        inputs=comparison_inputs.windows_and_global_tokens,
    ),
    FunctionReplacement(
        targets=modeling("dbrx:DbrxExperts.forward"),
        sources=("a43a28c74291b29e",),
        replacement=expert_loops.of_dbrx,
        owner_suffix="Experts",
        inputs=comparison_inputs.experts,
    ),
    FunctionReplacement(
        targets=modeling("longcat_flash:LongcatFlashExperts.forward"),
        sources=("f811eda78a048078",),
        replacement=expert_loops.of_longcat,
        owner_suffix="Experts",
        inputs=comparison_inputs.experts,
    ),
    FunctionReplacement(
        targets=modeling("step3p7:Step3p7Experts.forward"),
        sources=("27c3eee70eb96221",),
        replacement=expert_loops.of_step,
        owner_suffix="Experts",
        inputs=comparison_inputs.experts,
    ),
)
