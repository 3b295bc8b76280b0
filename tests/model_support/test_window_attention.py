"""The attention of Longformer: windows and global tokens, in a file for any of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import opbridge
from opbridge.model_support import applying

transformers = pytest.importorskip("transformers", reason="not installed")

_NAMES = ("input_ids", "attention_mask", "global_attention_mask")


@pytest.fixture(scope="module")
def model():
    config = transformers.LongformerConfig(
        vocab_size=40,
        attention_window=[4, 8],
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=80,
    )
    torch.manual_seed(0)
    return transformers.LongformerModel(config, add_pooling_layer=False).eval()


def _inputs(batch, tokens, padded=0, places=()):
    mask = torch.ones(batch, tokens, dtype=torch.int64)
    mask[0, tokens - padded :] = 0
    of_global = torch.zeros_like(mask)
    of_global[0, list(places)] = 1
    return torch.randint(3, 40, (batch, tokens)), mask, of_global


@pytest.mark.slow
def test_a_file_takes_any_length_and_any_global_tokens(model):
    sizes = {0: "batch", 1: "tokens"}
    program = opbridge.export(
        model,
        kwargs=dict(zip(_NAMES, _inputs(2, 13, 2, [0, 3]), strict=True)),
        dynamic_shapes=dict.fromkeys(_NAMES, sizes),
    )
    assert not {"If", "Loop"} & {each.op_type for each in program.model.graph.all_nodes()}
    session = program.session()
    for given in (_inputs(1, 16), _inputs(3, 31, 9, range(20)), _inputs(2, 8, 0, [7]), _inputs(1, 5, 1, [2])):
        found = session.run(None, {name: each.numpy() for name, each in zip(_NAMES, given, strict=True)})[0]
        with torch.no_grad():
            expected = model(**dict(zip(_NAMES, given, strict=True))).last_hidden_state
        mask = given[1].bool().numpy()
        np.testing.assert_allclose(found[mask], expected.numpy()[mask], rtol=1e-4, atol=1e-5)


def test_weights_are_computed_as_before(model):
    given = dict(zip(_NAMES, _inputs(2, 13, 2, [0, 3]), strict=True))
    with torch.no_grad():
        expected = model(**given, output_attentions=True)
        with applying.applied(model):
            found = model(**given, output_attentions=True)
    for name in ("attentions", "global_attentions"):
        torch.testing.assert_close(found[name], expected[name])
