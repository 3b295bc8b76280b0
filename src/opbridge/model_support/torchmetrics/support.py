"""What opbridge knows of torchmetrics, as the entry point says."""

from __future__ import annotations

from opbridge.model_support.entries import FunctionReplacement, ModelSupport
from opbridge.model_support.torchmetrics import curves

__all__ = ["SUPPORT"]

_FOLDER = "torchmetrics.functional.classification"

SUPPORT = ModelSupport(
    package="torchmetrics",
    entries=(
        FunctionReplacement(
            targets=(f"{_FOLDER}.recall_fixed_precision:_recall_at_precision",),
            sources=("26c044d02c7d42fb",),
            replacement=curves.largest_in_order("recall", "precision", "min_precision"),
            applies=curves.of_floats("recall", "precision"),
            inputs=curves.points,
        ),
        FunctionReplacement(
            targets=(f"{_FOLDER}.precision_fixed_recall:_precision_at_recall",),
            sources=("6509cb16f049d29c",),
            replacement=curves.largest_in_order("precision", "recall", "min_recall"),
            applies=curves.of_floats("recall", "precision"),
            inputs=curves.points,
        ),
        FunctionReplacement(
            targets=(f"{_FOLDER}.sensitivity_specificity:_sensitivity_at_specificity",),
            sources=("b41cf69c27ecda9b",),
            replacement=curves.largest("sensitivity", "specificity", "min_specificity"),
            applies=curves.of_floats("sensitivity", "specificity"),
            inputs=curves.points,
        ),
        FunctionReplacement(
            targets=(f"{_FOLDER}.specificity_sensitivity:_specificity_at_sensitivity",),
            sources=("8e8e3649f401bbd6",),
            replacement=curves.largest("specificity", "sensitivity", "min_sensitivity"),
            applies=curves.of_floats("sensitivity", "specificity"),
            inputs=curves.points,
        ),
    ),
)
