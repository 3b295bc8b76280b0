"""transformers' models: every class that its automatic classes know, from a small configuration."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from opbridge.coverage.models.entries import Case, ModelEntry
from opbridge.coverage.models.families.transformers.cases import case
from opbridge.coverage.models.families.transformers.generation import step
from opbridge.coverage.models.families.transformers.names import classes, text_generators
from opbridge.coverage.models.families.transformers.shrink import shrink

__all__ = ["PACKAGES", "entries"]

PACKAGES = ("transformers",)

_DIVISORS = (8, 4)
"""What widths are divided by: the first with which the model can be built."""


def entries() -> list[ModelEntry]:
    """A model for each class, and for each class that generates text one with a cache among its inputs."""
    found = classes()
    made = [ModelEntry(name, partial(_make, name, model_type)) for name, model_type in found.items()]
    made += [ModelEntry(f"{name}, cache", partial(_make_step, name, found[name])) for name in text_generators()]
    return made


def _make(name: str, model_type: str) -> Case:
    return case(_model(name, model_type))


def _make_step(name: str, model_type: str) -> Case:
    return step(_model(name, model_type))


def _model(name: str, model_type: str) -> Any:
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    cls = getattr(transformers, name)
    default = CONFIG_MAPPING[model_type]()
    for divisor in _DIVISORS:
        try:
            return _built(cls, shrink(default, divisor))
        except Exception:  # whatever does not fit together
            if divisor == _DIVISORS[-1]:
                raise
    raise AssertionError("there is no divisor")


def _built(cls: Any, config: Any) -> Any:
    with torch.no_grad():
        return cls(config).eval()
