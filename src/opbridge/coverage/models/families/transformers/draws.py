"""For a parameter of transformers' models what it may be drawn by, and the sizes that are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opbridge.coverage.models.families.transformers import draws_of_images as images
from opbridge.coverage.models.families.transformers import draws_of_series as series
from opbridge.coverage.models.families.transformers import draws_of_sounds as sounds
from opbridge.coverage.models.families.transformers import draws_of_texts as texts
from opbridge.coverage.models.varying import Size

__all__ = ["DRAWS", "SIZES", "sizes_of"]

SIZES = {
    "batch": Size(2, (1, 3)),
    "sequence": Size(10, (7, 13)),
    "decoder_sequence": Size(6, (9, 4)),
    "height": Size(192, (256, 160)),
    "width": Size(160, (224, 192)),
    "samples": Size(7680, (9600, 5760)),
    "frames": Size(96, (128, 64)),
}
"""The sizes that users of these models vary. Heights and widths are multiples of 32, lengths of features of 32."""

Draw = Callable[..., Any]

DRAWS: dict[str, tuple[Draw, ...]] = {
    "input_ids": (texts.tokens, texts.codes_in_batch, texts.codes, texts.sentences, texts.questions),
    "attention_mask": (texts.mask,),
    "bbox": (texts.boxes,),
    "decoder_input_ids": (texts.decoder_tokens, texts.decoder_codes_in_batch, texts.decoder_codes),
    "inputs_embeds": (texts.features,),
    "encoder_hidden_states": (texts.encoder_features,),
    "query_embeds": (texts.queries,),
    "action_embeds": (texts.features,),
    "task_inputs": (texts.task,),
    "qformer_input_ids": (texts.tokens,),
    "classes_input_ids": (texts.classes,),
    "classes_attention_mask": (texts.classes_mask,),
    "classes_structure": (texts.classes_of_each,),
    "tasks_input_ids": (texts.tokens,),
    "tasks_attention_mask": (texts.plain_mask,),
    "pixel_values": (
        images.image,
        images.patches,
        images.video,
        images.pictures,
        images.patch_rows,
        images.patch_images,
        images.merged_patches,
        images.strip,
        images.tiles,
    ),
    "prompt_pixel_values": (images.image,),
    "prompt_masks": (images.image,),
    "pixel_values_videos": (images.video,),
    "pixel_mask": (images.image_mask,),
    "pixel_attention_mask": (images.patch_mask, images.tile_shape),
    "aspect_ratio_ids": (images.tile_shape,),
    "aspect_ratio_mask": (images.tile_mask,),
    "pixel_position_ids": (images.patch_places,),
    "image_attention_mask": (images.picture_mask,),
    "image_embeds_position_mask": (images.query_mask,),
    "bool_masked_pos": (images.hidden_patches,),
    "spatial_shapes": (images.grid_shapes,),
    "target_sizes": (images.grid_shapes,),
    "merge_sizes": (images.merge_sizes,),
    "grid_thw": (images.grid,),
    "image_grid_thw": (images.grid,),
    "visual_feats": (images.region_features,),
    "visual_pos": (images.region_boxes,),
    "hidden_states": (images.patches, sounds.mono_samples, texts.features, sounds.latents_last),
    "flattened_patches": (images.flat_patches,),
    "inputs": (texts.tokens, images.image, texts.features),
    "input_values": (
        sounds.samples,
        sounds.channel_samples,
        sounds.frames,
        sounds.whole_frames,
        sounds.mono_samples,
        texts.features,
    ),
    "input_features": (
        sounds.frames,
        sounds.frames_last,
        sounds.all_frames,
        sounds.channel_frames,
        sounds.stacked_frames,
    ),
    "input_features_mask": (sounds.frame_mask,),
    "is_longer": (sounds.is_longer,),
    "audio_mel": (sounds.frames,),
    "audio_mel_mask": (sounds.no_frame_mask,),
    "latents": (texts.features, sounds.latents_last),
    "decoder_input_values": (sounds.spectrogram, texts.decoder_features),
    "past_values": (series.values,),
    "past_observed_mask": (series.mask,),
    "past_time_features": (series.times,),
    "future_values": (series.future_values,),
    "future_time_features": (series.future_times,),
    "past_values_padding": (series.padding,),
    "freq": (series.frequency,),
    "state": (series.state,),
    "noise": (series.noise,),
    "timestep": (series.moment,),
    "states": (series.states,),
    "actions": (series.actions,),
    "rewards": (series.rewards,),
    "returns_to_go": (series.rewards,),
    "timesteps": (series.steps,),
}
"""For a parameter, what it may be drawn by: the first that the model runs on is its own."""


def sizes_of(draw: Draw) -> list[str]:
    """The names of the sizes that a draw takes."""
    code = draw.__code__
    return list(code.co_varnames[1 : code.co_argcount])
