"""Caches of single models of transformers as containers of tensors."""

from __future__ import annotations

import pytest
import torch
from helpers.transformers_classes import of_module

import opbridge
from opbridge.model_support import caches

pytest.importorskip("transformers", reason="not installed")


def _of_xlstm(batch=2):
    from transformers import xLSTMConfig

    kind = of_module("models.xlstm.modeling_xlstm", "xLSTMCache")
    config = xLSTMConfig(
        hidden_size=8, num_heads=2, num_hidden_layers=2, qk_dim_factor=1.0, mlstm_round_up_to_multiple_of=1
    )
    return kind(config, batch, dtype=torch.float32)


def _of_reformer(batch=2):
    kind = of_module("models.reformer.modeling_reformer", "ReformerDynamicCache")
    buckets = torch.zeros(batch, 2, 1, 6, dtype=torch.int64)
    return kind([(torch.tensor([]), torch.randn(batch, 6, 8)), (buckets, torch.randn(batch, 6, 8))])


class Counting(torch.nn.Module):
    """Returns its cache, whose states it changes as xLSTM does."""

    def forward(self, x, cache):
        for states in cache.rnn_state.values():
            for state in states:
                state.copy_(state * 2 + x.sum())
        cache.seqlen_offset += x.shape[1]
        return cache


class Appending(torch.nn.Module):
    """Returns its cache, with further states in its first layer."""

    def forward(self, x, past_buckets_states):
        past_buckets_states.update(None, x, 0)
        return past_buckets_states


def test_the_parts_of_both():
    names = [part.name("past_key_values", "past") for part, _ in caches.parts(_of_xlstm())]
    assert names[:3] == ["past_recurrent.0", "past_recurrent.0.1", "past_recurrent.0.2"]
    assert len(names) == 7 and names[-1] == "past_key_values.0.length"
    names = [part.name("past_key_values", "past") for part, _ in caches.parts(_of_reformer())]
    assert names == ["past_key_values.0.state", "past_key_values.1.state", "past_key_values.1.bucket"]


@pytest.mark.parametrize("make", [_of_xlstm, _of_reformer])
def test_a_cache_with_other_tensors_leaves_the_first_as_it_is(make):
    cache = make()
    values = [each + 1 for _, each in caches.parts(cache)]
    before = [each.clone() for _, each in caches.parts(cache)]
    made = caches.with_tensors(cache, values)
    assert type(made) is type(cache)
    assert all(each is value for (_, each), value in zip(caches.parts(made), values, strict=True))
    assert all(map(torch.equal, (each for _, each in caches.parts(cache)), before))


@pytest.mark.slow
def test_both_are_inputs_and_outputs():
    others = {"batch": 3}
    program = opbridge.export(
        Counting(),
        (torch.randn(2, 5), _of_xlstm()),
        dynamic_shapes=({0: "batch", 1: "tokens"}, {0: "batch"}),
        inputs=[(torch.randn(3, 7), _of_xlstm(**others))],
    )
    assert program.verification.ok and len(program.model.graph.outputs) == 7
    program = opbridge.export(
        Appending(),
        (torch.randn(2, 1, 8), _of_reformer()),
        dynamic_shapes=({0: "batch", 1: "new"}, {0: "batch"}),
        inputs=[(torch.randn(3, 2, 8), _of_reformer(**others))],
    )
    assert program.verification.ok and len(program.model.graph.outputs) == 3
