"""torchvision's detection models: data decides how many boxes there are, and Python looks at that."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

import opbridge

pytestmark = [pytest.mark.slow, pytest.mark.torchvision]


def build(name: str) -> torch.nn.Module:
    """A model with random weights that finds something.

    As they are, random weights give all boxes nearly the same score, and which of them are kept is then a matter of the
    last digit. So batch norm is set to the statistics of random images, and the classifiers' weights are larger, which
    sets the scores apart.
    """
    from torchvision.models import detection

    torch.manual_seed(0)
    options = {"weights": None, "weights_backbone": None}
    if name == "ssdlite320_mobilenet_v3_large":
        model = detection.ssdlite320_mobilenet_v3_large(
            **options, num_classes=16, score_thresh=0.05, detections_per_img=15
        )
        classifiers = [each[1] for each in model.head.classification_head.module_list]
        factor = 4
    elif name == "fasterrcnn_mobilenet_v3_large_320_fpn":
        model = detection.fasterrcnn_mobilenet_v3_large_320_fpn(
            **options, box_score_thresh=0.05, box_detections_per_img=15
        )
        classifiers = [model.rpn.head.cls_logits, model.roi_heads.box_predictor.cls_score]
        factor = 30
    else:
        sizes = {"min_size": 160, "max_size": 224}
        model = detection.retinanet_resnet50_fpn(**options, **sizes, score_thresh=0.05, detections_per_img=15)
        classifiers = [model.head.classification_head.cls_logits]
        factor = 15
    for each in model.modules():
        if isinstance(each, torch.nn.BatchNorm2d):
            each.momentum = None
            each.reset_running_stats()
    torch.manual_seed(1)
    with torch.no_grad():
        model.backbone.train()
        features = list(model.backbone((torch.rand(4, 3, 320, 320) - 0.45) / 0.225).values())
        if hasattr(model, "head"):
            model.head.train()
            model.head(features)
        for classifier in classifiers:
            classifier.weight.mul_(factor)
    return model.eval()


MODELS = ["fasterrcnn_mobilenet_v3_large_320_fpn", "retinanet_resnet50_fpn", "ssdlite320_mobilenet_v3_large"]


@pytest.mark.parametrize("name", MODELS)
def test_images_that_were_not_the_examples(name):
    model = build(name)
    example = torch.rand(3, 240, 320, generator=torch.Generator().manual_seed(3))
    sizes = {1: Dim("height", min=200, max=400), 2: Dim("width", min=200, max=400)}
    # The capture of retinanet's operators takes minutes before it fails.
    way = "trace" if name.startswith("retinanet") else "auto"
    program = opbridge.export(model, ([example],), capture=way, dynamic_shapes={"images": [sizes]}, verify=False)
    assert program.capture.strategy == ("direct" if name.startswith("ssdlite") else "trace")
    notes = program.plan.notes
    if name.startswith("fasterrcnn"):
        assert notes[0].startswith("captured by a trace, as the operators of the model cannot be captured: ")
    if program.capture.strategy == "trace":
        assert any(note.startswith("frozen by the trace at torchvision") for note in notes)
    session = program.session()
    (given,) = session.get_inputs()
    assert given.shape == [3, "height", "width"]
    names = [output.name.partition(".")[2] for output in session.get_outputs()]
    for seed, size in ((15, (240, 320)), (18, (240, 320)), (11, (260, 330)), (16, (260, 330))):
        image = torch.rand(3, *size, generator=torch.Generator().manual_seed(seed))
        with torch.no_grad():
            (expected,) = model([image])
        found = dict(zip(names, session.run(None, {given.name: image.numpy()}), strict=True))
        assert len(expected["boxes"]) == 15
        scores = expected["scores"]
        # Far enough apart that their order is not a matter of rounding.
        assert (scores[:-1] - scores[1:]).min() > 4e-5
        assert found["labels"].tolist() == expected["labels"].tolist()
        torch.testing.assert_close(torch.from_numpy(found["scores"]), scores, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(torch.from_numpy(found["boxes"]), expected["boxes"], rtol=1e-4, atol=1e-2)


def test_verification_of_a_detection_model():
    model = build("ssdlite320_mobilenet_v3_large")
    example = torch.rand(3, 240, 320, generator=torch.Generator().manual_seed(3))
    program = opbridge.export(model, ([example],), capture="trace")
    assert program.verification is not None and program.verification.ok
    assert [run.kind for run in program.verification.runs][:3] == ["example", "fresh", "fresh"]
