"""What a family of models is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["DYNAMIC", "Case", "Inputs", "ModelEntry"]

DYNAMIC = ("none", "batch", "all")
"""Which dimensions are dynamic: none, the batch, or all that users vary (batch, sequence, height, width)."""


@dataclass(frozen=True)
class Inputs:
    """One call of a model: its arguments, by position and by name."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """A model to export.

    Attributes:
        model: A module in evaluation mode, with random weights.
        example: The inputs that the export sees.
        dynamic_shapes: For "batch" and "all", what `opbridge.export` takes as `dynamic_shapes`. Without "all" the model
            has no other dynamic dimension than the batch, without "batch" it has no batch.
        others: For "none", "batch" and "all", inputs to compare on, which the export did not see: other values, and
            other sizes in the dimensions that are dynamic, a batch of one among them.
    """

    model: Any
    example: Inputs
    dynamic_shapes: Mapping[str, Any] = field(default_factory=dict)
    others: Mapping[str, Sequence[Inputs]] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelEntry:
    """A model of a family.

    Attributes:
        name: Its name, unique in the family, as its package's users know it ("resnet18", "BertForMaskedLM").
        make: Builds it.
    """

    name: str
    make: Callable[[], Case]
