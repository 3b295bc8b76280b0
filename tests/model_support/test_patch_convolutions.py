"""The convolution of Lfm3-VL over patches, in a file for images of any number and size."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.known_functions import computed
from helpers.transformers_classes import of_module

import opbridge
from opbridge.model_support.transformers import comparison_inputs

pytest.importorskip("transformers", reason="not installed")


@pytest.mark.slow
def test_a_convolution_is_exported_for_images_of_any_number_and_size():
    kind = of_module("models.lfm3_vl.modeling_lfm3_vl", "Lfm3VlVisionShortConv")
    computed(kind.forward)  # skips the test where it is another one
    ((model, *example), _), ((_, *other), _) = comparison_inputs.convolution(kind)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = model

        def forward(self, patches, grids):
            return self.layer(patches, grids)

    eager = model.forward
    program = opbridge.export(
        Model().eval(), tuple(example), dynamic_shapes=({0: "patches"}, {0: "images"}), verify=False
    )
    assert not program.capture.decisions
    session = program.session()
    for patches, grids in (example, other):
        (found,) = session.run(None, {"patches": patches.numpy(), "grids": grids.numpy()})
        np.testing.assert_allclose(found, eager(patches, grids.tolist()), rtol=1e-4, atol=1e-5)
    with pytest.raises(Exception, match="out of"):
        session.run(None, {"patches": example[0].numpy(), "grids": np.array([[1, 4, 4]])})
