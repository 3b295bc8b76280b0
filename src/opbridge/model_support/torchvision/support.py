"""What opbridge knows of torchvision, as the entry point says."""

from __future__ import annotations

from opbridge.model_support.entries import FunctionReplacement, ModelSupport
from opbridge.model_support.torchvision import suppression

__all__ = ["SUPPORT"]

SUPPORT = ModelSupport(
    package="torchvision",
    entries=(
        FunctionReplacement(
            targets=("torchvision.ops.boxes:batched_nms",),
            sources=("7a657bd4135e02e4",),
            replacement=suppression.kept,
            applies=suppression.is_of_floats,
            uses=(suppression.NMS,),
            inputs=suppression.boxes_of_classes,
            note=suppression.note,
        ),
    ),
)
