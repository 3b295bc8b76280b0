"""transformers' Longformer, which asks whether there is global attention, and whose indices are of data."""

from __future__ import annotations

import pytest
import torch
from helpers.rows import one_in

import opbridge

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("is_global", one_in(2, [True, False]), ids=["global", "local"])
def test_longformer(is_global):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    config = transformers.LongformerConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=20,
        attention_window=[4],
        max_position_embeddings=40,
        pad_token_id=1,
        initializer_range=1.0,  # so that what comes out depends on the scores of the attention
    )
    torch.manual_seed(0)
    model = transformers.LongformerModel(config).eval()
    ids = torch.randint(2, 50, (2, 13))
    given = {"input_ids": ids, "attention_mask": (torch.arange(13) < torch.tensor([[13], [9]])).long()}
    if is_global:
        given["global_attention_mask"] = (torch.arange(13) % 4 == 0).long() * torch.tensor([[1], [0]])
    program = opbridge.export(model, (), kwargs=given)
    assert program.verification is not None and program.verification.ok
    if not is_global:
        return
    assert not program.plan.decisions  # the attention to global tokens is computed for any number of them
    session = program.session()
    names = [each.name for each in session.get_inputs()]
    for marked in ([], [(0, 0)], [(0, 0), (0, 1), (0, 2), (1, 5)]):
        given["global_attention_mask"] = torch.zeros_like(ids)
        for place in marked:
            given["global_attention_mask"][place] = 1
        with torch.no_grad():
            expected = model(**given)[0]
        found = session.run(None, {name: given[name].numpy() for name in names})[0]
        torch.testing.assert_close(torch.from_numpy(found), expected, rtol=1e-4, atol=1e-4)
