"""torchvision's detection models with random weights, which find something: for the tests of whole models."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch

import opbridge

__all__ = ["DETECTORS", "NOTHING", "assert_finds", "detector", "image"]

_LEVELS = ["0", "1"]


class _Backbone(torch.nn.Module):
    """Features of two sizes, an eighth and a sixteenth of the image's."""

    out_channels = 32

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 32, 8, stride=8)
        self.second = torch.nn.Conv2d(32, 32, 3, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        large = self.first(x)
        small = self.second(large.relu())
        return OrderedDict(zip(_LEVELS, (large, small), strict=True))


def _anchors(*, ratios: tuple[float, ...] = (0.5, 1.0, 2.0)) -> Any:
    from torchvision.models.detection.anchor_utils import AnchorGenerator

    return AnchorGenerator(((12,), (24,)), (ratios,) * 2)


def _pool(size: int) -> Any:
    from torchvision.ops import MultiScaleRoIAlign

    return MultiScaleRoIAlign(_LEVELS, size, 2)


def _rcnn(kind: Any, threshold: float, **settings: Any) -> torch.nn.Module:
    return kind(
        _Backbone(),
        rpn_anchor_generator=_anchors(),
        box_roi_pool=_pool(4),
        rpn_pre_nms_top_n_test=40,
        rpn_post_nms_top_n_test=20,
        box_score_thresh=threshold,
        box_detections_per_img=6,
        **settings,
    )


def _model(name: str, threshold: float) -> torch.nn.Module:
    from torchvision.models import detection
    from torchvision.models.detection import faster_rcnn, keypoint_rcnn, mask_rcnn

    sizes = {"min_size": 64, "max_size": 128}
    if name == "fasterrcnn":
        return _rcnn(detection.FasterRCNN, threshold, num_classes=4, **sizes)
    if name == "maskrcnn":
        return _rcnn(
            mask_rcnn.MaskRCNN,
            threshold,
            box_predictor=faster_rcnn.FastRCNNPredictor(1024, 4),
            mask_roi_pool=_pool(4),
            mask_head=mask_rcnn.MaskRCNNHeads(32, (8,), 1),
            mask_predictor=mask_rcnn.MaskRCNNPredictor(8, 8, 4),
            **sizes,
        )
    if name == "keypointrcnn":
        return _rcnn(
            keypoint_rcnn.KeypointRCNN,
            threshold,
            num_classes=2,
            keypoint_roi_pool=_pool(4),
            keypoint_head=keypoint_rcnn.KeypointRCNNHeads(32, (8,)),
            keypoint_predictor=keypoint_rcnn.KeypointRCNNPredictor(8, 3),
            **sizes,
        )
    found = {"score_thresh": threshold, "detections_per_img": 6, **sizes}
    if name == "retinanet":
        return detection.RetinaNet(_Backbone(), 4, anchor_generator=_anchors(), topk_candidates=30, **found)
    if name == "fcos":
        anchors = _anchors(ratios=(1.0,))
        return detection.FCOS(_Backbone(), 4, anchor_generator=anchors, topk_candidates=30, **found)
    if name == "ssd":
        from torchvision.models.detection import anchor_utils, ssd

        boxes = anchor_utils.DefaultBoxGenerator([[2]] * 2)
        head = ssd.SSDHead([_Backbone.out_channels] * 2, boxes.num_anchors_per_location(), 3)
        found = {"score_thresh": threshold, "detections_per_img": 6}
        return ssd.SSD(_Backbone(), boxes, (64, 64), 3, head=head, topk_candidates=30, **found)
    raise ValueError(name)


DETECTORS = ("fasterrcnn", "maskrcnn", "keypointrcnn", "retinanet", "fcos", "ssd")


def detector(name: str, threshold: float) -> torch.nn.Module:
    """A detection model whose scores are not all the same, as those of random weights are.

    All biases are 0, so that it gives the score of chance to an image of the mean colour; see `NOTHING`.

    Args:
        name: One of `DETECTORS`.
        threshold: The score that a box needs.
    """
    torch.manual_seed(0)
    model = _model(name, threshold).eval()
    for path, weight in model.named_parameters():
        if path.endswith("bias"):
            torch.nn.init.zeros_(weight)
    for classifier in _classifiers(model):
        _spread(model, classifier)
    return model


def _classifiers(model: Any) -> list[torch.nn.Module]:
    """The layers that give scores, each after those that it takes boxes from."""
    if hasattr(model, "roi_heads"):
        return [model.rpn.head.cls_logits, model.roi_heads.box_predictor.cls_score]
    head = model.head.classification_head
    return list(head.module_list) if hasattr(head, "module_list") else [head.cls_logits]


def _spread(model: torch.nn.Module, classifier: torch.nn.Module) -> None:
    """Sets the weights of a classifier so that what it gives for a random image has a standard deviation of 2."""
    given: list[torch.Tensor] = []
    hook = classifier.register_forward_hook(lambda module, args, result: given.append(result.flatten()))
    with torch.no_grad():
        model([image(100)])
        classifier.weight.mul_(2 / torch.cat(given).std())
    hook.remove()


def image(seed: int, height: int = 64, width: int = 80) -> torch.Tensor:
    """An image of random pixels."""
    return torch.rand(3, height, width, generator=torch.Generator().manual_seed(seed))


NOTHING = torch.tensor([0.485, 0.456, 0.406]).reshape(3, 1, 1).repeat(1, 64, 80)
"""An image in which a model finds nothing whose threshold is above the score of chance."""


def assert_finds(program: opbridge.Program, model: torch.nn.Module, images: list[torch.Tensor]) -> list[int]:
    """Asserts that a file finds what a model finds, and gives how many boxes that are in each image."""
    session = program.session()
    names = [output.name.partition(".")[2] for output in session.get_outputs()]
    counts = []
    for each in images:
        with torch.no_grad():
            (expected,) = model([each])
        values = session.run(None, {session.get_inputs()[0].name: each.numpy()})
        found = dict(zip(names, map(torch.from_numpy, values), strict=True))
        for name, value in expected.items():
            assert (found[name].shape, found[name].dtype) == (value.shape, value.dtype)
        assert _unmatched(found, expected) == 0
        assert _unmatched(expected, found) == 0
        counts.append(len(expected["boxes"]))
    return counts


def _unmatched(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> int:
    """How many boxes of the one have none of the other with the same label and about the same score and corners.

    Boxes of nearly the same score may be in another order.
    """
    count = 0
    for index in range(len(one["boxes"])):
        count += not any(
            all(
                torch.allclose(one[key][index].double(), other[key][at].double(), 1e-3, _NEAR.get(key, 1e-3))
                for key in one
            )
            for at in range(len(other["boxes"]))
        )
    return count


_NEAR = {"boxes": 1e-2, "scores": 1e-4}
