"""TensorFlow's padding, compared with transformers' own functions."""

from __future__ import annotations

import importlib

import pytest
import torch
from helpers.known_functions import computed

import opbridge

pytest.importorskip("transformers", reason="not installed")


def _known(name):
    original = importlib.import_module(f"transformers.models.{name}.modeling_{name}").apply_tf_padding
    return original, computed(original)


@pytest.mark.parametrize("name", ["mobilenet_v1", "mobilenet_v2"])
@pytest.mark.parametrize(
    "kernel, stride", [(1, 1), (2, 1), (3, 1), (3, 2), (2, 2), (4, 3), (5, 2), (1, 2), ((3, 4), (1, 3))]
)
@pytest.mark.parametrize("dilation", [1, 2])
def test_padding_is_that_of_transformers(name, kernel, stride, dilation):
    original, known = _known(name)
    layer = torch.nn.Conv2d(1, 1, kernel, stride, dilation=dilation)
    for height in range(9):
        for width in (0, 1, 4, 5, 12):
            features = torch.randn(1, 1, height, width)
            torch.testing.assert_close(known(features, layer), original(features, layer), rtol=0, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["MobileNetV1", "MobileNetV2"])
def test_a_model_with_this_padding_is_one_graph_for_all_sizes(name, tmp_path):
    import transformers

    small = {"depth_multiplier": 0.25, "min_depth": 8}
    model = getattr(transformers, f"{name}Model")(getattr(transformers, f"{name}Config")(**small)).eval()
    shapes = {"pixel_values": {0: "batch", 2: "height", 3: "width"}}
    example = (torch.randn(2, 3, 64, 96),)
    program = opbridge.export(model, example, f=tmp_path / "model.onnx", dynamic_shapes=shapes, verify=False)
    others = [(torch.randn(1, 3, *size),) for size in [(1, 1), (16, 33), (31, 64), (97, 98)]]
    assert not program.capture.demands
    assert opbridge.verify(tmp_path / "model.onnx", model, example, inputs=others).ok
