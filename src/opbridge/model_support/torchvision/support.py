"""What opbridge knows of torchvision, as the entry point says."""

from __future__ import annotations

from opbridge.model_support.entries import FunctionReplacement, ModelSupport
from opbridge.model_support.torchvision import batches, detections, keypoints, masks, poolers, suppression

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
        FunctionReplacement(
            targets=("torchvision.models.detection.roi_heads:RoIHeads.postprocess_detections",),
            sources=("1b262eab44ce4cd9",),
            replacement=detections.found,
            applies=detections.has_known_coder,
            uses=(detections.BOX_OPS,),
            inputs=detections.heads,
        ),
        FunctionReplacement(
            targets=("torchvision.models.detection.roi_heads:paste_masks_in_image",),
            sources=("f7714847538de5b5",),
            replacement=masks.pasted,
            applies=masks.are_of_floats,
            uses=masks.EXPANDING,
            inputs=masks.masks_of_boxes,
        ),
        FunctionReplacement(
            targets=("torchvision.models.detection.roi_heads:heatmaps_to_keypoints",),
            sources=("c2a1140a8db4e9ce",),
            replacement=keypoints.found,
            applies=keypoints.are_of_floats,
            inputs=keypoints.boxes_with_heatmaps,
            note=keypoints.note,
        ),
        FunctionReplacement(
            targets=("torchvision.models.detection.transform:GeneralizedRCNNTransform.batch_images",),
            sources=("43475f01cc511068",),
            replacement=batches.batched,
            applies=batches.have_unknown_sizes,
            inputs=batches.images_of_sizes,
        ),
        FunctionReplacement(
            targets=("torchvision.ops.poolers:MultiScaleRoIAlign.forward",),
            sources=("32cc904699648925",),
            replacement=poolers.pooled,
            applies=poolers.infers_from_unknown_sizes,
            calls=poolers.CALLS,
            owner_suffix="MultiScaleRoIAlign",
            uses=poolers.USED,
            inputs=poolers.images_of_levels,
        ),
    ),
)
