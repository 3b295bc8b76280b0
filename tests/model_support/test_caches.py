"""transformers' caches as containers of tensors."""

from __future__ import annotations

import pytest
import torch
from helpers import causal_models
from torch.utils import _pytree as pytree
from transformers import DynamicCache, EncoderDecoderCache, StaticCache

from opbridge.capture.containers import register_containers
from opbridge.model_support import caches
from opbridge.model_support.transformers import caches as of_transformers


def _of(name):
    model = causal_models.make_with_layers(name)
    return causal_models.filled(model, torch.randint(2, 99, (2, 4)))


def _names(cache):
    return [part.name("past_key_values", "past") for part, _ in caches.parts(cache)]


@pytest.mark.parametrize("name", ["llama", "mistral", "mamba", "bamba", "lfm2"])
def test_a_cache_becomes_tensors_and_a_cache_again(name):
    cache = _of(name)
    register_containers(cache)
    # Some releases register DynamicCache themselves, in a form of their own.
    leaves, structure = caches.taking_caches(pytree.tree_flatten)(cache)
    made = caches.taking_caches(pytree.tree_unflatten)([leaf + 1 for leaf in leaves], structure)
    assert type(made) is type(cache) and _names(made) == _names(cache)
    for before, (_, after) in zip(leaves, caches.parts(made), strict=True):
        torch.testing.assert_close(after, before + 1)
    assert [id(leaf) for _, leaf in caches.parts(cache)] == [id(leaf) for leaf in leaves]  # it is as it was


def test_names():
    assert _names(_of("llama"))[:3] == ["past_key_values.0.key", "past_key_values.0.value", "past_key_values.1.key"]
    both = EncoderDecoderCache(_of("llama"), _of("llama"))
    assert _names(both)[:4] == [
        f"past_key_values.0.{half}.{what}" for half in ("decoder", "encoder") for what in ("key", "value")
    ]


def test_names_of_states():
    assert _names(_of("bamba")) == [
        "past_conv.0",
        "past_recurrent.0",
        "past_key_values.1.key",
        "past_key_values.1.value",
    ]


def test_a_static_cache():
    model = causal_models.make("llama")
    cache = StaticCache(config=model.config, max_batch_size=2, max_cache_len=8)
    before = _names(cache)
    causal_models.filled(model, torch.randint(2, 99, (2, 3)), cache)
    names = _names(cache)
    assert before in ([], names)  # a release makes the tensors at once or at the first call
    assert names[:2] == ["past_key_values.0.key", "past_key_values.0.value"]
    assert "past_key_values.0.length" in names or len(names) == 4  # a release counts in a tensor or asks the keys
    assert all(part.grows is None for part, _ in caches.parts(cache))
    assert caches.refusal(cache) == ""


def _sliding(length):
    model = causal_models.make("mistral")
    cache = causal_models.filled(model, torch.randint(2, 99, (1, length)))
    if of_transformers.sliding_layers(cache) == 0:
        pytest.skip("the DynamicCache of this transformers has no layers with a sliding window")
    return cache


def test_what_numbers_hide():
    cache = _sliding(5)
    assert caches.refusal(cache) == "" and of_transformers.sliding_layers(cache) == 2
    cache = _sliding(12)
    assert caches.refusal(cache) == "" and of_transformers.layers_without_tokens(cache) == 2
    other = type("Other", (type(cache.layers[0]),), {})
    cache.layers[0].__class__ = other
    assert "(Other) has seen 12 tokens and keeps the last 7" in caches.refusal(cache)
    model = causal_models.make("mistral")
    static = StaticCache(config=model.config, max_cache_len=32)
    causal_models.filled(model, torch.randint(2, 99, (1, 5)), static)
    assert "counts its tokens in a Python number" in caches.refusal(static)


def test_zeros_for_tokens_that_were_dropped():
    cache = _sliding(12)
    register_containers(cache)
    given = {"x": [cache], "y": torch.ones(2)}
    whole = caches.of_all_tokens(given)
    assert whole["y"] is given["y"] and cache.layers[0].keys.shape[2] == 7
    for before, after in zip(cache.layers, whole["x"][0].layers, strict=True):
        assert after.get_seq_length() == 12
        for kind in ("keys", "values"):
            padded = getattr(after, kind)
            assert not padded[:, :, :5].any()
            torch.testing.assert_close(padded[:, :, 5:], getattr(before, kind))
    assert caches.of_all_tokens(whole) is whole


class _Registered(DynamicCache):
    pass


def _theirs(cache):
    return [tensor for part, tensor in caches.parts(cache) if part.role == "key"], None


pytree.register_pytree_node(_Registered, _theirs, lambda items, _: None, serialized_type_name="tests._Registered")


def test_a_form_of_others_comes_back():
    cache = _Registered()
    cache.update(torch.ones(1, 1, 2, 3), torch.zeros(1, 1, 2, 3), 0)
    assert len(pytree.tree_leaves(cache)) == 1
    assert len(caches.taking_caches(pytree.tree_leaves)(cache)) == 2
    with pytest.raises(ZeroDivisionError):
        caches.taking_caches(lambda: 1 / 0)()
    assert len(pytree.tree_leaves(cache)) == 1
