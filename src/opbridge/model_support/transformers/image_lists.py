"""Functions of transformers that list what each image of a batch has, with the code that makes the lists at once.

Checked on transformers 5.24.
"""

from __future__ import annotations

from opbridge.model_support.entries import CodeReplacement
from opbridge.model_support.transformers import image_list_inputs, sample_features, stacked_tiles
from opbridge.model_support.transformers.targets import modeling

__all__ = ["FUNCTIONS"]

FUNCTIONS = (
    CodeReplacement(
        targets=modeling(
            "idefics2:Idefics2Model.get_image_features",
            "idefics3:Idefics3Model.get_image_features",
            "modernvbert:ModernVBertModel.get_image_features",
            "smolvlm:SmolVLMModel.get_image_features",
            "ultravbert:UltraVBertModel.get_image_features",
        ),
        sources=("42df3351c7abab9d", "9b8cd4761613e7c9", "9dbc9ca24652055d"),
        replacement=sample_features.split_in_rows,
        variable="num_real_images_per_batch",
        inputs=image_list_inputs.samples,
    ),
    CodeReplacement(
        targets=modeling(
            "granite4_vision:Granite4VisionModel.get_image_features",
            "llava_next:LlavaNextModel.get_image_features",
            "llava_next_video:LlavaNextVideoModel.get_image_features",
        ),
        sources=("2d8f1937c1c39dcd", "6fdc38a0a72a12e8", "7932c3efa736c7c8"),
        replacement=stacked_tiles.of_all_images,
        variable="image_num_patches",
        inputs=image_list_inputs.tiles,
    ),
    CodeReplacement(
        targets=modeling("llava_onevision:LlavaOnevisionModel.get_image_features"),
        sources=("db5cada650e38357",),
        replacement=stacked_tiles.of_chosen_images,
        variable="image_num_patches",
        inputs=image_list_inputs.chosen_tiles,
    ),
)
