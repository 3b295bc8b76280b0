"""What the inputs of a transformers model are drawn from: its parameters, and sizes that its configuration gives."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch

from opbridge.coverage.models.families.transformers.fields import PLAIN_TOKENS

__all__ = ["Facts"]

_FIRST_TOKEN = 16
"""Ids below are often special."""


class Facts:
    """A model's parameters, and its configuration with the parts of it."""

    def __init__(self, model: Any):
        self.model = model
        self.config = model.config
        signature = inspect.signature(model.forward).parameters.values()
        known = [p for p in signature if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        self.parameters = [p.name for p in known]
        self.required = [p.name for p in known if p.default is p.empty]
        main = getattr(model, "main_input_name", None) or []
        self.main = [name for name in ([main] if isinstance(main, str) else main) if name in self.parameters]

    def value(self, *names: str, default: Any = None, part: str = "") -> Any:
        """The first of these fields that the configuration or a part of it has, parts whose name holds `part` first."""
        configs = (
            sorted(_parts("", self.config), key=lambda pair: part not in pair[0]) if part else _parts("", self.config)
        )
        for _, config in configs:
            for name in names:
                found = getattr(config, name, None)
                if found is not None:
                    return found
        return default

    def text_config(self) -> Any:
        return next((c for name, c in _parts("", self.config) if "text" in name), self.config)

    def tokens(self, *shape: int, vocabulary: int | None = None) -> torch.Tensor:
        """Ids of tokens none of which is special."""
        if vocabulary is None:
            vocabulary = self.value("vocab_size", "src_vocab_size", default=PLAIN_TOKENS, part="text")
        vocabulary = vocabulary if isinstance(vocabulary, int) else PLAIN_TOKENS
        first, last = min(_FIRST_TOKEN, vocabulary // 2), min(vocabulary, PLAIN_TOKENS)
        special = self.special()
        plain = torch.tensor([token for token in range(first, last) if token not in special])
        return plain[torch.randint(len(plain), shape)]

    def special(self) -> set[int]:
        found: set[int] = set()
        for _, config in _parts("", self.config):
            for name, value in vars(config).items():
                if name.endswith(("_id", "_ids", "_index")):
                    found |= {v for v in (value if isinstance(value, list | tuple) else [value]) if isinstance(v, int)}
        return found


def _parts(name: str, config: Any) -> Iterator[tuple[str, Any]]:
    yield name, config
    for key, value in vars(config).items():
        if hasattr(value, "model_type") and hasattr(value, "to_dict"):
            yield from _parts(key, value)
