"""What opbridge knows of neuralforecast, as the entry point says."""

from __future__ import annotations

from opbridge.model_support.entries import FunctionReplacement, ModelSupport
from opbridge.model_support.neuralforecast import periods

__all__ = ["SUPPORT"]

SUPPORT = ModelSupport(
    package="neuralforecast",
    entries=(
        FunctionReplacement(
            targets=("neuralforecast.models.timesnet:TimesBlock.forward",),
            sources=("272dc9aee40e239b",),
            replacement=periods.laid_out,
            calls=periods.CALLS,
            owner_suffix="TimesBlock",
            inputs=periods.blocks,
        ),
    ),
)
