"""ultralytics' detectors with their default heads, of any batch and any size in multiples of 32."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

import opbridge

pytestmark = pytest.mark.slow
tasks = pytest.importorskip("ultralytics.nn.tasks", reason="ultralytics is no dependency of the tests")


@pytest.mark.parametrize("name", ["yolov8n.yaml", "yolo11n-pose.yaml", "yolo12n.yaml", "yolo26n.yaml"])
def test_default_heads(name):
    kind = tasks.PoseModel if "pose" in name else tasks.DetectionModel
    torch.manual_seed(0)
    model = kind(name, verbose=False).eval()
    head = model.model[-1]
    stride = head.stride.clone()
    height, width = Dim("height"), Dim("width")
    shapes = ({0: "batch", 2: 32 * height, 3: 32 * width},)
    program = opbridge.export(model, (torch.rand(2, 3, 96, 64),), dynamic_shapes=shapes)
    assert [str(size) for size in program.model.graph.inputs[0].shape] == ["batch", "3", "32*height", "32*width"]
    # Nothing of the capture, nor of the verification's runs, is among what the head keeps from one run to the next.
    assert torch.equal(head.stride, stride) and type(head.anchors) is torch.Tensor
    assert head.shape is None and head.anchors.numel() == 0
