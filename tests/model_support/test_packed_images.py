"""Images of several sizes as one sequence, compared with transformers' own encoder and mergers of patches."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.known_functions import computed
from helpers.transformers_classes import of_module

import opbridge
from opbridge.model_support import applying
from opbridge.model_support.transformers import comparison_inputs

transformers = pytest.importorskip("transformers", reason="not installed")

MERGERS = [("mistral3", "Mistral3PatchMerger"), ("lighton_ocr", "LightOnOcrPatchMerger")]
SIZES = [[(32, 48)], [(32, 48), (16, 16)], [(33, 20), (8, 64), (47, 31)], [(8, 8), (8, 8)]]


def _encoder():
    torch.manual_seed(0)
    small = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.PixtralVisionConfig(**small, image_size=64, patch_size=8)
    model = transformers.PixtralVisionModel(config).eval()
    computed(type(model).forward)  # skips the test where it is another one
    return model


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_encodings_are_those_of_transformers(sizes, dtype):
    model, images = _encoder(), torch.randn(len(sizes), 3, 48, 64)
    for given in ({"image_sizes": torch.tensor(sizes, dtype=dtype)}, {}):
        with torch.no_grad():
            expected = model(images, **given, output_hidden_states=True)
            with applying.applied(model):
                found = model(images, **given, output_hidden_states=True)
        assert len(found.hidden_states) == len(expected.hidden_states)
        torch.testing.assert_close(found.last_hidden_state, expected.last_hidden_state, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(found.hidden_states[0], expected.hidden_states[0], rtol=0, atol=0)


def test_sizes_beyond_the_images_are_cut():
    model, images, sizes = _encoder(), torch.randn(2, 3, 16, 24), torch.tensor([[64, 16], [16, 64]])
    with torch.no_grad():
        expected = model(images, sizes).last_hidden_state
        with applying.applied(model):
            found = model(images, sizes).last_hidden_state
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("module, name", MERGERS)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("side", [1, 2, 3])
def test_merged_patches_are_those_of_transformers(module, name, sizes, side):
    kind = of_module(f"models.{module}.modeling_{module}", name)
    merge = computed(kind.forward)
    merger = kind.__new__(kind)
    torch.nn.Module.__init__(merger)
    merger.patch_size, merger.spatial_merge_size, merger.merging_layer = 8, side, torch.nn.Identity()
    sizes = [(height, width) for height, width in sizes if min(height, width) >= 8 * side] or [(32, 48)]
    patches = torch.randn(sum(height // 8 * (width // 8) for height, width in sizes), 5)
    given = torch.tensor(sizes)
    torch.testing.assert_close(merge(merger, patches, given), kind.forward(merger, patches, given), rtol=0, atol=0)


@pytest.mark.slow
def test_an_encoder_is_exported_for_images_of_any_number_and_size(tmp_path):
    model = _encoder()
    shapes = {"pixel_values": {0: "batch", 2: "height", 3: "width"}, "image_sizes": {0: "batch"}}
    example = (torch.randn(2, 3, 48, 64), torch.tensor([[48, 64], [32, 24]]))
    program = opbridge.export(model, example, f=tmp_path / "model.onnx", dynamic_shapes=shapes, verify=False)
    assert not program.capture.decisions  # attention asks nothing about the number of patches
    others = [
        (torch.randn(1, 3, 16, 16), torch.tensor([[8, 16]])),
        (torch.randn(3, 3, 32, 64), torch.tensor([[32, 64], [9, 9], [16, 40]])),
    ]
    assert opbridge.verify(tmp_path / "model.onnx", model, example, inputs=others).ok


@pytest.mark.slow
def test_a_projector_is_exported_for_images_of_any_number_and_size():
    kind = of_module("models.paddleocr_vl.modeling_paddleocr_vl", "PaddleOCRProjector")
    computed(kind.forward)
    ((model, *example), _), ((_, *other), _) = comparison_inputs.projector(kind)
    program = opbridge.export(
        model.eval(), tuple(example), dynamic_shapes=({0: "patches"}, {0: "images"}), inputs=[tuple(other)]
    )
    assert program.verification.ok and not program.capture.decisions
    session = program.session()
    for grids in ([[1, 4, 4]], [[1, 3, 8]]):
        with pytest.raises(Exception, match="out of"):
            session.run(None, {"image_features": example[0].numpy(), "image_grid_thw": np.array(grids)})
