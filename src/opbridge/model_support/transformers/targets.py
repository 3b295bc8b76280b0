"""Where transformers defines its models."""

from __future__ import annotations

__all__ = ["modeling"]


def modeling(*targets: str) -> tuple[str, ...]:
    """Targets, from "mistral3:Class.method" for a class of the module that defines the model mistral3."""
    apart = (each.partition(":") for each in targets)
    return tuple(f"transformers.models.{name}.modeling_{name}:{of}" for name, _, of in apart)
