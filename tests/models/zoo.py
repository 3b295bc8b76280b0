"""The models that opbridge must carry, at sizes that a test can afford: name -> how to build it and what may vary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def _vision(
    build: Callable[[Any], torch.nn.Module], size: tuple[int, ...], name: str = "x", dynamic: bool = True
) -> Any:
    def make() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...], dict[str, Any], dict[str, Any] | None]:
        import torchvision

        model = build(torchvision).eval()
        return model, (torch.randn(size),), {}, {name: {0: "batch"}} if dynamic else None

    return make


def _deform() -> Any:
    import torchvision

    class Deform(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.where = torch.nn.Conv2d(3, 27, 3, padding=1)
            self.deform = torchvision.ops.DeformConv2d(3, 8, 3, padding=1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found = self.where(x)
            return self.deform(x, found[:, :18], found[:, 18:].sigmoid())

    return Deform().eval(), (torch.randn(2, 3, 16, 16),), {}, {"x": {0: "batch"}}


def _raft() -> Any:
    import torchvision

    images = (torch.randn(1, 3, 128, 128), torch.randn(1, 3, 128, 128))
    return torchvision.models.optical_flow.raft_small().eval(), images, {"num_flow_updates": 3}, None


# maxvit_t with smaller windows and fewer layers, as its own needs images of 224 by 224.
_MAXVIT = {
    "input_size": (64, 64),
    "stem_channels": 32,
    "partition_size": 2,
    "block_channels": [32, 64, 128, 256],
    "block_layers": [1, 1, 2, 1],
    "head_dim": 32,
    "stochastic_depth_prob": 0.2,
}

VISION: dict[str, Callable[[], Any]] = {
    "resnet50": _vision(lambda tv: tv.models.resnet50(), (2, 3, 64, 64)),
    "swin_t": _vision(lambda tv: tv.models.swin_t(), (2, 3, 64, 64)),
    "swin_v2_t": _vision(lambda tv: tv.models.swin_v2_t(), (2, 3, 64, 64)),
    "vit_b_16": _vision(lambda tv: tv.models.vit_b_16(image_size=64), (2, 3, 64, 64)),
    "convnext_tiny": _vision(lambda tv: tv.models.convnext_tiny(), (2, 3, 64, 64)),
    "densenet121": _vision(lambda tv: tv.models.densenet121(), (2, 3, 64, 64)),
    "efficientnet_b0": _vision(lambda tv: tv.models.efficientnet_b0(), (2, 3, 64, 64)),
    "mobilenet_v3_small": _vision(lambda tv: tv.models.mobilenet_v3_small(), (2, 3, 64, 64)),
    "maxvit": _vision(lambda tv: tv.models.MaxVit(**_MAXVIT), (2, 3, 64, 64)),
    "deeplabv3_mobilenet_v3_large": _vision(
        lambda tv: tv.models.segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None),
        (2, 3, 64, 64),
    ),
    "r3d_18": _vision(lambda tv: tv.models.video.r3d_18(), (2, 3, 4, 32, 32)),
    "raft_small": _raft,
    "deform_conv": _deform,
}

_TEXT = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}


def _text(model: str, config: str, **settings: Any) -> Callable[[], Any]:
    def make() -> Any:
        import transformers

        built = getattr(transformers, model)(getattr(transformers, config)(**settings)).eval()
        ids = torch.randint(3, 90, (2, 10))
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        varying = {name: {0: "batch", 1: torch.export.Dim("sequence", max=60)} for name in inputs}
        return built, (), inputs, varying

    return make


def _images(model: str, config: str, name: str, size: tuple[int, ...], **settings: Any) -> Callable[[], Any]:
    def make() -> Any:
        import transformers

        built = getattr(transformers, model)(getattr(transformers, config)(**settings)).eval()
        return built, (), {name: torch.randn(size)}, {name: {0: "batch"}}

    return make


_HIDDEN = {key: value for key, value in _TEXT.items() if key != "vocab_size"}

TRANSFORMERS: dict[str, Callable[[], Any]] = {
    "BERT": _text("BertModel", "BertConfig", **_TEXT),
    "RoBERTa": _text("RobertaModel", "RobertaConfig", max_position_embeddings=64, **_TEXT),
    "DeBERTa-v2": _text(
        "DebertaV2Model",
        "DebertaV2Config",
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        position_buckets=8,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        **_TEXT,
    ),
    "GPT-2": _text(
        "GPT2LMHeadModel", "GPT2Config", vocab_size=100, n_embd=32, n_layer=2, n_head=4, n_positions=64, use_cache=False
    ),
    "Llama": _text("LlamaForCausalLM", "LlamaConfig", num_key_value_heads=2, use_cache=False, **_TEXT),
    "T5 encoder": _text(
        "T5EncoderModel", "T5Config", vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4
    ),
    "ViT": _images("ViTModel", "ViTConfig", "pixel_values", (2, 3, 32, 32), image_size=32, patch_size=8, **_HIDDEN),
    "Wav2Vec2": _images(
        "Wav2Vec2Model",
        "Wav2Vec2Config",
        "input_values",
        (2, 1000),
        conv_dim=(32, 32),
        conv_stride=(5, 2),
        conv_kernel=(10, 3),
        num_feat_extract_layers=2,
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
        **_HIDDEN,
    ),
}
