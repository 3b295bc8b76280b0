"""Inputs on which functions that list what each image has are compared with the same functions without the lists."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from typing import Any

import torch

from opbridge.model_support.entries import Inputs

__all__ = ["chosen_tiles", "indicators", "samples", "tiles"]

_SIDE, _PATCH = 14, 7
_RESOLUTIONS = [[28, 14], [14, 28], [28, 28], [42, 14], [14, 42]]
_SIZES = ([[20, 21]], [[28, 14], [20, 21], [60, 20], [9, 30]])
_MOST_TILES = 5


def samples(owner: Any) -> Iterator[Inputs]:
    """Models that only cut images to patches, and images of several samples, of which those of zeros are padding."""
    vision = types.SimpleNamespace(patch_size=_PATCH)
    model = types.SimpleNamespace(
        config=types.SimpleNamespace(vision_config=vision, return_dict=True),
        dtype=torch.float32,
        vision_model=_encoded,
        connector=_connected,
    )
    none = [] if owner.__name__ == "Idefics2Model" else [[0, 0]]  # it takes no batch without an image
    for counts in ([1], [2, 2], [3, 0, 1], [0, 2], *none):
        images = _random(len(counts), max(*counts, 1), 3, _SIDE, _SIDE)
        masks = torch.ones(*images.shape[:2], _SIDE, _SIDE, dtype=torch.bool)
        for of_sample, count in zip(images, counts, strict=True):
            of_sample[count:] = 0
        yield (model, images), {}
        yield (model, images), {"pixel_attention_mask": masks}


def tiles(owner: Any) -> Iterator[Inputs]:
    """Models that only cut tiles to patches; tiles that are stacked, and those of one image as they are."""
    model = _model(owner)
    for sizes in _SIZES:
        yield (model, _random(len(sizes), _MOST_TILES, 3, _SIDE, _SIDE), torch.tensor(sizes)), _settings()
    yield (model, _random(5, 3, _SIDE, _SIDE), torch.tensor(_SIZES[0])), _settings()


def chosen_tiles(owner: Any) -> Iterator[Inputs]:
    """The same, of models that do not cut the images of samples with several."""
    ratio = {"vision_aspect_ratio": "anyres_max_9"}
    for given, settings in tiles(owner):
        yield given, settings | ratio
    model = _model(owner)
    for counts in ([1, 1, 1, 1], [2, 1, 1], [1, 3], [4], [0, 4, 0]):
        images = _random(4, _MOST_TILES, 3, _SIDE, _SIDE)
        numbers = {"batch_num_images": torch.tensor(counts)}
        yield (model, images, torch.tensor(_SIZES[1])), _settings() | ratio | numbers


def indicators(owner: Any) -> Iterator[Inputs]:
    """Models that only embed tokens, and texts with all of two indicators, with one of them, and with none."""
    table = torch.nn.Embedding.from_pretrained(_random(8, 5))
    model = types.SimpleNamespace(
        config=types.SimpleNamespace(return_dict=True),
        visual_indicator_token_ids=[6, 7],
        get_input_embeddings=lambda: table,
        get_placeholder_mask=lambda tokens, inputs_embeds, image_features: torch.zeros_like(inputs_embeds).bool(),
        language_model=lambda inputs_embeds, **settings: {"last_hidden_state": inputs_embeds},
    )
    kind = vars(inspect.getmodule(owner))["BaseModelOutputWithVisualIndicatorFeatures"]
    features = kind(pooler_output=_random(1, 4, 5), visual_indicator_features=_random(2, 5))
    for tokens in ([[6, 1, 7, 6]], [[1, 2], [7, 7]], [[0, 1, 2]]):
        given = torch.tensor(tokens)
        yield (model, given), {"mm_encoder_outputs": {"image": features}}
        yield (model,), {"inputs_embeds": table(given), "mm_encoder_outputs": {"image": features}}


def _settings() -> dict[str, Any]:
    return {"vision_feature_layer": 0, "vision_feature_select_strategy": "full"}


def _model(owner: Any) -> Any:
    vision = types.SimpleNamespace(image_size=_SIDE, patch_size=_PATCH)
    config = types.SimpleNamespace(
        vision_config=vision,
        image_grid_pinpoints=_RESOLUTIONS,
        return_dict=True,
        # What Granite 4 Vision has besides: two layers, of which each gives features.
        deepstack_layer_map=[(0, 1)],
        spatial_vision_layer=0,
        spatial_target_layers=[2],
    )
    model = types.SimpleNamespace(
        config=config,
        vision_tower=_encoded,
        multi_modal_projector=_connected,
        image_newline=_random(3 * _PATCH**2),
        layerwise_projectors=[_connected],
        spatial_projectors=[_connected],
        downsample_rate="1/1",
    )
    model.pack_image_features = types.MethodType(owner.pack_image_features, model)
    return model


def _encoded(pixel_values: torch.Tensor, **settings: Any) -> Any:
    """The patches of each image, of shape (images, patches, features)."""
    from transformers.modeling_outputs import BaseModelOutputWithPooling

    patches = torch.nn.functional.unfold(pixel_values, _PATCH, stride=_PATCH).transpose(1, 2)
    return BaseModelOutputWithPooling(last_hidden_state=patches, hidden_states=(patches,))


def _connected(features: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
    return features * 2


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))
