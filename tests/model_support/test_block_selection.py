"""Blocks of tokens that queries attend to, selected for all queries at once."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.transformers_classes import of_module

import opbridge
from opbridge.model_support.transformers import block_selection, comparison_inputs

pytest.importorskip("transformers", reason="not installed")


@pytest.fixture(scope="module")
def model():
    kind = of_module("models.qwen4_exp.modeling_qwen4_exp", "Qwen4ExpTextQSAIndexer")
    ((made, *_), _), *_ = comparison_inputs.seen_blocks(kind)

    class Indexer(kind):
        __module__ = kind.__module__  # so that functions of that module are those of the model

        def __init__(self):
            torch.nn.Module.__init__(self)
            vars(self).update(vars(made))

        def forward(self, hidden, cos, sin, mask):
            return super().forward(hidden, (cos, sin), mask, None)

    return Indexer().eval()


def _inputs(batch, tokens, mask):
    return torch.randn(batch, tokens, 16), *torch.randn(2, batch, tokens, 4).unbind(0), mask.expand(batch, 1, -1, -1)


def _causal(tokens):
    return torch.ones(tokens, tokens, dtype=torch.bool).tril()


@pytest.mark.slow
def test_a_file_selects_for_any_number_of_tokens_and_any_mask(model):
    torch.manual_seed(0)
    dynamic = {0: "batch", 1: "tokens"}
    program = opbridge.export(
        model,
        _inputs(2, 11, _causal(11)),
        dynamic_shapes={
            "hidden": dynamic,
            "cos": dynamic,
            "sin": dynamic,
            "mask": {0: "batch", 2: "tokens", 3: "tokens"},
        },
    )
    assert not {"Loop", "If", "Scan"} & {each.op_type for each in program.model.graph.all_nodes()}
    session = program.session()
    for batch, tokens in ((1, 2), (3, 23)):
        for mask in (_causal(tokens), torch.rand(tokens, tokens) > 0.4, torch.zeros(tokens, tokens, dtype=torch.bool)):
            given = _inputs(batch, tokens, mask)
            names = ("hidden", "cos", "sin", "mask")
            (found,) = session.run(None, {name: each.numpy() for name, each in zip(names, given, strict=True)})
            np.testing.assert_array_equal(found, model(*given))


def test_keys_are_pooled_once_where_all_queries_have_the_same_blocks():
    visible = torch.stack([_causal(5), _causal(5) & (torch.arange(5) > 1)])
    assert block_selection._orders(visible, visible.sum(-1, keepdim=True)).shape == (2, 1, 5)
    visible[0, 4, 1] = False
    orders = block_selection._orders(visible, visible.sum(-1, keepdim=True))
    assert orders.shape == (2, 5, 5) and orders[0, 4].tolist() == [0, 2, 3, 4, 1]
