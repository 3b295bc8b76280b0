"""transformers' models: every class that its automatic classes know, from a small configuration."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from opbridge.coverage.models.entries import Case, ModelEntry
from opbridge.coverage.models.families.transformers.cases import TextAloneError, case
from opbridge.coverage.models.families.transformers.fields import configs
from opbridge.coverage.models.families.transformers.generation import step
from opbridge.coverage.models.families.transformers.names import classes, text_generators
from opbridge.coverage.models.families.transformers.shrink import Scale, shrink

__all__ = ["PACKAGES", "entries"]

PACKAGES = ("transformers",)

_MOST_PARAMETERS = 42_000_000
"""Larger models are made smaller, where they can be."""

_SCALES = (
    Scale(8),
    Scale(8, pictures=False),
    Scale(4),
    Scale(2),
    Scale(2, pictures=False),
    Scale(16),
    Scale(32),
    Scale(1),
    Scale(1, pictures=False),
)
"""How much smaller a configuration is made: the first with which the model can be built and runs is taken."""

_SAME = 3
"""After as many scales with the same error it is not the scale's."""


class _TooLargeError(ValueError):
    """A model has more parameters than an entry may have."""


def entries() -> list[ModelEntry]:
    """A model for each class, and for each class that generates text one with a cache among its inputs."""
    found = classes()
    made = [ModelEntry(name, partial(_make, name, model_type)) for name, model_type in found.items()]
    made += [ModelEntry(f"{name}, cache", partial(_make_step, name, found[name])) for name in text_generators()]
    return made


def _make(name: str, model_type: str) -> Case:
    try:
        return _first(name, model_type, partial(case, with_parts=True))
    except TextAloneError:
        return _first(name, model_type, case)


def _make_step(name: str, model_type: str) -> Case:
    return _first(name, model_type, step)


def _first(name: str, model_type: str, make: Callable[[Any], Case]) -> Case:
    """The case of the model of the first scale that it works with; the error of the first where it works with none."""
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    cls = getattr(transformers, name)
    errors: list[Exception] = []
    least = 1
    for scale in _SCALES:
        if scale.divisor < least:
            continue
        try:
            return make(_built(cls, shrink(_default(cls, CONFIG_MAPPING[model_type]), scale)))
        except NotImplementedError:  # another scale does not change what inputs there are rules for
            raise
        except _TooLargeError as error:
            errors.append(error)
            least = scale.divisor + 1
        except Exception as error:  # whatever does not fit together
            errors.append(error)
            if len(errors) >= _SAME and len({str(each) for each in errors}) == 1:
                break
    alone = next((each for each in errors if isinstance(each, TextAloneError)), None)
    if alone is not None:
        raise alone
    for other in errors[1:]:
        errors[0].add_note(f"with another scale: {type(other).__name__}: {other}")
    raise errors[0]


def _default(cls: Any, mapped: Any) -> Any:
    """The default configuration of a class: of the type that the class says, or the part of that type."""
    config = mapped()
    own = cls.config_class
    if isinstance(own, type) and not isinstance(config, own):
        config = next((part for part in configs(config) if isinstance(part, own)), None) or own()
    if cls.__name__ in text_generators() and hasattr(config, "is_decoder"):
        config.is_decoder = True
    if cls.__name__.endswith("EncoderModel") and hasattr(config, "is_encoder_decoder"):
        config.is_encoder_decoder = False
    return config


def _built(cls: Any, config: Any) -> Any:
    with torch.device("meta"):
        count = _count(cls(config))
    if count > _MOST_PARAMETERS:
        raise _TooLargeError(f"the model has {count} parameters")
    with torch.no_grad():
        return cls(config).eval()


def _count(model: Any) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
