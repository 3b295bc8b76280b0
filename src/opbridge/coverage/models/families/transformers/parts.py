"""Parts of small configurations that have to say the same, where their defaults may differ."""

from __future__ import annotations

from typing import Any

from opbridge.coverage.models.families.transformers.open_fields import TIMM

__all__ = ["join"]


def join(config: Any, values: dict[str, Any]) -> None:
    """Lets parts say the same where the default configuration's do, or where a model needs it.

    Args:
        config: The default configuration.
        values: The values of the small one, with its parts, which are changed.
    """
    _timm(values)
    _images(config, values)
    _layers(values)
    _widths(values)


def _timm(values: dict[str, Any]) -> None:
    """The models of timm that have the widths which the code takes; without a network the default is another."""
    backbone: Any = values.get("backbone_config")
    if "backbone_channel_list" in values and backbone is not None and backbone.model_type.startswith("timm"):
        backbone.architecture = "repvit_m1"
    vision: Any = values.get("vision_config")
    if "vision_use_cls_token" in values and vision is not None and vision.model_type.startswith("timm"):
        vision.architecture = "vit_pe_core_large_patch14_336"
        vision.model_args = dict(TIMM[vision.architecture]["model_args"])


def _images(config: Any, values: dict[str, Any]) -> None:
    """Images of parts, and what is counted in them: tiles of a larger one, and patches that are images."""
    vision: Any = values.get("vision_config")
    tiled = vars(config).get("image_grid_pinpoints")
    if isinstance(tiled, list) and isinstance(getattr(vision, "image_size", None), int):
        before = config.vision_config.image_size
        values["image_grid_pinpoints"] = [[side // before * vision.image_size for side in pair] for pair in tiled]
    for name, part in vars(config).items():
        if name in values and getattr(part, "image_size", 0) == vars(config).get("patch_size"):
            values["patch_size"] = values[name].image_size


def _layers(values: dict[str, Any]) -> None:
    """What takes features of some of the vision part's layers names layers that it has."""
    adapter: Any = values.get("adapter_config")
    if isinstance(getattr(adapter, "vision_feature_layer", None), list):
        adapter.vision_feature_layer = [-1 - i for i in range(len(adapter.vision_feature_layer))]


def _widths(values: dict[str, Any]) -> None:
    """Features of pictures and sounds have the width that the part which takes them has."""
    projector: Any = values.get("projector_config")
    encoder: Any = values.get("encoder_config")
    if hasattr(projector, "encoder_hidden_size") and hasattr(encoder, "hidden_dim"):
        projector.encoder_hidden_size = encoder.hidden_dim
    width = getattr(values.get("text_config"), "hidden_size", None)
    if width is None:
        return
    audio: Any = values.get("audio_config")
    if hasattr(audio, "output_dim"):
        audio.output_dim = width
    if "hidden_size" in values and any("_token_i" in name for name in values):
        values["hidden_size"] = width
    vision: Any = values.get("vision_config")
    if hasattr(vision, "out_hidden_size"):
        vision.out_hidden_size = width
    elif hasattr(vision, "embed_dim") and hasattr(vision, "hidden_size") and hasattr(vision, "spatial_merge_size"):
        vision.hidden_size = width
