"""sentence_transformers: a small encoder of transformers' with each way of pooling, and the modules that may follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from opbridge.coverage.models.entries import Case, Inputs, ModelEntry
from opbridge.coverage.models.varying import Size, vary

__all__ = ["PACKAGES", "entries"]

PACKAGES = ("sentence_transformers", "transformers")

_WIDTH = 32
_SIZES = {"batch": Size(2, (1, 3)), "sequence": Size(10, (7, 13))}


class _Pipeline(torch.nn.Module):
    """What SentenceTransformer does with token ids: an encoder, then modules that each take and give a dict."""

    def __init__(self, *modules: torch.nn.Module):
        super().__init__()
        from transformers import BertConfig, BertModel

        config = BertConfig(
            vocab_size=128, hidden_size=_WIDTH, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64
        )
        self.encoder = BertModel(config)
        self.parts = torch.nn.ModuleList(modules)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        features = {"input_ids": input_ids, "attention_mask": attention_mask}
        features["token_embeddings"] = self.encoder(**features).last_hidden_state
        for part in self.parts:
            features = part(features)
        result: torch.Tensor = features["sentence_embedding"]
        return result


def entries() -> Iterator[ModelEntry]:
    """Each mode of pooling, and each module after pooling by the mean."""
    for mode in ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"):
        yield ModelEntry(f"Pooling, {mode}", partial(_make, partial(_pooling, mode)))
    for name, modules in _MODULES.items():
        yield ModelEntry(name, partial(_make, modules))


def _make(modules: Callable[[], list[torch.nn.Module]]) -> Case:
    return vary(_Pipeline(*modules()), _texts, _SIZES)


def _texts(batch: int, sequence: int) -> Inputs:
    """Texts of several lengths, padded at the end."""
    mask = torch.ones(batch, sequence, dtype=torch.int64)
    for i in range(batch - 1):
        mask[i, sequence - 1 - i :] = 0
    return Inputs((), {"input_ids": torch.randint(10, 128, (batch, sequence)), "attention_mask": mask})


def _module(name: str, *args: Any, **kwargs: Any) -> torch.nn.Module:
    from sentence_transformers import models

    made: torch.nn.Module = getattr(models, name)(*args, **kwargs)
    return made


def _pooling(mode: str = "mean") -> list[torch.nn.Module]:
    return [_module("Pooling", _WIDTH, pooling_mode=mode)]


_MODULES: dict[str, Callable[[], list[torch.nn.Module]]] = {
    "Normalize": lambda: [*_pooling(), _module("Normalize")],
    "Dense": lambda: [*_pooling(), _module("Dense", _WIDTH, 16), _module("Normalize")],
    "LayerNorm": lambda: [*_pooling(), _module("LayerNorm", _WIDTH)],
    "Dropout": lambda: [*_pooling(), _module("Dropout", 0.1)],
    "CNN": lambda: [_module("CNN", _WIDTH, 16), _module("Pooling", 48)],
}
