"""transformers' attention masks while a model is captured."""

from __future__ import annotations

import inspect

import pytest
import torch
import transformers
from helpers.transformers_classes import of_module
from transformers import masking_utils, modeling_utils

import opbridge
from opbridge.base.torch_private import torch_overrides
from opbridge.model_support.transformers import masks


def test_a_mask_of_ones_is_not_made():
    ignores = of_module("masking_utils", masks._NAME)
    if "local_attention_size" not in inspect.signature(ignores).parameters:
        pytest.skip(f"this transformers has another {masks._NAME}")
    with torch_overrides.as_while_exporting():
        assert not ignores(None, 4)
        with masks.without_masks_of_ones():
            inside = masking_utils._ignore_bidirectional_mask_sdpa
            assert inside(None, 4)
            assert not inside(torch.ones(1, 4), 4) and not inside(None, 4, 8)
    assert masking_utils._ignore_bidirectional_mask_sdpa is ignores


def test_a_function_that_takes_the_padding_alone(monkeypatch):
    """As transformers 5.0 has it."""
    monkeypatch.setattr(masking_utils, masks._NAME, lambda padding_mask: False, raising=False)
    with masks.without_masks_of_ones():
        inside = getattr(masking_utils, masks._NAME)
        assert inside(None) and not inside(torch.ones(1, 4))


@pytest.mark.slow
def test_a_model_that_shortens_its_sequence():
    create_mask = of_module("masking_utils", "create_bidirectional_mask")

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.config = transformers.BertConfig(hidden_size=16, num_attention_heads=2)
            self.config._attn_implementation = "sdpa"

        def forward(self, x):
            mask = create_mask(self.config, x, None)
            x = x[:, ::2]
            return torch.nn.functional.scaled_dot_product_attention(x, x, x, mask)

    x = torch.randn(2, 8, 16)
    program = opbridge.export(Model().eval(), (x,), dynamic_shapes=({0: "batch", 1: "sequence"},))
    assert program.verification.ok


class _Layer(torch.nn.Module):
    """Attention that says whether it is causal, with a causal mask of transformers'."""

    def __init__(self, is_causal):
        super().__init__()
        self.is_causal = is_causal
        self.config = transformers.LlamaConfig(hidden_size=16, num_attention_heads=2)
        self.config._attn_implementation = "sdpa"

    def forward(self, x, attention_mask):
        positions = torch.arange(x.shape[1])[None]
        given = {"config": self.config, "inputs_embeds": x, "attention_mask": attention_mask, "position_ids": positions}
        named = inspect.signature(masking_utils.create_causal_mask).parameters
        mask = masking_utils.create_causal_mask(**given, **{"cache" if "cache" in named else "past_key_values": None})
        attend = modeling_utils.ALL_ATTENTION_FUNCTIONS.get_interface("sdpa", None)
        return attend(self, x[:, None], x[:, None], x[:, None], mask)[0]


@pytest.mark.slow
@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("shapes", [None, {"x": {0: "batch", 1: "n"}, "attention_mask": {0: "batch", 1: "n"}}])
def test_a_layer_attends_to_all_tokens_where_nothing_is_padded(is_causal, shapes):
    if tuple(inspect.signature(masking_utils._ignore_causal_mask_sdpa).parameters) != masks._CAUSAL_PARAMETERS:
        pytest.skip(f"this transformers has another {masks._CAUSAL}")  # transformers is not pinned
    before = {**masking_utils.AttentionMaskInterface._global_mapping}
    model, x = _Layer(is_causal).eval(), torch.randn(2, 6, 16)
    full, padded = torch.ones(2, 6, dtype=torch.int64), torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])
    for example, other in ((full, padded), (padded, full)):
        program = opbridge.export(model, (x, example), dynamic_shapes=shapes)
        assert program.verification.ok and not program.capture.decisions
        feeds = {"x": x.numpy(), "attention_mask": other.numpy()}
        (found,) = program.session().run(None, feeds)
        torch.testing.assert_close(torch.from_numpy(found), model(x, other))
    assert masking_utils.AttentionMaskInterface._global_mapping == before
