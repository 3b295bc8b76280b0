"""transformers' attention masks while a model is captured."""

from __future__ import annotations

import pytest
import torch
import transformers
from transformers import masking_utils

import opbridge
from opbridge.base.torch_private import torch_overrides
from opbridge.base.transformers_private import masks


def test_a_mask_of_ones_is_not_made():
    ignores = masking_utils._ignore_bidirectional_mask_sdpa
    with torch_overrides.as_while_exporting():
        assert not ignores(None, 4)
        with masks.without_masks_of_ones():
            inside = masking_utils._ignore_bidirectional_mask_sdpa
            assert inside(None, 4)
            assert not inside(torch.ones(1, 4), 4) and not inside(None, 4, 8)
    assert masking_utils._ignore_bidirectional_mask_sdpa is ignores


@pytest.mark.slow
def test_a_model_that_shortens_its_sequence():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.config = transformers.BertConfig(hidden_size=16, num_attention_heads=2)
            self.config._attn_implementation = "sdpa"

        def forward(self, x):
            mask = masking_utils.create_bidirectional_mask(self.config, x, None)
            x = x[:, ::2]
            return torch.nn.functional.scaled_dot_product_attention(x, x, x, mask)

    x = torch.randn(2, 8, 16)
    program = opbridge.export(Model().eval(), (x,), dynamic_shapes=({0: "batch", 1: "sequence"},))
    assert program.verification.ok
