"""The model classes of transformers' automatic classes, without importing a model."""

from __future__ import annotations

from typing import Any

__all__ = ["classes", "text_generators"]


def classes() -> dict[str, str]:
    """By the name of a model class, the type of its configuration: of all tasks that the automatic classes know."""
    from transformers.models.auto import modeling_auto

    found: dict[str, str] = {}
    for name, mapping in vars(modeling_auto).items():
        if name.endswith("_NAMES") and name.startswith("MODEL_") and hasattr(mapping, "items"):
            for model_type, names in mapping.items():
                for one in _several(names):
                    found.setdefault(one, model_type)
    return found


def text_generators() -> list[str]:
    """The names of the classes that generate text token by token."""
    from transformers.models.auto import modeling_auto

    found = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()
    return list(dict.fromkeys(one for names in found for one in _several(names)))


def _several(names: Any) -> list[str]:
    return [names] if isinstance(names, str) else list(names)
