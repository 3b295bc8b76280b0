"""The task text-generation: inputs, names, sizes, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import causal_models

import opbridge
from opbridge.capture.resolved_call import resolved_call
from opbridge.errors import UsageError
from opbridge.tasks import prepare, suggestion


def _prepared(model, args=(), kwargs=None):
    return prepare("text-generation", model, args, kwargs, None)


@pytest.mark.slow
def test_inputs_names_and_sizes():
    model = causal_models.make("llama")
    program = opbridge.export(model, task="text-generation")
    inputs = {value.name: [str(size) for size in value.shape] for value in program.model.graph.inputs}
    assert list(inputs) == [
        "input_ids",
        "attention_mask",
        "position_ids",
        *(f"past_key_values.{layer}.{what}" for layer in (0, 1) for what in ("key", "value")),
    ]
    assert inputs["attention_mask"] == ["batch", "past_sequence + sequence"]
    assert inputs["past_key_values.0.key"] == ["batch", "2", "past_sequence", "8"]
    assert [value.name for value in program.model.graph.outputs] == [
        "logits",
        *(f"present.{layer}.{what}" for layer in (0, 1) for what in ("key", "value")),
    ]


@pytest.mark.slow
def test_names_of_the_user_win():
    model = causal_models.make("llama")
    program = opbridge.export(model, task="text-generation", input_names=["tokens"], output_names=["scores"])
    assert [value.name for value in program.model.graph.inputs][:2] == ["tokens", "attention_mask"]
    assert [value.name for value in program.model.graph.outputs][:2] == ["scores", "present.0.key"]


@pytest.mark.slow
def test_padding_on_the_left():
    model = causal_models.make("llama")
    session = opbridge.export(model, task="text-generation").session()
    tokens = torch.randint(2, 99, (2, 6))
    mask = torch.ones(2, 6, dtype=torch.int64)
    mask[0, :2] = 0
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    empty = {
        each.name: np.zeros([2, 2, 0, 8], np.float32) for each in session.get_inputs() if each.name.startswith("past")
    }
    given = {"input_ids": tokens, "attention_mask": mask, "position_ids": positions}
    (logits,) = session.run(["logits"], {name: value.numpy() for name, value in given.items()} | empty)
    with torch.no_grad():
        alone = model(tokens[:1, 2:]).logits
        other = model(tokens[1:]).logits
    np.testing.assert_allclose(logits[:1, 2:], alone.numpy(), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(logits[1:], other.numpy(), rtol=1e-3, atol=1e-3)


def test_a_prompt_single_tokens_and_empty_caches_are_tried():
    prepared = _prepared(causal_models.make("mistral"))
    caches = [next(value for value in each.values() if hasattr(value, "get_seq_length")) for each in prepared.inputs]
    sizes = {
        (*each["input_ids"].shape, cache.get_seq_length()) for each, cache in zip(prepared.inputs, caches, strict=True)
    }
    assert {past for _, _, past in sizes} >= {0, 1, 4}
    assert {batch for batch, _, _ in sizes} >= {1, 2, 3} and {new for _, new, _ in sizes} >= {1, 3, 5}


def test_contiguous_texts_have_no_padding_and_go_on_by_one_token():
    prepared = prepare("text-generation", causal_models.make("llama"), (), None, None, contiguous=True)
    calls = [prepared.kwargs, *prepared.inputs]
    assert all(bool(each["attention_mask"].all()) for each in calls)
    for each in calls:
        batch, new = each["input_ids"].shape
        assert 1 in (batch, new) or each["attention_mask"].shape[1] == new
    assert {each["input_ids"].shape[0] for each in calls} >= {1, 2, 3}


def test_a_model_with_recurrent_states_takes_one_token_at_a_time():
    prepared = _prepared(causal_models.make_with_layers("mamba"))
    assert prepared.dynamic_shapes["input_ids"] == {0: "batch"} and "one token at a time" in prepared.notes[0]
    assert "attention_mask" not in prepared.kwargs


class _Own:
    """A cache of a class that transformers' caches have nothing in common with."""


def test_a_model_with_a_cache_of_its_own_is_refused():
    model = causal_models.make("llama")
    forward = model.forward

    def keeping(input_ids, past_key_values=None, use_cache=None):
        assert past_key_values is None
        result = forward(input_ids, use_cache=False)
        result["past_key_values"] = _Own()
        return result

    model.forward = keeping
    with pytest.raises(UsageError, match=r"its own cache class _Own in the installed version of transformers"):
        _prepared(model)


def test_a_model_that_takes_no_dynamic_cache_is_refused():
    model = causal_models.make("llama")
    forward = model.forward

    def asking(input_ids, past_key_values=None, use_cache=None):
        if past_key_values is not None:
            raise AttributeError("no has_previous_state")
        return forward(input_ids, use_cache=False)

    model.forward = asking
    with pytest.raises(UsageError, match=r"failed with a DynamicCache as past_key_values \(AttributeError: no has_"):
        _prepared(model)


class _OwnCache:
    pass


def test_a_cache_that_a_parameter_alone_names():
    model = causal_models.make("llama")
    forward = model.forward

    def named(input_ids, past_key_values: _OwnCache | None = None, use_cache=None):
        return forward(input_ids, use_cache=False)

    named.__annotations__["past_key_values"] = _OwnCache | None
    model.forward = named
    with pytest.raises(UsageError, match=r"its own cache class _OwnCache in the installed version"):
        _prepared(model)


def test_tokens_of_the_user():
    tokens = torch.tensor([[5, 6, 7]])
    for args, kwargs in (((tokens,), None), (tokens, None), ((), {"input_ids": tokens})):
        prepared = _prepared(causal_models.make("llama"), args, kwargs)
        assert set(prepared.kwargs["input_ids"].reshape(-1).tolist()) <= {5, 6, 7}


def test_wrong_use():
    model = causal_models.make("llama")
    with pytest.raises(UsageError, match=r"Unknown task 'translation'. The tasks are text-generation"):
        opbridge.export(model, task="translation")
    with pytest.raises(UsageError, match=r"causal language models of transformers.*is a Linear"):
        opbridge.export(torch.nn.Linear(2, 2), task="text-generation")
    with pytest.raises(UsageError, match=r"Leave dynamic_shapes out"):
        opbridge.export(model, task="text-generation", dynamic_shapes={"input_ids": {0: "batch"}})
    with pytest.raises(UsageError, match=r"integer tensor of shape \[batch, length\]"):
        opbridge.export(model, (torch.ones(2),), task="text-generation")


def test_a_model_that_does_not_go_on_from_its_cache_is_refused():
    model = causal_models.make("llama")
    forward = model.forward

    def forgetting(input_ids, attention_mask=None, past_key_values=None, use_cache=None):
        result = forward(input_ids, use_cache=use_cache)
        return result

    model.forward = forgetting
    with pytest.raises(UsageError, match=r"different logits with the cache"):
        opbridge.check(model, task="text-generation")


@pytest.mark.slow
def test_the_task_is_suggested_for_a_model_that_returns_a_cache_and_gets_none():
    model, tokens = causal_models.make("llama"), torch.ones(1, 3, dtype=torch.int64)
    [note] = [each for each in opbridge.check(model, (tokens,)).notes if "text-generation" in each]
    assert note.startswith("LlamaForCausalLM returns a cache") and "use_cache=False" in note


def test_the_task_is_not_suggested():
    model, tokens = causal_models.make("llama"), torch.ones(1, 3, dtype=torch.int64)
    assert not suggestion(resolved_call(model, (tokens,), {"use_cache": False}))
    assert not suggestion(resolved_call(model, (), _prepared(model).kwargs))
    assert not suggestion(resolved_call(torch.nn.Linear(2, 2), torch.ones(1, 2)))
