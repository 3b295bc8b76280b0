"""The models that are measured, with random weights, in eval mode: torchvision's, and small ones of transformers.

A name that ends with ", dynamic sizes" is the same model with dimensions that may vary.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torchvision

__all__ = ["EXPORTED", "NAMES", "Built", "build"]

NAMES = ("resnet50", "swin_t", "vit_b_16", "convnext_tiny", "densenet121")
"""The models that every measurement takes: one image each."""

_TEXT = ("BERT", "Llama")
_DYNAMIC = ", dynamic sizes"

EXPORTED = (
    "two operators",
    *NAMES,
    "regnet_y_400mf",
    "shufflenet_v2_x0_5",
    *(name + ending for name in _TEXT for ending in ("", _DYNAMIC)),
)
"""The models whose export is measured."""


class Built(NamedTuple):
    """A model and what it is exported with.

    Attributes:
        model: The model, in eval mode.
        args: The positional example inputs.
        kwargs: The keyword example inputs.
        dynamic_shapes: The dimensions that may vary, as torch.export takes them; None where all are static.
    """

    model: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dynamic_shapes: Any = None


class TwoOperators(torch.nn.Module):
    """An addition and a ReLU: what an export costs when there is next to nothing to export."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """x, y and the result: any one shape and float dtype."""
        return (x + y).relu()


def build(name: str) -> Built:
    """A model and example inputs: an image of 224 by 224, two texts of 32 tokens, or two vectors."""
    torch.manual_seed(0)
    plain = name.removesuffix(_DYNAMIC)
    if plain == "two operators":
        built = Built(TwoOperators().eval(), (torch.randn(8), torch.randn(8)), {})
        dynamic = ({0: torch.export.Dim.DYNAMIC},) * 2
    elif plain in _TEXT:
        ids = torch.randint(3, 900, (2, 32))
        built = Built(_text_model(plain), (), {"input_ids": ids, "attention_mask": torch.ones_like(ids)})
        sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence", max=512)}
        dynamic = dict.fromkeys(built.kwargs, sizes)
    else:
        images = 1 if name == plain else 2
        model = torchvision.models.get_model(plain, weights=None).eval()
        built = Built(model, (torch.randn(images, 3, 224, 224),), {})
        dynamic = ({0: torch.export.Dim("batch")},)
    return built if name == plain else built._replace(dynamic_shapes=dynamic)


def _text_model(name: str) -> torch.nn.Module:
    """4 layers of width 256."""
    import transformers

    sizes = {
        "vocab_size": 1000,
        "hidden_size": 256,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "intermediate_size": 1024,
    }
    if name == "BERT":
        return transformers.BertModel(transformers.BertConfig(**sizes)).eval()
    config = transformers.LlamaConfig(num_key_value_heads=2, use_cache=False, **sizes)
    return transformers.LlamaForCausalLM(config).eval()
