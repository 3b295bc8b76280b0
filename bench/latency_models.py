"""The models whose latency is measured, besides those of `models`: encoders, detectors, denoisers and decoders.

Random weights, in eval mode. ultralytics and diffusers are no dependencies of opbridge: without them their models are
not measured, and the script says so.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import models
import torch

__all__ = ["MODELS", "build", "missing"]

_CACHE = 512


def build(name: str) -> models.Built:
    """A model of `MODELS`, with example inputs."""
    torch.manual_seed(0)
    return MODELS[name]()


def missing(name: str) -> str | None:
    """The package that a model needs and that is not installed."""
    package = _NEEDED.get(name)
    return package if package is not None and importlib.util.find_spec(package) is None else None


def _whisper() -> models.Built:
    """The encoder of the size of whisper-tiny, and 30 seconds of speech."""
    import transformers
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = transformers.WhisperConfig(
        d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536, num_mel_bins=80
    )
    return models.Built(_First(WhisperEncoder(config)).eval(), (torch.randn(1, 80, 3000),), {})


def _yolo() -> models.Built:
    """yolo11n, and an image of 640 by 640."""
    from ultralytics import YOLO

    model = YOLO("yolo11n.yaml").model.eval()
    model.model[-1].export, model.model[-1].format = True, "onnx"  # as its own export sets them
    image = torch.randn(1, 3, 640, 640)
    with torch.no_grad():
        model(image)  # which keeps the points of the image's grid
    return models.Built(model, (image,), {})


def _unet() -> models.Built:
    """Stable Diffusion's UNet, narrow: three resolutions of 64 to 256 channels, a latent image of 32 by 32."""
    from diffusers import UNet2DConditionModel

    model = UNet2DConditionModel(
        sample_size=32,
        block_out_channels=(64, 128, 256),
        layers_per_block=2,
        cross_attention_dim=256,
        attention_head_dim=8,
        norm_num_groups=32,
        down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
    )
    given = torch.randn(1, 4, 32, 32), torch.tensor(7), torch.randn(1, 77, 256)
    return models.Built(_First(model).eval(), given, {})


def _prefill() -> models.Built:
    """The Llama of `models`, and 512 tokens."""
    built = models.build("Llama")
    ids = torch.randint(3, 900, (1, 512))
    return models.Built(_First(built.model).eval(), (ids,), {})


def _one_token() -> models.Built:
    """The Llama of `models`, and one token after a cache of 512."""
    model = models.build("Llama").model
    config = model.config
    size = config.hidden_size // config.num_attention_heads
    shape = (1, config.num_key_value_heads, _CACHE, size)
    cache = [torch.randn(shape) for _ in range(2 * config.num_hidden_layers)]
    return models.Built(_OneToken(model).eval(), (torch.randint(3, 900, (1, 1)), *cache), {})


class _First(torch.nn.Module):
    """The first tensor of what a model returns."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        """The inputs of the model; its first output."""
        return self.model(*args)[0]


class _OneToken(torch.nn.Module):
    """A decoder with its cache as tensors: keys and values of each layer, [batch, groups, tokens, size]."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, *cache: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The logits, and the cache with the new token."""
        import transformers

        past = transformers.DynamicCache()
        for layer in range(len(cache) // 2):
            past.update(cache[2 * layer], cache[2 * layer + 1], layer)
        found = self.model(input_ids=ids, past_key_values=past, use_cache=True)
        layers = found.past_key_values.layers
        return found.logits, *(each for layer in layers for each in (layer.keys, layer.values))


_MORE: dict[str, Callable[[], models.Built]] = {
    "Whisper's encoder": _whisper,
    "yolo11n": _yolo,
    "UNet": _unet,
    "Llama, 512 tokens": _prefill,
    "Llama, one token": _one_token,
}
_NEEDED = {"yolo11n": "ultralytics", "UNet": "diffusers"}

MODELS: dict[str, Callable[[], models.Built]] = {
    **{name: lambda name=name: models.build(name) for name in (*models.NAMES, "efficientnet_b0", "BERT")},
    **_MORE,
}
"""The models, by their names in the table."""
