"""The layers of transformers' caches in the forms that its releases have had, whichever is installed."""

from __future__ import annotations

import copy
import sys

import pytest
import torch
from helpers import causal_models
from torch.utils import _pytree as pytree
from transformers import DynamicCache, cache_utils

from opbridge.capture.cache_shapes import shapes_of_cache
from opbridge.capture.containers import register_containers
from opbridge.model_support import caches
from opbridge.model_support.transformers import cache_layers
from opbridge.model_support.transformers import caches as of_transformers
from opbridge.model_support.transformers import causal_models as private


class Cache:
    """A cache of lists, as releases before 4.54 have it."""

    def __init__(self):
        self.key_cache, self.value_cache = [], []

    def update(self, key_states, value_states, layer_idx, cache_kwargs=None):
        while len(self.key_cache) <= layer_idx:
            self.key_cache.append(torch.tensor([]))
            self.value_cache.append(torch.tensor([]))
        assert not self.key_cache[layer_idx].numel()
        self.key_cache[layer_idx], self.value_cache[layer_idx] = key_states, value_states
        return key_states, value_states

    def get_seq_length(self, layer_idx=0):
        raise AssertionError("it is asked whether it is empty")


class Static(Cache):
    max_cache_len = 4


class WithStates(Cache):
    def __init__(self):
        super().__init__()
        self.conv_states, self.by_layer = [torch.ones(2, 1), [], torch.ones(2, 3)], {1: torch.ones(2, 4)}


class WithOthers(WithStates):
    def __init__(self):
        super().__init__()
        self.step, self.by_name = torch.ones(()), {"x": torch.ones(2)}


for kind in (Cache, Static, WithStates, WithOthers):
    kind.__module__ = cache_layers.MODULE
    kind.__qualname__ = kind.__name__


@pytest.fixture
def lists(monkeypatch):
    """A class of caches of lists, which is the installed release's."""
    monkeypatch.setattr(cache_utils, "DynamicCache", Cache)
    return Cache


def _filled(cache, layers=(0, 2)):
    for layer in layers:
        cache.update(torch.randn(2, 3, 4, 5), torch.randn(2, 3, 4, 5), layer)
    return cache


def test_a_cache_of_lists_becomes_tensors_and_a_cache_again(lists):
    cache = _filled(lists())
    register_containers(cache)
    leaves, structure = pytree.tree_flatten(cache)
    places = [part.place for part, _ in caches.parts(cache)]
    assert places == [f".{what}_cache[{layer}]" for layer in (0, 2) for what in ("key", "value")]
    names = [part.name("past_key_values", "past") for part, _ in caches.parts(cache)]
    assert names == [f"past_key_values.{layer}.{what}" for layer in (0, 2) for what in ("key", "value")]
    made = pytree.tree_unflatten([leaf[:, :, :0] for leaf in leaves], structure)
    assert type(made) is lists and made.get_seq_length() == 0 == made.get_seq_length(1) == made.get_seq_length(7)
    new = torch.randn(2, 3, 1, 5)
    assert made.update(new, new, 0)[0].shape[2] == 1 == made.get_seq_length()
    assert made.update(new, new, 1)[0] is new and made.update(new, new, 3)[0] is new
    assert [id(leaf) for leaf in pytree.tree_leaves(cache)] == [id(leaf) for leaf in leaves]  # it is as it was
    assert len(cache.key_cache) == 3
    other = copy.deepcopy(made)
    other.update(new, new, 0)
    assert (other.get_seq_length(), made.get_seq_length()) == (2, 1)


def test_what_a_cache_of_lists_says(lists):
    rule = {0: "batch", 2: "past"}
    assert shapes_of_cache("x", _filled(lists()), rule) == [rule] * 4
    assert shapes_of_cache("x", _filled(Static()), rule) == [{0: "batch"}] * 4
    assert caches.refusal(_filled(lists())) == "" and of_transformers.sliding_layers(_filled(lists())) == 0
    assert caches.of_all_tokens(cache := _filled(lists())) is cache
    assert list(caches.parts(lists())) == []


def test_tensors_outside_of_layers_are_refused(lists):
    assert caches.refusal(WithOthers()) == (
        "it has tensors outside of its layers (step, by_name), which are not supported"
    )


def test_states_by_the_numbers_of_layers_are_parts(lists):
    cache = _filled(WithStates(), layers=(1,))
    assert caches.refusal(cache) == ""
    register_containers(cache)
    places = [part.place for part, _ in caches.parts(cache)]
    assert places == [".conv_states[0]", ".key_cache[1]", ".value_cache[1]", ".by_layer[1]", ".conv_states[2]"]
    names = [part.name("past_key_values", "past") for part, _ in caches.parts(cache)]
    assert (names[0], names[3], names[4]) == ("past_conv.0", "past_by_layer.1", "past_conv.2")
    leaves, structure = pytree.tree_flatten(cache)
    made = pytree.tree_unflatten([leaf * 2 for leaf in leaves], structure)
    assert made.conv_states[1] == [] and made.conv_states[2].equal(2 * torch.ones(2, 3))
    assert made.by_layer[1].equal(2 * torch.ones(2, 4)) and cache.by_layer[1].equal(torch.ones(2, 4))
    assert made.key_cache[1].equal(2 * cache.key_cache[1])


def test_a_layer_that_does_not_say_whether_it_is_filled():
    class Layer:
        keys = None

    layer = Layer()
    assert not cache_layers.is_filled(layer)
    layer.keys = torch.ones(1, 1, 1, 1)
    assert cache_layers.is_filled(layer)


@pytest.mark.parametrize("lacking", ["SlidingWindow", "LinearAttention", "Layer"])
def test_classes_that_a_release_lacks_are_none_of_the_kinds(monkeypatch, lacking):
    found = cache_layers.kind
    monkeypatch.setattr(cache_layers, "kind", lambda name: None if lacking in name else found(name))
    kinds = cache_layers.kinds_of_any_length()
    assert not any(lacking in each.__name__ for each in kinds)
    assert cache_layers.sliding_kinds().keys() <= kinds.keys()
    cache = DynamicCache()
    cache.update(torch.randn(2, 3, 4, 5), torch.randn(2, 3, 4, 5), 0)
    register_containers(cache)
    leaves, structure = pytree.tree_flatten(cache)
    assert pytree.tree_unflatten(leaves, structure).get_seq_length() == 4
    assert caches.refusal(cache) == "" and of_transformers.layers_without_tokens(cache) == 0


def test_a_class_that_no_release_has():
    assert cache_layers.kind("DynamicCache") is DynamicCache and cache_layers.kind("SuchAsNone") is None


@pytest.mark.parametrize("name", ["llama", "mistral", "gemma3"])
def test_a_new_cache_holds_all_tokens(name):
    model = causal_models.make(name)
    cache = private.cache_after(model, torch.randint(2, 99, (2, 12)))
    sizes = {tensor.shape[2] for _, tensor in caches.parts(cache)}
    assert sizes == {12} and of_transformers.layers_without_tokens(cache) == 0


def test_without_transformers_there_are_no_kinds(monkeypatch):
    monkeypatch.delitem(sys.modules, cache_layers.MODULE)
    assert cache_layers.kinds_of_any_length() == {} == cache_layers.sliding_kinds()
